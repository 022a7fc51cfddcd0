//! Requests, typed outputs and checkpoints: the main loop.

use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use threadfold_core::Json;
use threadfold_loop::{
    AgentLoop, Answer, Checkpoint, CheckpointHandler, Decision, Deltas, Dialect, Effect,
    FolderCheckpoints, JsonOutput, Limits, LoopError, MainLoop, Progress, Prompt, Provider,
    ProviderError, RenderedPrompt, Resume, RunKey, StoreCheckpoints,
};
use threadfold_store::{Epoch, Store};
use tokio_util::sync::CancellationToken;

use crate::support::{CountingTool, Model, agent_loop, answer_calls, answer_text, store};

#[derive(Serialize)]
struct Bill {
    name: &'static str,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Sum {
    cents: u64,
}

struct AddUp;

impl Prompt for AddUp {
    type Request = Bill;
    type Output = JsonOutput<Sum>;

    fn namespace(&self) -> &str {
        "../bills"
    }

    fn key(&self) -> &str {
        "add-up"
    }

    fn render(&self, request: &Bill) -> RenderedPrompt {
        RenderedPrompt::text(&format!("Add up the bill `{}`", request.name))
    }
}

const BILL: Bill = Bill { name: "../../etc/passwd" };

#[tokio::test]
async fn an_answer_becomes_a_value() {
    let store = store();
    let model = Model::new(vec![answer_text("```json\n{\"cents\": 1250}\n```")]);
    let main =
        MainLoop::new(agent_loop(&store, &model), AddUp, StoreCheckpoints::new(store.clone()));
    assert_eq!(main.run(&BILL).await.unwrap(), JsonOutput(Sum { cents: 1250 }));
    let sent = model.sent();
    assert!(std::str::from_utf8(&sent[0]).unwrap().contains("JSON schema"));
}

#[tokio::test]
async fn an_invalid_answer_is_rejected_once() {
    let store = store();
    let model = Model::new(vec![answer_text("about twelve"), answer_text(r#"{"cents":1250}"#)]);
    let main =
        MainLoop::new(agent_loop(&store, &model), AddUp, StoreCheckpoints::new(store.clone()));
    assert_eq!(main.run(&BILL).await.unwrap(), JsonOutput(Sum { cents: 1250 }));

    let model =
        Model::new(vec![answer_text("about twelve"), answer_text("twelve"), answer_text("12")]);
    let other = Bill { name: "other" };
    let main =
        MainLoop::new(agent_loop(&store, &model), AddUp, StoreCheckpoints::new(store.clone()));
    for _ in 0..2 {
        let error = main.run(&other).await.unwrap_err();
        let LoopError::Output(error) = error else { panic!("{error:?}") };
        assert_eq!(error.answer, "twelve");
    }
    assert_eq!(model.sent().len(), 2, "once, over resumes too");
}

#[tokio::test]
async fn an_unfinished_run_of_the_same_request_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store();
    let handlers: [Arc<dyn CheckpointHandler>; 2] = [
        Arc::new(StoreCheckpoints::new(store.clone())),
        Arc::new(FolderCheckpoints::open(folder.path().join("checkpoints")).unwrap()),
    ];
    for handler in handlers {
        let model =
            Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text(r#"{"cents":1}"#)]);
        let look = CountingTool::new("look", Effect::Unsafe);
        let agent_loop = agent_loop(&store, &model).tools([look.clone() as _]);
        let key = RunKey::of(&AddUp, &BILL);
        let limits = Limits { turns: Some(1), ..Limits::default() };
        let first =
            MainLoop::new(agent_loop.clone().limits(limits), AddUp, SharedHandler(handler.clone()));
        first.run(&BILL).await.unwrap_err();
        let checkpoint = handler.load(&key).await.unwrap().expect("it is not finished");

        let second = MainLoop::new(agent_loop.clone(), AddUp, SharedHandler(handler.clone()));
        second.run(&Bill { name: "another" }).await.unwrap();
        assert_eq!(look.count(), 2, "another request is another run");
        second.run(&BILL).await.unwrap();
        assert_eq!(look.count(), 2, "what had finished does not run again");
        assert_eq!(handler.load(&key).await.unwrap(), None, "it is finished");

        second.run(&BILL).await.unwrap();
        assert_eq!(look.count(), 3, "a finished run is not gone on with");
        let turns = crate::support::turns(&store, checkpoint.session.as_str()).await;
        assert_eq!(turns.turns().len(), 2);
    }
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1, "nothing was written beside the folder");
}

#[tokio::test]
async fn a_checkpoint_of_another_prompt_is_refused_by_its_name() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text("Done.")]);
    let look = CountingTool::new("look", Effect::Unsafe);
    let agent_loop = agent_loop(&store, &model).tools([look.clone() as _]);
    let named = |namespace: &str, key: &str| RenderedPrompt {
        namespace: Some(namespace.into()),
        key: Some(key.into()),
        ..RenderedPrompt::text("Add it up")
    };
    let one_turn = Limits { turns: Some(1), ..Limits::default() };
    let checkpoint = Checkpoint { session: "s1".into(), log: None, seq: 0, history: None };
    let limited = agent_loop.clone().limits(one_turn);
    let (first, other) = (named("bills", "add-up"), named("letters", "answer"));
    limited.evaluate_from(&checkpoint, &first, Resume::default()).await.unwrap_err();
    let refused = agent_loop.evaluate_from(&checkpoint, &other, Resume::default()).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the prompt's namespace and the prompt's key changed since the conversation started"
    );
    assert_eq!(model.sent().len(), 1, "nothing was asked");
    let same = agent_loop.evaluate_from(&checkpoint, &first, Resume::default()).await.unwrap();
    assert_eq!(same.text(), "Done.");
    for message in &same.history {
        assert!(message.message_id.is_some() && message.created_at.is_some(), "{message:?}");
    }
}

