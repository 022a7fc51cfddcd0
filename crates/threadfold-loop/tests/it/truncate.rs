//! Tools with more output than a request has room for: the run continues.

use std::sync::{Arc, Mutex};

use threadfold_core::{ImagePart, MessagePart, MessagePartBody};
use threadfold_loop::{
    Effect, Limits, Progress, RenderedPrompt, Resume, RunOutcome, ToolContext, ToolError,
    ToolOutput,
};

use crate::support::{
    CountingTool, Model, ToolAction, agent_loop, answer_calls, answer_text, store,
};

fn gives(output: impl Fn() -> Result<ToolOutput, ToolError> + Send + Sync + 'static) -> ToolAction {
    Box::new(move |_: &str, _: &ToolContext| output())
}

fn image(length: usize) -> MessagePart {
    let (media_type, data) = (Some("image/png".into()), Some("A".repeat(length).into()));
    MessagePartBody::Image(ImagePart { media_type, data, url: None }).into()
}

/// Runs one turn with these calls of one tool.
async fn run(calls: &[&str], deed: ToolAction, limits: Limits) -> (RunOutcome, Vec<usize>) {
    let store = store();
    let calls: Vec<_> = calls.iter().map(|id| (*id, "give", "{}")).collect();
    let model = Model::new(vec![answer_calls(&calls), answer_text("I see.")]);
    let omitted = Arc::new(Mutex::new(Vec::new()));
    let noted = omitted.clone();
    let agent_loop = agent_loop(&store, &model)
        .tools([CountingTool::doing("give", Effect::Pure, deed) as _])
        .limits(limits)
        .watch(move |progress| {
            if let Progress::Omitted { bytes, .. } = progress {
                noted.lock().unwrap().push(*bytes);
            }
        });
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_eq!(finished.text(), "I see.");
    agent_loop.resume(&"s1".into(), Resume::default()).await.unwrap();
    let omitted = omitted.lock().unwrap().clone();
    (finished, omitted)
}

#[tokio::test]
async fn an_error_of_40_mb_is_truncated() {
    for error in [ToolError::failed, ToolError::unknown] {
        let deed = gives(move || Err(error("no ".repeat(14_000_000))));
        let (finished, _) = run(&["c1"], deed, Limits::default()).await;
        let text = finished.history[2].to_text();
        assert!(text.len() < 300 << 10 && text.contains("bytes omitted"), "{}", text.len());
    }
}

#[tokio::test]
async fn all_text_of_an_output_shares_one_limit() {
    let content = || vec![MessagePart::text(&"x".repeat(600)); 1000];
    let deed = gives(move || Ok(ToolOutput { content: content(), is_error: false }));
    let limits = Limits { output: 1000, ..Limits::default() };
    let (finished, _) = run(&["c1"], deed, limits).await;
    let text = finished.history[2].to_text();
    assert!(text.len() < 1100, "{}", text.len());
    assert!(text.contains("998 more parts with 598800 bytes omitted"), "{text}");
}

#[tokio::test]
async fn an_image_that_does_not_fit_is_replaced_by_a_note() {
    let content = || vec![image(4_000_000); 8];
    let deed = gives(move || Ok(ToolOutput { content: content(), is_error: false }));
    let (finished, _) = run(&["c1"], deed, Limits::default()).await;
    let content = &finished.history[2].content;
    assert_eq!(content[0], image(4_000_000));
    let words: Vec<_> = content[1..].iter().map(|it| it.to_text().unwrap()).collect();
    assert_eq!(words.len(), 7);
    assert!(words[0].starts_with("[a picture of 4000"), "{}", words[0]);
}

#[tokio::test]
async fn the_combined_output_of_parallel_calls_does_not_block_a_run() {
    let calls: Vec<_> = (0..9).map(|number| format!("c{number}")).collect();
    let calls: Vec<_> = calls.iter().map(String::as_str).collect();
    let deed = gives(|| Ok(ToolOutput { content: vec![image(4_000_000)], is_error: false }));
    let (finished, omitted) = run(&calls, deed, Limits::default()).await;
    assert_eq!(omitted.len(), 2, "{omitted:?}");
    assert_eq!(finished.history[2].content, [image(4_000_000)], "what was given is kept");
}

#[tokio::test]
async fn the_largest_output_is_omitted_with_a_note() {
    let store = store();
    let model = Model::new(vec![
        answer_calls(&[("c1", "give", "10"), ("c2", "give", "5000")]),
        answer_text("ok"),
    ]);
    let deed = |arguments: &str, _: &ToolContext| {
        Ok("x".repeat(arguments.parse().unwrap_or_default()).into())
    };
    let give = CountingTool::doing("give", Effect::Pure, Box::new(deed));
    let limits = Limits { request: 3000, ..Limits::default() };
    let agent_loop = agent_loop(&store, &model).tools([give as _]).limits(limits);
    agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    let sent = model.sent().pop().unwrap();
    let sent = std::str::from_utf8(&sent).unwrap();
    assert!(sent.contains("xxxxxxxxxx") && sent.len() < 3000, "{sent}");
    assert!(sent.contains("[5000 bytes were omitted"), "{sent}");
}
