//! A run that is not killed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use insta::assert_snapshot;
use serde_json::Value;
use threadfold_core::{BlockBody, CallState, Json};
use threadfold_engine::load;
use threadfold_fold::Slices;
use threadfold_loop::{
    AgentLoop, Answer, Delta, Deltas, Dialect, Effect, Limits, LoopError, Progress, Provider,
    ProviderError, RenderedPrompt, RunLimit, ToolError, ToolOutput,
};

use crate::support::{
    CountingTool, Model, agent_loop, answer_calls, answer_text, describe, soon, store, turns,
};

#[tokio::test]
async fn a_run_continues_until_the_model_requests_nothing_more() {
    let store = store();
    let model = Model::new(vec![
        answer_calls(&[("c1", "look", "{}"), ("c2", "pay", r#"{"amount":5}"#)]),
        answer_calls(&[("c3", "look", "{}")]),
        answer_text("All is paid."),
    ]);
    let look = CountingTool::new("look", Effect::Pure);
    let pay = CountingTool::new("pay", Effect::Unsafe);
    let agent_loop = agent_loop(&store, &model).tools([look.clone() as _, pay.clone() as _]);

    let finished =
        agent_loop.run(&"s1".into(), &RenderedPrompt::text("Pay the bill")).await.unwrap();

    assert_eq!(finished.text(), "All is paid.");
    assert_eq!((look.count(), pay.count()), (2, 1));
    assert_snapshot!(describe(&finished.history), @r"
    user: Pay the bill
    assistant:  +look +pay
    tool: look done
    tool: pay done
    assistant:  +look
    tool: look done
    assistant: All is paid.
    ");
    let keys = look.keys.lock().unwrap();
    assert_ne!(keys[0], keys[1], "two equal calls have two keys");
}

#[tokio::test]
async fn a_request_repeats_earlier_items_byte_for_byte() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text("done")]);
    let agent_loop =
        agent_loop(&store, &model).tools([CountingTool::new("look", Effect::Pure) as _]);
    agent_loop.run(&"s1".into(), &RenderedPrompt::text("Look")).await.unwrap();

    let sent = model.sent();
    let before = std::str::from_utf8(&sent[0]).unwrap();
    let after = std::str::from_utf8(&sent[1]).unwrap();
    let common = before.strip_suffix(r#"],"stream":true}"#).unwrap();
    assert!(after.starts_with(common), "{before}\n{after}");
    let request: Value = serde_json::from_str(after).unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&request["messages"][2]).unwrap(), @r#"
    {
      "content": [
        {
          "content": [
            {
              "text": "look done",
              "type": "text"
            }
          ],
          "tool_use_id": "c1",
          "type": "tool_result"
        }
      ],
      "role": "user"
    }
    "#);
}

#[tokio::test]
async fn a_loop_is_shown_like_any_session() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text("done")]);
    let agent_loop =
        agent_loop(&store, &model).tools([CountingTool::new("look", Effect::Pure) as _]);
    agent_loop.run(&"s1".into(), &RenderedPrompt::text("Look")).await.unwrap();
    let loaded = load(&store, &"s1".into(), u64::MAX, Slices::default()).await.unwrap();
    let state = loaded.fold.conversation();
    let kinds: Vec<_> = state.blocks().iter().map(|block| block.body.kind().to_owned()).collect();
    assert_eq!(kinds, ["user_message", "tool_use", "tool_result", "assistant_text"]);
    assert_eq!(loaded.fold.oddities(), 0);
}