#[tokio::test]
async fn a_run_is_resumed_on_a_machine_that_has_only_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = || FolderCheckpoints::open(folder.path()).unwrap().with_history();
    let key = RunKey::of(&AddUp, &BILL);
    let look = CountingTool::new("look", Effect::Unsafe);
    let first = Model::new(vec![answer_calls(&[("c1", "look", "{}")])]);
    let limits = Limits { turns: Some(1), ..Limits::default() };
    let here = agent_loop(&store(), &first).tools([look.clone() as _]).limits(limits);
    MainLoop::new(here, AddUp, checkpoints()).run(&BILL).await.unwrap_err();
    assert_eq!(look.count(), 1);

    let answers = vec![answer_text("It was asked before."), answer_text(r#"{"cents":1}"#)];
    let (elsewhere, model) = (store(), Model::new(answers));
    let there = agent_loop(&elsewhere, &model).tools([look.clone() as _]);
    let main = MainLoop::new(there.clone(), AddUp, checkpoints());
    assert_eq!(main.run(&BILL).await.unwrap(), JsonOutput(Sum { cents: 1 }));
    assert_eq!(look.count(), 1, "what had finished does not run again");
    let sent = String::from_utf8(model.sent()[0].to_vec()).unwrap();
    assert!(sent.contains("tool_result"), "the model sees its history: {sent}");
    assert_eq!(checkpoints().load(&key).await.unwrap(), None, "it is finished");
}

#[tokio::test]
async fn a_call_in_a_checkpoints_history_is_never_run() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = FolderCheckpoints::open(folder.path()).unwrap().with_history();
    let key = RunKey::of(&AddUp, &BILL);
    let look = CountingTool::new("look", Effect::Pure);
    let first = Model::new(vec![answer_calls(&[("c1", "look", "{}")])]);
    let limits = Limits { turns: Some(1), ..Limits::default() };
    let here = agent_loop(&store(), &first).tools([look.clone() as _]).limits(limits);
    MainLoop::new(here, AddUp, checkpoints.clone()).run(&BILL).await.unwrap_err();
    assert_eq!(look.count(), 1);
    let mut checkpoint = checkpoints.load(&key).await.unwrap().unwrap();
    let mut history: serde_json::Value =
        serde_json::from_str(checkpoint.history.unwrap().as_str()).unwrap();
    history["loop"]["turns"][0]["calls"][0]["state"] = "requested".into();
    checkpoint.history = Some(Json::of(&history));
    checkpoints.save(&key, &checkpoint).await.unwrap();

    let model = Model::new(vec![answer_text(r#"{"cents":1}"#)]);
    let there = agent_loop(&store(), &model).tools([look.clone() as _]);
    let refused = MainLoop::new(there, AddUp, checkpoints).run(&BILL).await.unwrap_err();
    assert!(refused.to_string().contains("call without a result"), "{refused}");
    assert_eq!(look.count(), 1);
    assert_eq!(model.sent().len(), 0);
}

#[tokio::test]
async fn a_corrupt_checkpoint_is_reported_and_not_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let store = store();
    let model = Model::new(vec![answer_text(r#"{"cents":1}"#)]);
    let checkpoints = FolderCheckpoints::open(folder.path()).unwrap();
    let key = RunKey::of(&AddUp, &BILL);
    let path = folder.path().join(format!("{}.json", key.as_str()));
    let wrong = [
        "",
        "{\"version\":1,\"session\":",
        "{\"version\":9,\"session\":\"s\",\"log\":null,\"seq\":0}",
        "{\"version\":1,\"session\":\"not-there\",\"log\":\"l\",\"seq\":7}",
    ];
    for text in wrong {
        std::fs::write(&path, text).unwrap();
        let main = MainLoop::new(agent_loop(&store, &model), AddUp, checkpoints.clone());
        let error = main.run(&BILL).await.unwrap_err();
        assert!(matches!(error, LoopError::Restore(_)), "{text}: {error:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "nothing is cleared");
    }
    assert_eq!(model.sent().len(), 0);
}

#[tokio::test]
async fn evaluating_from_a_checkpoint_resumes_its_session() {
    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text("done")]);
    let look = CountingTool::new("look", Effect::Unsafe);
    let agent_loop = agent_loop(&store, &model).tools([look.clone() as _]);
    let limits = Limits { turns: Some(1), ..Limits::default() };
    let prompt = RenderedPrompt::text("Look");
    let short = agent_loop.clone().limits(limits);
    short.evaluate(&prompt).await.unwrap_err();
    let entry = store.list_all("").await.unwrap().remove(0);
    let checkpoint = Checkpoint {
        session: entry.session,
        log: Some(entry.head.log),
        seq: entry.head.seq,
        history: None,
    };
    let finished = agent_loop.evaluate_from(&checkpoint, &prompt, Resume::default()).await.unwrap();
    assert_eq!((finished.text().as_str(), look.count()), ("done", 1));
    let beyond = Checkpoint { seq: 1_000, ..checkpoint };
    let error = agent_loop.evaluate_from(&beyond, &prompt, Resume::default()).await.unwrap_err();
    assert!(matches!(error, LoopError::Restore(_)), "{error:?}");
}

#[tokio::test]
async fn an_unfinished_run_is_found_after_an_earlier_one_was_removed() {
    let store = store();
    let model =
        Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text(r#"{"cents":1}"#)]);
    let look = CountingTool::new("look", Effect::Unsafe);
    let agent_loop = agent_loop(&store, &model).tools([look.clone() as _]);
    let main = |agent_loop| MainLoop::new(agent_loop, AddUp, StoreCheckpoints::new(store.clone()));
    main(agent_loop.clone()).run(&BILL).await.unwrap();
    let finished = store.list_all("").await.unwrap().remove(0).session;
    let limits = Limits { turns: Some(1), ..Limits::default() };
    main(agent_loop.clone().limits(limits)).run(&BILL).await.unwrap_err();
    store.remove(&finished).await.unwrap();

    main(agent_loop).run(&BILL).await.unwrap();
    assert_eq!(look.count(), 2, "what had finished does not run again");
    assert_eq!(store.list_all("").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_decision_survives_a_rejected_answer() {
    let store = store();
    let model = Model::new(vec![
        answer_calls(&[("c1", "pay", "{}")]),
        answer_text("about twelve"),
        answer_text(r#"{"cents":1250}"#),
    ]);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let pay = threadfold_loop::tool("pay", "Pays", move |_: serde_json::Value, _| {
        stop.cancel();
        std::future::pending()
    });
    let limits = Limits { grace: std::time::Duration::ZERO, ..Limits::default() };
    let agent_loop = agent_loop(&store, &model).tool(pay).limits(limits);
    let main = |agent_loop| MainLoop::new(agent_loop, AddUp, StoreCheckpoints::new(store.clone()));
    let error = main(agent_loop.clone().cancel(cancel)).run(&BILL).await.unwrap_err();
    assert!(matches!(error, LoopError::Cancelled), "{error:?}");

    let decisions = [("c1".into(), Decision::Result("paid".into()))].into();
    let resume = Resume { decisions, ..Resume::default() };
    let output = main(agent_loop).run_with(&BILL, resume).await.unwrap();
    assert_eq!(output, JsonOutput(Sum { cents: 1250 }));
}

/// Checkpoints that cannot be cleared.
struct UnclearableCheckpoints(StoreCheckpoints);

#[async_trait::async_trait]
impl CheckpointHandler for UnclearableCheckpoints {
    async fn load(&self, key: &RunKey) -> Result<Option<Checkpoint>, LoopError> {
        self.0.load(key).await
    }

    async fn begin(&self, key: &RunKey) -> Result<Checkpoint, LoopError> {
        self.0.begin(key).await
    }

    async fn save(&self, key: &RunKey, checkpoint: &Checkpoint) -> Result<(), LoopError> {
        self.0.save(key, checkpoint).await
    }

    async fn clear(&self, _: &RunKey) -> Result<(), LoopError> {
        Err(LoopError::Checkpoint { what: "cleared", source: "the disk is gone".into() })
    }
}

#[tokio::test]
async fn an_output_is_returned_even_if_its_checkpoint_cannot_be_cleared() {
    let store = store();
    let model = Model::new(vec![answer_text(r#"{"cents":1}"#)]);
    let warnings = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = warnings.clone();
    let agent_loop = agent_loop(&store, &model).watch(move |progress| {
        if let Progress::Warning(what) = progress {
            noted.lock().unwrap().push(what.clone());
        }
    });
    let checkpoints = UnclearableCheckpoints(StoreCheckpoints::new(store.clone()));
    let main = MainLoop::new(agent_loop, AddUp, checkpoints);
    for _ in 0..2 {
        assert_eq!(main.run(&BILL).await.unwrap(), JsonOutput(Sum { cents: 1 }));
    }
    assert_eq!(model.sent().len(), 1);
    let warnings = warnings.lock().unwrap();
    assert_eq!(warnings[0], "the checkpoint cannot be cleared: the disk is gone");
}

/// A model that refuses, and whose session is removed meanwhile.
struct RemovingModel(Arc<dyn Store>);

#[async_trait::async_trait]
impl Provider for RemovingModel {
    fn name(&self) -> &str {
        "removes"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn parameters(&self) -> Json {
        Json::parse(r#"{"max_tokens":100}"#).unwrap()
    }

    async fn ask(&self, _: Bytes, _: &Deltas) -> Result<Answer, ProviderError> {
        let session = self.0.list_all("").await.unwrap().remove(0).session;
        self.0.release(&session, Epoch(1)).await.unwrap();
        self.0.remove(&session).await.unwrap();
        Err(ProviderError::of_status("removes", 400, "bad"))
    }
}

#[tokio::test]
async fn the_stop_reason_survives_a_failed_release() {
    let store = store();
    let agent_loop = AgentLoop::new(store.clone(), Arc::new(RemovingModel(store.clone())), "m");
    let main = MainLoop::new(agent_loop, AddUp, StoreCheckpoints::new(store.clone()));
    let error = main.run(&BILL).await.unwrap_err();
    assert!(matches!(error, LoopError::Provider { .. }), "{error:?}");
}

#[tokio::test]
async fn concurrent_starts_of_a_request_share_one_session() {
    let folder = tempfile::tempdir().unwrap();
    let key = RunKey::of(&AddUp, &BILL);
    let open = || FolderCheckpoints::open(folder.path()).unwrap();
    let (one, other) = (open(), open());
    assert_eq!((one.load(&key).await.unwrap(), other.load(&key).await.unwrap()), (None, None));
    let first = one.begin(&key).await.unwrap();
    assert_eq!(other.begin(&key).await.unwrap(), first);
    assert_eq!(other.load(&key).await.unwrap(), Some(first.clone()));
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1, "nothing is left beside it");
    one.clear(&key).await.unwrap();
    assert_ne!(other.begin(&key).await.unwrap(), first, "a finished run is not gone on with");
}

/// A handler that the test can inspect.
struct SharedHandler(Arc<dyn CheckpointHandler>);

#[async_trait::async_trait]
impl CheckpointHandler for SharedHandler {
    async fn load(&self, key: &RunKey) -> Result<Option<Checkpoint>, LoopError> {
        self.0.load(key).await
    }

    async fn begin(&self, key: &RunKey) -> Result<Checkpoint, LoopError> {
        self.0.begin(key).await
    }

    async fn save(&self, key: &RunKey, checkpoint: &Checkpoint) -> Result<(), LoopError> {
        self.0.save(key, checkpoint).await
    }

    async fn clear(&self, key: &RunKey) -> Result<(), LoopError> {
        self.0.clear(key).await
    }
}
