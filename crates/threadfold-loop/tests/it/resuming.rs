//! A run that stopped at any point: what is sent again, what runs, and what needs a decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use threadfold_core::{ConversationMessage, Json, Payload, Role, SetupPart, TurnStarted};
use threadfold_engine::{Options, holder};
use threadfold_loop::{
    AgentLoop, Answer, Decision, Effect, LoopError, NewTurn, Probe, Recorder, RenderedPrompt,
    Resume, ToolOutput, tool,
};
use threadfold_store::Store;

use crate::support::{
    CountingTool, Model, agent_loop, answer_calls, answer_text, describe, store, turns,
};

/// Returns a store with a run that was killed after `calls` were started.
pub(crate) async fn killed_after_start(
    agent_loop: &AgentLoop,
    store: &Arc<dyn Store>,
    calls: &[(&str, Effect)],
) {
    let mut recorder = start_run(agent_loop, store).await;
    let wanted: Vec<_> = calls.iter().map(|(id, _)| (*id, "deed", "{}")).collect();
    recorder.answer(Answer::from(answer_calls(&wanted))).await.unwrap();
    for (call, effect) in calls {
        recorder.start(&(*call).into(), *effect).await.unwrap();
    }
    recorder.close().await.unwrap();
}

/// Starts a run as `agent_loop` would, and stops before the answer.
async fn start_run(agent_loop: &AgentLoop, store: &Arc<dyn Store>) -> Recorder {
    let options = Options::new(holder("a test"));
    let mut recorder = Recorder::open(store.clone(), &"s1".into(), options).await.unwrap();
    let prompt = ConversationMessage::text(Role::User, "Go");
    recorder.begin(agent_loop.new_turn(vec![prompt])).await.unwrap();
    recorder
}

fn deed(effect: Effect) -> Arc<CountingTool> {
    CountingTool::new("deed", effect)
}

async fn resume(agent_loop: &AgentLoop) -> Result<threadfold_loop::RunOutcome, LoopError> {
    agent_loop.resume(&"s1".into(), Resume::default()).await
}

#[tokio::test]
async fn a_resume_sends_the_recorded_bytes() {
    let store = store();
    let model = Model::new(vec![answer_text("done")]);
    let agent_loop = agent_loop(&store, &model);
    // Rendered in a way that this version never would, as if by another version of the program.
    let item = r#"{ "content" : "Go",  "role" : "user" }"#;
    let turn = agent_loop.new_turn(vec![ConversationMessage::text(Role::User, "Go")]);
    let options = Options::new(holder("a test"));
    let mut recorder = Recorder::open(store.clone(), &"s1".into(), options).await.unwrap();
    let started = TurnStarted {
        turn: 1,
        evaluation_id: turn.evaluation_id,
        provider: turn.provider,
        model: turn.model,
        prompt_namespace: None,
        prompt_key: None,
        system: turn.system,
        tools: turn.tools,
        parameters: turn.parameters,
        messages: turn.messages,
        items: vec![Json::parse(item).unwrap()],
        restart: false,
        withdraws: false,
        prefix_hash: recorder.state().prefix_hash(),
    };
    recorder.append(vec![Payload::TurnStarted(started)]).await.unwrap();
    recorder.close().await.unwrap();

    resume(&agent_loop).await.unwrap();
    agent_loop.run(&"s1".into(), &RenderedPrompt::text("More")).await.unwrap();

    let sent = model.sent();
    for request in &sent {
        let text = std::str::from_utf8(request).unwrap();
        assert!(text.contains(&format!(r#""messages":[{item}"#)), "{text}");
    }
    assert_eq!(sent.len(), 2);
}

#[tokio::test]
async fn a_pure_tool_runs_again() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
    let deed = deed(Effect::Pure);
    let agent_loop = agent_loop(&store, &model).tools([deed.clone() as _]);
    killed_after_start(&agent_loop, &store, &[("c1", Effect::Pure)]).await;
    resume(&agent_loop).await.unwrap();
    assert_eq!(deed.count(), 1);
    assert_eq!(turns(&store, "s1").await.call(&"c1".into()).unwrap().attempt, 2);
}

#[tokio::test]
async fn an_idempotent_tool_runs_again_with_the_same_key() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
    let deed = deed(Effect::Idempotent);
    let agent_loop = agent_loop(&store, &model).tools([deed.clone() as _]);
    killed_after_start(&agent_loop, &store, &[("c1", Effect::Idempotent)]).await;
    let key = turns(&store, "s1").await.call(&"c1".into()).unwrap().key.clone().unwrap();
    resume(&agent_loop).await.unwrap();
    assert_eq!(*deed.keys.lock().unwrap(), [key.to_string()]);
}

#[tokio::test]
async fn a_probe_tool_is_probed() {
    for happened in [true, false] {
        let store = store();
        let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
        let ran = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = ran.clone();
        let deed = tool("deed", "A deed", move |_: serde_json::Value, _| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async { Ok("done now".into()) }
        })
        .probe(move |_, context| async move {
            assert!(context.is_resume);
            Ok(match happened {
                true => Probe::Happened(ToolOutput::text("done then")),
                false => Probe::DidNotHappen,
            })
        });
        let agent_loop = agent_loop(&store, &model).tool(deed);
        killed_after_start(&agent_loop, &store, &[("c1", Effect::Probe)]).await;
        let finished = resume(&agent_loop).await.unwrap();
        let (runs, words) = if happened { (0, "done then") } else { (1, "done now") };
        assert_eq!(ran.load(std::sync::atomic::Ordering::SeqCst), runs);
        assert_eq!(finished.history[2].to_text(), words);
    }
}