#[tokio::test]
async fn a_second_prompt_continues_the_conversation() {
    let store = store();
    let model = Model::new(vec![answer_text("Hello."), answer_text("Again.")]);
    let agent_loop = agent_loop(&store, &model);
    agent_loop.run(&"s1".into(), &RenderedPrompt::text("Hi")).await.unwrap();
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Hi again")).await.unwrap();
    assert_snapshot!(describe(&finished.history), @r"
    user: Hi
    assistant: Hello.
    user: Hi again
    assistant: Again.
    ");
}

#[tokio::test]
async fn failures_panics_and_unknown_tools_are_reported_to_the_model() {
    let store = store();
    let calls = [("c1", "fail", "{}"), ("c2", "panic", "{}"), ("c3", "nothing", "{}")];
    let model = Model::new(vec![answer_calls(&calls), answer_text("I see.")]);
    let fail =
        CountingTool::doing("fail", Effect::Unsafe, Box::new(|_, _| Err("no such bill".into())));
    let panic = CountingTool::doing("panic", Effect::Unsafe, Box::new(|_, _| panic!("oh no")));
    let agent_loop = agent_loop(&store, &model).tools([fail as _, panic as _]);
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_snapshot!(describe(&finished.history), @"
    user: Go
    assistant:  +fail +panic +nothing
    tool: (error) no such bill
    tool: (error) the tool panicked (oh no); its effects are unknown
    tool: (error) there is no tool `nothing`; available tools: fail, panic
    assistant: I see.
    ");
}

#[tokio::test]
async fn strings_are_failures_and_io_errors_are_unknown_outcomes() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "pay", "{}")]), answer_text("I see.")]);
    let pay = |_: &str, _: &threadfold_loop::ToolContext| {
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))?
    };
    let pay = CountingTool::doing("pay", Effect::Unsafe, Box::new(pay));
    let agent_loop = agent_loop(&store, &model).tools([pay as _]);
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_snapshot!(describe(&finished.history[2..3]), @"tool: (error) connection reset; the effects before that are unknown");
}

#[tokio::test]
async fn a_hanging_tool_is_stopped_with_an_unknown_outcome() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "hang", "{}")]), answer_text("I see.")]);
    let hang = threadfold_loop::tool("hang", "Hangs", |_: Value, _| async {
        std::future::pending::<Result<ToolOutput, ToolError>>().await
    });
    let brief = Duration::from_millis(20);
    let limits = Limits { tool_time: brief, grace: brief, ..Limits::default() };
    let agent_loop = agent_loop(&store, &model).tool(hang).limits(limits);
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_snapshot!(describe(&finished.history[2..3]), @"tool: (error) the tool was stopped after 20ms; its effects so far are unknown");
}

#[tokio::test]
async fn the_output_of_a_cancelled_tool_is_recorded() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "hang", "{}")]), answer_text("I see.")]);
    let hang = threadfold_loop::tool("hang", "Hangs", |_: Value, context| async move {
        context.cancel.cancelled().await;
        Ok(ToolOutput { is_error: true, ..ToolOutput::text("half of it; then it was stopped") })
    });
    let limits = Limits { tool_time: Duration::from_millis(20), ..Limits::default() };
    let agent_loop = agent_loop(&store, &model).tool(hang).limits(limits);
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_eq!(describe(&finished.history[2..3]), "tool: (error) half of it; then it was stopped");
}

#[tokio::test]
async fn an_output_of_100_mb_is_truncated_with_a_note() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "talk", "{}")]), answer_text("I see.")]);
    let talk = |_: &str, _: &threadfold_loop::ToolContext| Ok("ä".repeat(50_000_000).into());
    let talk = CountingTool::doing("talk", Effect::Pure, Box::new(talk));
    let limits = Limits { output: 1000, ..Limits::default() };
    let agent_loop = agent_loop(&store, &model).tools([talk as _]).limits(limits);
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    let text = finished.history[2].to_text();
    assert!(text.len() < 1100, "{}", text.len());
    assert!(text.contains("99999000 bytes omitted"), "{text}");
}

#[tokio::test]
async fn a_busy_provider_gets_the_same_bytes_again() {
    let store = store();
    let busy = ProviderError::of_status("told", 529, "overloaded");
    let model = Model::new(vec![answer_text("done")]).failing(busy);
    let finished =
        agent_loop(&store, &model).run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_eq!(finished.text(), "done");
    let sent = model.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
}

/// A model whose first answer is interrupted.
struct InterruptedModel(Model);

#[async_trait::async_trait]
impl Provider for InterruptedModel {
    fn name(&self) -> &str {
        "breaks-off"
    }

    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    fn parameters(&self) -> Json {
        self.0.parameters()
    }

    async fn ask(&self, request: Bytes, deltas: &Deltas) -> Result<Answer, ProviderError> {
        let is_first = self.0.sent().is_empty();
        let answer = self.0.ask(request, deltas).await;
        if !is_first {
            return answer;
        }
        deltas.send(Delta::Text { part: 0, text: "Half of the ans".into() }).await;
        let (provider, what) = ("breaks-off".to_owned(), "the line was cut".to_owned());
        Err(ProviderError::Broken { provider, what, source: None })
    }
}

