//! Snapshots as pure data, and listeners.

use std::collections::BTreeMap;
use std::sync::Arc;

use threadfold_core::{Json, SessionEvent};
use threadfold_engine::{GapReason, Session, Update, load};
use threadfold_fold::{Cursor, GENERATION, Slices, Snapshot};
use threadfold_store::{MemoryStore, Store, StoredSnapshot};

use crate::recordings::{claude_recordings, import, open};

async fn some_session() -> (Arc<dyn Store>, Session) {
    let recordings = claude_recordings();
    let recording = recordings.iter().find(|it| it.name == "nested").unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    import(&store, recording).await;
    let session = open(&store, &recording.id).await;
    (store, session)
}

#[tokio::test]
async fn a_snapshot_survives_a_round_trip_sorted_and_with_unknown_fields() {
    let (_store, session) = some_session().await;
    let mut snapshot = session.snapshot(BTreeMap::from([("note".into(), "x".into())]));
    snapshot.extra.insert("later", Json::parse("[1.50]").unwrap());
    let mut foreign = snapshot.slices[0].clone();
    foreign.slice_type = "zz-foreign".into();
    foreign.items = vec![Json::parse(r#"{"b":1e400,"a":2}"#).unwrap()];
    foreign.extra.insert("later", Json::parse("true").unwrap());
    snapshot.slices.push(foreign);
    let text = snapshot.to_json();
    let read = Snapshot::from_json(&text).unwrap();
    assert_eq!(read, snapshot);
    assert_eq!(read.to_json(), text);
    assert!(text.contains(r#"{"b":1e400,"a":2}"#));
    let names: Vec<&str> = snapshot.slices.iter().map(|it| it.slice_type.as_str()).collect();
    assert_eq!(
        names,
        [
            "conversation",
            "converter",
            "environment",
            "files",
            "metadata",
            "query",
            "reportedTurns",
            "sources",
            "transcript",
            "turns",
            "zz-foreign"
        ]
    );
}

#[tokio::test]
async fn an_invalid_snapshot_is_reported_with_field_and_reason() {
    let (_store, session) = some_session().await;
    let text = session.snapshot(BTreeMap::new()).to_json();
    let cases = [
        ("".to_owned(), "."),
        ("[]".to_owned(), "."),
        (text.replace(r#""version":1}"#, r#""version":9}"#), "version"),
        (text.replace(r#""seq":"#, r#""seqq":"#), "seq"),
        (
            text.replace(&format!(r#""generation":{GENERATION}"#), r#""generation":"one""#),
            "generation",
        ),
        (
            text.replacen(r#""sliceType":"converter""#, r#""sliceTyp":"converter""#, 1),
            "slices[1].sliceType",
        ),
    ];
    for (text, field) in cases {
        let error = Snapshot::from_json(&text).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
}

#[tokio::test]
async fn a_corrupt_snapshot_is_skipped_without_loss() {
    let (store, session) = some_session().await;
    let id = session.id().clone();
    let hash = session.fold().conversation().hash();
    let good = session.snapshot(BTreeMap::new());
    session.close().await.unwrap();
    for (damage, why) in [
        (
            good.to_json().replace(
                r#""sliceType":"query","version":1"#,
                r#""sliceType":"query","version":7"#,
            ),
            "slices.query.version",
        ),
        (good.to_json()[..100].to_owned(), "EOF"),
        (good.to_json().replace(good.log_id.as_str(), "other"), "it is of log other"),
    ] {
        let snapshot =
            StoredSnapshot { generation: GENERATION, seq: good.seq, bytes: damage.into() };
        store.put_snapshot(&id, snapshot).await.unwrap();
        let loaded = load(&store, &id, u64::MAX, Slices::default()).await.unwrap();
        let said = loaded.passed_over.unwrap();
        assert!(said.contains(why), "{said}");
        assert_eq!(loaded.fold.conversation().hash(), hash);
    }
}

fn said(text: &str) -> SessionEvent {
    SessionEvent::from_json(&format!(
        r#"{{"type":"block:upsert","payload":{{"block":{{"id":"{text}","type":"assistant_text","content":"{text}","status":"complete"}}}}}}"#
    ))
    .unwrap()
}

#[tokio::test]
async fn listeners_receive_each_step_once_from_their_cursor() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &"s".into()).await;
    let handle = session.handle();
    session.emit(&said("a")).await.unwrap();
    session.emit(&said("b")).await.unwrap();
    let (mut early, mut late) =
        (handle.listen(&handle.cursor_at(0)), handle.listen(&handle.cursor_at(1)));
    let seqs = |update: Update| match update {
        Update::Steps(steps, _) => steps.iter().map(|it| it.step.seq).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(seqs(early.next().await), [1, 2]);
    assert_eq!(seqs(late.next().await), [2]);
    session.emit(&said("c")).await.unwrap();
    assert_eq!(seqs(early.next().await), [3]);
    session.close().await.unwrap();
    assert_eq!(seqs(late.next().await), [3]);
    assert!(matches!(late.next().await, Update::End(_)));
}

#[tokio::test]
async fn a_lagging_listener_receives_a_gap() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &"s".into()).await;
    let mut slow = session.handle().listen(&session.cursor());
    for index in 0..1_100 {
        session.emit(&said(&format!("b{index}"))).await.unwrap();
    }
    let Update::Gap(view, reason) = slow.next().await else { panic!("no gap") };
    assert_eq!(reason, GapReason::TooFarBehind);
    assert_eq!((view.seq, view.conversation.blocks().len()), (1_100, 1_100));
    session.emit(&said("after")).await.unwrap();
    assert!(matches!(slow.next().await, Update::Steps(steps, _) if steps.len() == 1));
}

#[tokio::test]
async fn a_cursor_that_does_not_match_gets_the_complete_state() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &"s".into()).await;
    for text in ["a", "b", "c"] {
        session.emit(&said(text)).await.unwrap();
    }
    let cursor = session.cursor();
    let foreign = [
        (Cursor { log: "another".into(), ..cursor.clone() }, GapReason::OtherLog),
        (Cursor { log: "another".into(), seq: 1, ..cursor.clone() }, GapReason::OtherLog),
        (
            Cursor { generation: cursor.generation + 1, seq: 1, ..cursor.clone() },
            GapReason::OtherGeneration,
        ),
        (Cursor { seq: 4, ..cursor.clone() }, GapReason::BeyondEnd),
        (Cursor { seq: u64::MAX, ..cursor.clone() }, GapReason::BeyondEnd),
    ];
    for (after, wanted) in foreign {
        let mut listener = session.handle().listen(&after);
        let Update::Gap(view, reason) = listener.next().await else { panic!("{after}") };
        assert_eq!(reason, wanted, "{after}");
        assert_eq!((view.seq, view.conversation.blocks().len()), (3, 3), "{after}");
    }
    let mut own = session.handle().listen(&Cursor { seq: 1, ..cursor });
    assert!(matches!(own.next().await, Update::Steps(steps, _) if steps.len() == 2));
}

#[tokio::test]
async fn large_steps_are_not_buffered_for_lagging_listeners() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &"s".into()).await;
    let mut slow = session.handle().listen(&session.cursor());
    let large = "x".repeat(3 << 20);
    let mut steps = Vec::new();
    for index in 0..20 {
        let step = session.emit(&said(&format!("{index}{large}"))).await.unwrap();
        steps.extend(step.iter().map(Arc::downgrade));
    }
    let kept = steps.iter().filter(|step| step.strong_count() > 0).count();
    assert!((1..=5).contains(&kept), "{kept} steps of 3 MB are in memory");
    let Update::Gap(view, reason) = slow.next().await else { panic!("no gap") };
    assert_eq!((view.seq, reason), (20, GapReason::TooFarBehind));
    session.emit(&said(&large)).await.unwrap();
    assert!(matches!(slow.next().await, Update::Steps(steps, _) if steps.len() == 1));
}