#[tokio::test]
async fn a_compensable_tool_is_undone_then_runs_again() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
    let deeds = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (done, undone) = (deeds.clone(), deeds.clone());
    let deed = tool("deed", "A deed", move |_: serde_json::Value, context| {
        done.lock().unwrap().push(("do", context.attempt, context.key));
        async { Ok("done".into()) }
    })
    .undo(move |_, context| {
        undone.lock().unwrap().push(("undo", context.attempt, context.key));
        async { Ok(()) }
    });
    let agent_loop = agent_loop(&store, &model).tool(deed);
    killed_after_start(&agent_loop, &store, &[("c1", Effect::Compensable)]).await;
    let key = turns(&store, "s1").await.call(&"c1".into()).unwrap().key.clone().unwrap();
    resume(&agent_loop).await.unwrap();
    assert_eq!(*deeds.lock().unwrap(), [("undo", 2, key.clone()), ("do", 3, key)]);
}

#[tokio::test]
async fn an_unsafe_tool_does_not_run_and_needs_a_decision() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
    let deed = deed(Effect::Unsafe);
    let agent_loop = agent_loop(&store, &model).tools([deed.clone() as _]);
    killed_after_start(&agent_loop, &store, &[("c1", Effect::Unsafe)]).await;
    let error = resume(&agent_loop).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, LoopError::Undecided { .. }), "{text}");
    for word in ["`c1`", "`deed`", "retry it", "supply its result", "give it up"] {
        assert!(text.contains(word), "{text} has no {word}");
    }
    assert_eq!(deed.count(), 0);
    let again = resume(&agent_loop).await.unwrap_err();
    assert_eq!(again.to_string(), text, "nothing was decided by asking");
}

#[tokio::test]
async fn decisions_are_applied() {
    let decisions = [
        (Decision::Retry, 1, "tool: deed done"),
        (Decision::Result("paid then".into()), 0, "tool: paid then"),
        (Decision::GiveUp, 0, "tool: (error) the call was given up; its outcome is unknown"),
    ];
    for (decision, runs, words) in decisions {
        let store = store();
        let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
        let deed = deed(Effect::Unsafe);
        let agent_loop = agent_loop(&store, &model).tools([deed.clone() as _]);
        killed_after_start(&agent_loop, &store, &[("c1", Effect::Unsafe)]).await;
        let decisions = BTreeMap::from([("c1".into(), decision)]);
        let resume = Resume { decisions, ..Resume::default() };
        let finished = agent_loop.resume(&"s1".into(), resume).await.unwrap();
        assert_eq!(deed.count(), runs);
        assert_eq!(describe(&finished.history[2..3]), words);
    }
}