#[tokio::test]
async fn an_interrupted_answer_keeps_its_preview_and_is_retried() {
    let store = store();
    let model = Model::new(vec![answer_text("The answer.")]);
    let provider = Arc::new(InterruptedModel(model.clone()));
    let agent_loop = AgentLoop::new(store.clone(), provider, "m").retries(soon());
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_eq!((finished.text().as_str(), finished.turns), ("The answer.", 1));
    let sent = model.sent();
    assert_eq!((sent.len(), &sent[0]), (2, &sent[1]));
    let loaded = load(&store, &"s1".into(), u64::MAX, Slices::default()).await.unwrap();
    let blocks = loaded.fold.conversation().blocks();
    let shown: Vec<_> = blocks
        .iter()
        .filter_map(|block| match &block.body {
            BlockBody::AssistantText(body) => {
                Some((body.content.to_str().into_owned(), block.interrupted))
            }
            _ => None,
        })
        .collect();
    assert_eq!(shown, [("Half of the ans".to_owned(), true), ("The answer.".to_owned(), false)]);
}

#[tokio::test]
async fn a_requested_delay_is_honoured() {
    let store = store();
    let pause = Duration::from_millis(60);
    let busy = ProviderError::of_status("told", 429, "slow down").with_retry_after(pause);
    let model = Model::new(vec![answer_text("done")]).failing(busy);
    let pauses = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = pauses.clone();
    let agent_loop = agent_loop(&store, &model).watch(move |progress| {
        if let Progress::Retrying { after, .. } = progress {
            noted.lock().unwrap().push(*after);
        }
    });
    agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_eq!(*pauses.lock().unwrap(), [pause]);
}

#[tokio::test]
async fn a_refusal_is_not_retried_and_the_run_can_be_resumed() {
    let store = store();
    let refused = ProviderError::of_status("told", 400, "bad");
    let model = Model::new(vec![answer_text("done")]).failing(refused);
    let agent_loop = agent_loop(&store, &model);
    let error = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap_err();
    assert!(matches!(error, LoopError::Provider { attempts: 1, .. }), "{error:?}");
    let finished = agent_loop.resume(&"s1".into(), Default::default()).await.unwrap();
    assert_eq!(finished.text(), "done");
}

#[tokio::test]
async fn a_run_at_its_limit_continues_with_a_higher_one() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text("done")]);
    let look = CountingTool::new("look", Effect::Pure);
    let one = Limits { turns: Some(1), ..Limits::default() };
    let agent_loop = agent_loop(&store, &model).tools([look.clone() as _]).limits(one);
    let error = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap_err();
    assert!(matches!(error, LoopError::Limit(RunLimit::Turns(1))), "{error:?}");
    let agent_loop = agent_loop.limits(Limits::default());
    assert_eq!(agent_loop.resume(&"s1".into(), Default::default()).await.unwrap().text(), "done");
    assert_eq!(look.count(), 1);
}

#[tokio::test]
async fn a_stopped_run_reports_it_and_can_be_resumed() {
    let store = store();
    let cancel = tokio_util::sync::CancellationToken::new();
    let stop = cancel.clone();
    let look = CountingTool::doing(
        "look",
        Effect::Pure,
        Box::new(move |_, _| {
            stop.cancel();
            Ok("looked".into())
        }),
    );
    let model = Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text("done")]);
    let stopped = agent_loop(&store, &model).tools([look.clone() as _]).cancel(cancel);
    let error = stopped.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap_err();
    assert!(matches!(error, LoopError::Cancelled), "{error:?}");
    let agent_loop = agent_loop(&store, &model).tools([look.clone() as Arc<_>]);
    assert_eq!(agent_loop.resume(&"s1".into(), Default::default()).await.unwrap().text(), "done");
    assert_eq!(look.count(), 1, "what it gave was kept");
    assert!(turns(&store, "s1").await.last().unwrap().is_completed());
}

#[tokio::test]
async fn a_run_can_be_spawned() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text("done")]);
    let agent_loop =
        agent_loop(&store, &model).tools([CountingTool::new("look", Effect::Pure) as _]);
    let running = tokio::spawn(async move {
        agent_loop
            .run_or_resume(&"s1".into(), &RenderedPrompt::text("Go"))
            .await
            .map(|it| it.text())
    });
    assert_eq!(running.await.unwrap().unwrap(), "done");
}

