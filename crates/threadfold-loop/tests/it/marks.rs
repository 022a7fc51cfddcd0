//! Records of a loop are distinguished from imported, forged and moved ones.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::thread;

use threadfold_core::{Payload, SessionEvent};
use threadfold_engine::{EngineError, Options, Session, holder};
use threadfold_fold::{Record, RecordKind};
use threadfold_loop::{
    AgentLoop, Effect, Limits, LoopError, MarkKey, RenderedPrompt, Resume, Trust,
};
use threadfold_store::{Limit, Store};

use crate::support::{CountingTool, Model, agent_loop, answer_calls, answer_text, store};

fn key(number: u8) -> MarkKey {
    MarkKey::new([number; 32])
}

fn trusting() -> Resume {
    Resume { trust: Trust::Reported, ..Resume::default() }
}

/// A loop whose model asks for one call and ends, and the call's tool.
fn looking_loop(store: &Arc<dyn Store>) -> (AgentLoop, Arc<CountingTool>) {
    let model = Model::new(vec![answer_calls(&[("c1", "look", "{}")]), answer_text("Done.")]);
    let look = CountingTool::new("look", Effect::Unsafe);
    (agent_loop(store, &model).tools([look.clone() as _]), look)
}

/// Runs the first turn.
async fn begin(agent_loop: &AgentLoop, session: &str) {
    let limits = Limits { turns: Some(1), ..Limits::default() };
    let limited = agent_loop.clone().limits(limits);
    let stopped = limited.run(&session.into(), &RenderedPrompt::text("Go.")).await;
    assert!(matches!(stopped, Err(LoopError::Limit(_))), "{stopped:?}");
}

fn is_untrusted<T>(result: &Result<T, LoopError>) -> bool {
    matches!(result, Err(LoopError::Untrusted { .. }))
}

#[tokio::test]
async fn a_ledger_without_valid_marks_is_continued_only_if_a_person_trusts_it() {
    for writer in [None, Some(key(2))] {
        let store = store();
        let (agent_loop, look) = looking_loop(&store);
        let theirs = match writer {
            Some(key) => agent_loop.clone().mark_with(key),
            None => agent_loop.clone(),
        };
        begin(&theirs, "s1").await;
        let ours = agent_loop.mark_with(key(1));
        let (session, plain) = ("s1".into(), Resume::default());
        assert!(is_untrusted(&ours.resume(&session, plain.clone()).await));
        let more = ours.run(&session, &RenderedPrompt::text("More.")).await;
        assert!(is_untrusted(&more), "{more:?}");
        assert_eq!(ours.resume(&session, trusting()).await.unwrap().text(), "Done.");
        assert_eq!(look.count(), 1, "what had finished does not run again");
        ours.resume(&session, plain).await.expect("it asks once");
    }
}

#[tokio::test]
async fn marks_do_not_fit_another_session_or_another_log() {
    let (one, other) = (store(), store());
    let (first, _) = looking_loop(&one);
    begin(&first.mark_with(key(1)), "s1").await;
    let records = one.read(&"s1".into(), 0, Limit::default()).await.unwrap();
    for (target, name) in [(&one, "s2"), (&other, "s1")] {
        let options = Options::new(holder("a test"));
        let mut session = Session::open(target.clone(), &name.into(), options).await.unwrap();
        let moved = records.iter().map(|it| it.record.clone()).collect();
        session.append_ledger(moved).await.unwrap();
        session.close().await.unwrap();
        let (agent_loop, look) = looking_loop(target);
        let resumed = agent_loop.mark_with(key(1)).resume(&name.into(), Resume::default()).await;
        assert!(is_untrusted(&resumed), "{name}: {resumed:?}");
        assert_eq!(look.count(), 0);
    }
}

#[tokio::test]
async fn a_record_that_was_added_to_a_marked_ledger_is_noticed() {
    let store = store();
    let (agent_loop, _) = looking_loop(&store);
    let ours = agent_loop.mark_with(key(1));
    begin(&ours, "s1").await;
    let mut session =
        Session::open(store.clone(), &"s1".into(), Options::new(holder("a test"))).await.unwrap();
    let json = r#"{"type":"log","payload":{"message":"forged"}}"#;
    let forged = Record::of_loop(RecordKind::Loop, json, None);
    session.append_ledger(vec![forged]).await.unwrap();
    session.close().await.unwrap();
    assert!(is_untrusted(&ours.resume(&"s1".into(), Resume::default()).await));
}

#[tokio::test]
async fn events_that_anything_else_wrote_are_history_and_not_a_ledger() {
    let (from, to) = (store(), store());
    let (first, _) = looking_loop(&from);
    begin(&first, "s1").await;
    let records = from.read(&"s1".into(), 0, Limit::default()).await.unwrap();
    let options = || Options::new(holder("a test"));
    let mut session = Session::open(to.clone(), &"s1".into(), options()).await.unwrap();
    for record in &records {
        let text = std::str::from_utf8(record.content_and_mark().0).unwrap();
        let event = SessionEvent::from_json(text).unwrap();
        // The answer is reported, but not what became of its call.
        if !matches!(event.payload, Payload::ToolStarted(_) | Payload::ToolFinished(_)) {
            session.emit(&event).await.unwrap();
        }
    }
    assert_eq!(session.fold().turns().turns().len(), 0);
    assert_eq!(session.fold().reported_turns().turns().len(), 1);
    let refused = session.accept(vec![records[0].record.clone()]).await;
    assert!(matches!(refused, Err(EngineError::NotTheLoop { kind: "loop" })));
    session.close().await.unwrap();
    let (agent_loop, look) = looking_loop(&to);
    assert!(is_untrusted(&agent_loop.resume(&"s1".into(), Resume::default()).await));
    assert_eq!(look.count(), 0, "an imported call does not run");
}

#[tokio::test]
async fn a_restored_snapshot_brings_no_ledger() {
    let store = store();
    let (agent_loop, _) = looking_loop(&store);
    begin(&agent_loop, "s1").await;
    let options = || Options::new(holder("a test"));
    let run = Session::open(store.clone(), &"s1".into(), options()).await.unwrap();
    let snapshot = run.snapshot(BTreeMap::new());
    let mut other = Session::open(store.clone(), &"s2".into(), options()).await.unwrap();
    other.restore(&snapshot).await.unwrap();
    assert_eq!(other.fold().conversation().hash(), run.fold().conversation().hash());
    assert_eq!(other.fold().turns().turns().len(), 0);
    let mut run = run;
    let before = run.fold().turns().clone();
    run.restore(&other.snapshot(BTreeMap::new())).await.unwrap();
    assert_eq!(*run.fold().turns(), before);
}

#[test]
fn a_key_file_is_made_once_and_for_its_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data/run-key");
    let makers: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            thread::spawn(move || MarkKey::open_or_create(&path).map(drop).unwrap())
        })
        .collect();
    makers.into_iter().for_each(|it| it.join().unwrap());
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.trim().len(), 64);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path().join("data")).unwrap().count(), 1, "no draft is left");
    MarkKey::open_or_create(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(format!("{:?}", MarkKey::from_file(&path).unwrap()), "MarkKey(***)");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = MarkKey::from_file(&path).unwrap_err();
    assert!(refused.to_string().contains("mode 0600"), "{refused}");
}