#[tokio::test]
async fn a_changed_setup_is_named_and_can_be_adopted() {
    let store = store();
    let thinking = ConversationMessage {
        content: vec![threadfold_core::MessagePart::thinking("hm", "signed")],
        ..answer_calls(&[("c1", "deed", "{}")])
    };
    let model = Model::new(vec![thinking, answer_text("done")]);
    let deed = deed(Effect::Pure);
    let first = agent_loop(&store, &model).tools([deed.clone() as _]);
    let limits = threadfold_loop::Limits { turns: Some(1), ..Default::default() };
    first.clone().limits(limits).run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap_err();

    let other = agent_loop(&store, &model).system("You work differently.");
    let error = resume(&other).await.unwrap_err();
    let LoopError::Mismatch(mismatch) = &error else { panic!("{error:?}") };
    let changed: Vec<_> = mismatch.changed.iter().map(|it| it.part).collect();
    assert_eq!(changed, [SetupPart::SystemPrompt, SetupPart::Tools]);

    let adopt = Resume { adopt: true, ..Resume::default() };
    let finished = other.resume(&"s1".into(), adopt).await.unwrap();
    assert_eq!(finished.text(), "done");
    let last = model.sent().pop().unwrap();
    let text = std::str::from_utf8(&last).unwrap();
    assert!(text.contains("You work differently."), "{text}");
    assert!(!text.contains("signed"), "thinking is bound to the old prompt: {text}");
    assert!(text.contains("deed done"), "{text}");
    let turn = turns(&store, "s1").await;
    assert!(turn.last().unwrap().sent().restart);
}

#[tokio::test]
async fn a_call_of_a_removed_tool_is_answered() {
    let store = store();
    let model = Model::new(vec![answer_text("one"), answer_text("two"), answer_text("three")]);
    let first = agent_loop(&store, &model).tools([deed(Effect::Pure) as _]);
    first.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap();
    let bare = agent_loop(&store, &model);
    let adopt = Resume { adopt: true, ..Resume::default() };
    bare.run_with(&"s1".into(), &RenderedPrompt::text("More"), adopt).await.unwrap();
    bare.run(&"s1".into(), &RenderedPrompt::text("And more")).await.unwrap();
    let sent = model.sent();
    let texts: Vec<_> = sent.iter().map(|it| std::str::from_utf8(it).unwrap()).collect();
    let has_tools: Vec<_> = texts.iter().map(|it| it.contains("\"tools\"")).collect();
    assert_eq!(has_tools, [true, false, false], "{texts:?}");
}