#[tokio::test]
async fn an_invalid_request_is_not_recorded() {
    let store = store();
    let model = Model::new(vec![answer_text("done")]);
    let agent_loop = agent_loop(&store, &model);
    let error = agent_loop.run(&"s1".into(), &RenderedPrompt::text(" \n")).await.unwrap_err();
    assert!(matches!(error, LoopError::Invalid(_)), "{error:?}");
    assert_eq!(turns(&store, "s1").await.turns().len(), 0);
    assert_eq!(
        agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap().text(),
        "done"
    );
}

#[tokio::test]
async fn a_session_without_a_prompt_is_not_resumed() {
    let store = store();
    let model = Model::new(vec![answer_text("done")]);
    let error =
        agent_loop(&store, &model).resume(&"s1".into(), Default::default()).await.unwrap_err();
    assert!(matches!(error, LoopError::NotStarted { .. }), "{error:?}");
    assert_eq!(model.sent().len(), 0);
    assert_eq!(store.list_all("").await.unwrap().len(), 0, "nothing is left behind");
}

#[tokio::test]
async fn the_time_limit_stops_running_tools() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "hang", "{}")]), answer_text("done")]);
    let hang = threadfold_loop::tool("hang", "Hangs", |_: Value, _| async {
        std::future::pending::<Result<ToolOutput, ToolError>>().await
    });
    let brief = Duration::from_millis(50);
    let limits = Limits { time: Some(brief), grace: brief, ..Limits::default() };
    let agent_loop = agent_loop(&store, &model).tool(hang).limits(limits);
    let error = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap_err();
    assert!(matches!(error, LoopError::Limit(RunLimit::Time(_))), "{error:?}");
    let state = turns(&store, "s1").await;
    let call = state.call(&"c1".into()).unwrap();
    assert!(matches!(call.state, CallState::Unknown { .. }), "{call:?}");
}

/// A model that gives every answer the same stop reason and id.
struct MarkedModel(Model, Option<&'static str>, &'static str);

#[async_trait::async_trait]
impl Provider for MarkedModel {
    fn name(&self) -> &str {
        "marks"
    }

    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    fn parameters(&self) -> Json {
        self.0.parameters()
    }

    async fn ask(&self, request: Bytes, deltas: &Deltas) -> Result<Answer, ProviderError> {
        let mut answer = self.0.ask(request, deltas).await?;
        answer.stop_reason = self.1.map(Into::into);
        answer.message.message_id = Some(self.2.into());
        Ok(answer)
    }
}

#[tokio::test]
async fn text_survives_a_reused_message_id() {
    let store = store();
    let mut first = answer_calls(&[("c1", "look", "{}")]);
    first.content = answer_text("First words.").content;
    let model = MarkedModel(Model::new(vec![first, answer_text("Second words.")]), None, "same");
    let agent_loop = AgentLoop::new(store.clone(), Arc::new(model), "m");
    let agent_loop = agent_loop.tools([CountingTool::new("look", Effect::Pure) as _]);
    agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    let loaded = load(&store, &"s1".into(), u64::MAX, Slices::default()).await.unwrap();
    let blocks = loaded.fold.conversation().blocks();
    let received = blocks.iter().filter_map(|block| match &block.body {
        BlockBody::AssistantText(body) => Some(body.content.to_str().into_owned()),
        _ => None,
    });
    assert_eq!(received.collect::<Vec<_>>(), ["First words.", "Second words."]);
}

#[tokio::test]
async fn the_last_call_of_a_truncated_answer_does_not_run() {
    let store = store();
    let calls = [("c1", "look", "{}"), ("c2", "look", "{}")];
    let model = MarkedModel(
        Model::new(vec![answer_calls(&calls), answer_text("I se")]),
        Some("max_tokens"),
        "m1",
    );
    let look = CountingTool::new("look", Effect::Unsafe);
    let agent_loop = AgentLoop::new(store.clone(), Arc::new(model), "m").tools([look.clone() as _]);
    let finished = agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_eq!(look.count(), 1);
    assert!(finished.history[3].to_text().contains("truncated"), "{}", describe(&finished.history));
    assert!(finished.is_cut());
}

#[tokio::test]
async fn an_answer_without_deltas_is_reported() {
    let store = store();
    let model = Model::new(vec![answer_text("All at once.")]);
    let heard = Arc::new(std::sync::Mutex::new(String::new()));
    let noted = heard.clone();
    let agent_loop = agent_loop(&store, &model).watch(move |progress| {
        if let Progress::Delta(Delta::Text { text, .. }) = progress {
            noted.lock().unwrap().push_str(text);
        }
    });
    agent_loop.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), "All at once.");
}