#[tokio::test]
async fn reused_item_ids_are_renamed() {
    let store = store();
    let model = Model::new(vec![]);
    let agent_loop = agent_loop(&store, &model);
    let spelt = |text: &str| {
        let item = format!(
            r#"{{"type":"message","id":"m1","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}"#
        );
        let part = threadfold_core::MessagePart::text(text);
        let part = part.with_native("openai", Json::parse(&item).unwrap());
        ConversationMessage { content: vec![part], ..ConversationMessage::new(Role::Assistant) }
    };
    let say = |text: &str| vec![ConversationMessage::text(Role::User, text)];
    let turn = |text: &str| NewTurn {
        dialect: threadfold_loop::Dialect::Responses,
        ..agent_loop.new_turn(say(text))
    };
    let id = "s1".into();
    let open = || Recorder::open(store.clone(), &id, Options::new(holder("a test")));
    // Another process knows the items of the previous one.
    for words in ["one", "two"] {
        let mut recorder = open().await.unwrap();
        recorder.begin(turn("Go")).await.unwrap();
        recorder.answer(Answer::from(spelt(words))).await.unwrap();
        recorder.complete().await.unwrap();
        recorder.close().await.unwrap();
    }
    let mut recorder = open().await.unwrap();
    recorder.begin(turn("More")).await.unwrap();
    let items = recorder.state().sent_items();
    let items: Vec<_> = items.iter().map(|it| it.as_str()).collect();
    let request = format!(r#"{{"input":[{}]}}"#, items.join(","));
    assert_eq!(threadfold_core::check_responses(request.as_bytes(), |_| false), []);
    assert!(request.contains(r#""id":"m1""#) && request.contains(r#""id":"m1-2""#), "{request}");
}

#[tokio::test]
async fn an_unanswered_prompt_can_be_withdrawn() {
    let store = store();
    let refused = || threadfold_loop::ProviderError::of_status("told", 400, "bad");
    let model = Model::new(vec![answer_text("one"), answer_text("two"), answer_text("three")]);
    let agent_loop = agent_loop(&store, &model);
    let session = "s1".into();
    agent_loop.run(&session, &RenderedPrompt::text("First")).await.unwrap();
    for prompt in ["Wrong", "Wrong as well"] {
        let failing = model.clone().failing(refused());
        let withdraw = Resume { withdraw: true, ..Resume::default() };
        agent_loop.run_with(&session, &RenderedPrompt::text(prompt), withdraw).await.unwrap_err();
        assert_eq!(failing.sent().len(), model.sent().len());
    }
    let withdraw = Resume { withdraw: true, ..Resume::default() };
    let finished =
        agent_loop.run_with(&session, &RenderedPrompt::text("Second"), withdraw).await.unwrap();
    assert_eq!(finished.text(), "two");
    let words = ["user: First", "assistant: one", "user: Second", "assistant: two"];
    assert_eq!(describe(&finished.history), words.join("\n"));
    let last = model.sent().pop().unwrap();
    let last = std::str::from_utf8(&last).unwrap();
    assert!(!last.contains("Wrong") && last.contains("one"), "{last}");
    // It does not come back when everything is rendered again.
    let other = agent_loop.clone().system("Be brief.");
    let adopt = Resume { adopt: true, ..Resume::default() };
    other.run_with(&session, &RenderedPrompt::text("Third"), adopt).await.unwrap();
    let last = model.sent().pop().unwrap();
    let last = std::str::from_utf8(&last).unwrap();
    assert!(!last.contains("Wrong") && last.contains("Second"), "{last}");
}

#[tokio::test]
async fn notes_are_recorded_before_a_resume_does_anything() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "deed", "{}")]), answer_text("done")]);
    let agent_loop = agent_loop(&store, &model).tools([deed(Effect::Unsafe) as _]);
    killed_after_start(&agent_loop, &store, &[("c1", Effect::Unsafe)]).await;
    let message = Some("a note".into());
    let note = Payload::Log(threadfold_core::LogPayload { level: None, message });
    let undecided = agent_loop.with_note(note).resume(&"s1".into(), Resume::default()).await;
    assert!(matches!(undecided, Err(LoopError::Undecided { .. })));
    let records = store.read(&"s1".into(), 0, Default::default()).await.unwrap();
    let has_note = |it: &[u8]| String::from_utf8_lossy(it).contains("a note");
    assert!(records.iter().any(|it| has_note(&it.bytes)));
}

#[tokio::test]
async fn another_provider_of_the_same_dialect_is_another_model() {
    let store = store();
    let model = Model::new(vec![answer_text("done")]);
    let first = agent_loop(&store, &model);
    start_run(&first, &store).await.close().await.unwrap();
    let error = resume(&agent_loop(&store, &model.named("other"))).await.unwrap_err();
    let LoopError::Mismatch(mismatch) = &error else { panic!("{error:?}") };
    assert_eq!(mismatch.changed[0].part, SetupPart::Model);
}

#[tokio::test]
async fn a_second_resume_is_refused_with_the_holder() {
    let store = store();
    let model = Model::new(vec![answer_text("done")]);
    let first = agent_loop(&store, &model);
    let _held = start_run(&first, &store).await;
    let error = resume(&first).await.unwrap_err();
    assert!(matches!(error, LoopError::Held { .. }), "{error:?}");
    assert!(error.to_string().contains("a test"), "{error}");
}

#[tokio::test]
async fn a_prompt_is_refused_in_the_middle_of_a_turn() {
    let store = store();
    let model = Model::new(vec![answer_text("done")]);
    let agent_loop = agent_loop(&store, &model);
    start_run(&agent_loop, &store).await.close().await.unwrap();
    let error = agent_loop.run(&"s1".into(), &RenderedPrompt::text("More")).await.unwrap_err();
    assert!(matches!(error, LoopError::Unfinished { .. }), "{error:?}");
    assert_eq!(turns(&store, "s1").await.turns().len(), 1);
}

#[tokio::test]
async fn the_ledger_refuses_events_out_of_order() {
    let store = store();
    let options = Options::new(holder("a test"));
    let mut recorder = Recorder::open(store.clone(), &"s1".into(), options).await.unwrap();
    let early = recorder.answer(answer_text("too early").into()).await.unwrap_err();
    assert!(matches!(early, LoopError::OutOfOrder(_)), "{early:?}");
    recorder.begin(NewTurn::new("p", "m", Vec::new())).await.unwrap();
    let unknown = recorder.start(&"c9".into(), Effect::Pure).await.unwrap_err();
    assert!(unknown.to_string().contains("`c9`"), "{unknown}");
    assert_eq!(recorder.cursor().seq, 1, "what was refused is not in the log");
}

#[tokio::test]
async fn unneeded_decisions_are_refused() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
    let deed = deed(Effect::Unsafe);
    let agent_loop = agent_loop(&store, &model).tools([deed.clone() as _]);
    killed_after_start(&agent_loop, &store, &[("c1", Effect::Unsafe)]).await;
    let decisions = BTreeMap::from([("c9".into(), Decision::GiveUp)]);
    let error = agent_loop
        .resume(&"s1".into(), Resume { decisions, ..Resume::default() })
        .await
        .unwrap_err();
    assert!(matches!(error, LoopError::NothingToDecide { .. }), "{error:?}");
}

#[tokio::test]
async fn an_answered_prompt_is_not_sent_again() {
    let store = store();
    let model = Model::new(vec![
        answer_calls(&[("c1", "deed", "{}")]),
        answer_text("done"),
        answer_text("again"),
    ]);
    let deed = deed(Effect::Unsafe);
    let agent_loop = agent_loop(&store, &model).tools([deed.clone() as _]);
    let (session, go) = ("s1".into(), RenderedPrompt::text("Go"));
    for _ in 0..2 {
        // As after a crash between the last write and the use of the answer.
        assert_eq!(agent_loop.run_or_resume(&session, &go).await.unwrap().text(), "done");
    }
    assert_eq!((deed.count(), model.sent().len()), (1, 2));
    assert_eq!(agent_loop.run(&session, &go).await.unwrap().text(), "again");
}

#[tokio::test]
async fn another_prompt_is_sent_after_the_unfinished_one() {
    let store = store();
    let model = Model::new(vec![answer_text("gone"), answer_text("stopped")]);
    let agent_loop = agent_loop(&store, &model);
    start_run(&agent_loop, &store).await.close().await.unwrap();
    let stop = RenderedPrompt::text("Stop");
    for _ in 0..2 {
        let finished = agent_loop.run_or_resume(&"s1".into(), &stop).await.unwrap();
        assert_eq!(
            describe(&finished.history),
            "user: Go\nassistant: gone\nuser: Stop\nassistant: stopped"
        );
    }
    assert_eq!(model.sent().len(), 2);
}
