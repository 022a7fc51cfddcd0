//! Derived data can be dropped, rebuilt and verified against the records.

use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_engine::agents::claude::claude_files;
use threadfold_engine::{Budget, Options, Session, holder, inspect, load, read_files, reindex};
use threadfold_fold::{Cutter, Fold, Slices, SourceSpec};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{
    Finding, Maintenance, MemoryStore, SessionEntry, Store, StoredSnapshot, Subject, Summary,
};

use crate::recordings::{Recording, claude_recordings};

fn nested() -> Recording {
    claude_recordings().into_iter().find(|it| it.name == "nested").unwrap()
}

async fn imported(recording: &Recording, snapshot_every: u64) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    import_into(&store, recording, snapshot_every).await;
    store
}

async fn import_into(store: &Arc<dyn Store>, recording: &Recording, snapshot_every: u64) {
    let options = Options { snapshot_every, ..Options::new(holder("a test")) };
    let mut session = Session::open(store.clone(), &recording.id, options).await.unwrap();
    let files = claude_files(&recording.main).unwrap();
    read_files(&mut session, &files).await.unwrap();
    session.close().await.unwrap();
}

async fn entry(store: &Arc<dyn Store>) -> SessionEntry {
    store.list_all("").await.unwrap().pop().unwrap()
}

#[tokio::test]
async fn reindex_rebuilds_derived_data_and_changes_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let nothing_stays = Budget { bytes: 0, folder: folder.path().to_owned() };
    let recording = nested();
    let store = imported(&recording, u64::MAX).await;
    let before = entry(&store).await;
    for budget in [None, Some(nothing_stays)] {
        let made = reindex(&*store, &before, 16, budget.clone()).await.unwrap();
        assert_eq!(made.is_changed(), Some(false));
        assert_eq!(made.snapshots, before.head.seq / 16);
        assert_eq!(made.before.as_ref(), Some(&made.after));
        let after = entry(&store).await;
        assert_eq!((&after.head, &after.summary), (&before.head, &before.summary));
        let loaded = load(&store, &recording.id, 20, Slices::default()).await.unwrap();
        assert_eq!((loaded.snapshot, loaded.passed_over), (Some(16), None));
        assert_eq!(inspect(&store, &after, budget).await.unwrap(), Vec::<Finding>::new());
    }
}

#[tokio::test]
async fn an_empty_log_has_derived_data_too() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let id = SessionId::from("empty");
    let session = Session::open(store.clone(), &id, Options::new(holder("a test"))).await.unwrap();
    session.close().await.unwrap();
    let made = reindex(&*store, &entry(&store).await, 16, None).await.unwrap();
    assert_eq!((made.is_changed(), made.after.seq, made.snapshots), (Some(false), 0, 0));
}

#[tokio::test]
async fn the_previous_state_is_read_from_the_snapshot() {
    let recording = nested();
    let store = imported(&recording, 16).await;
    let mut known = entry(&store).await;
    known.summary = None;
    let made = reindex(&*store, &known, 16, None).await.unwrap();
    assert_eq!(made.is_changed(), Some(false));
    assert_eq!(made.before.unwrap().blocks, None, "a snapshot does not count them");
}

#[tokio::test]
async fn derived_data_that_differs_from_the_records_is_found_and_removed_by_the_next_rebuild() {
    let recording = nested();
    let store = imported(&recording, 16).await;
    let session = &recording.id;
    let (generation, seq) = store.snapshots(session).await.unwrap()[0];
    let broken = StoredSnapshot { generation, seq, bytes: "{}".into() };
    store.put_snapshot(session, broken).await.unwrap();
    let SessionEntry { summary, head, .. } = entry(&store).await;
    let summary = summary.unwrap();
    let json = summary.json.replace("\"stateHash\":\"", "\"stateHash\":\"x");
    store.put_summary(session, &head.log, Summary { json, ..summary }).await.unwrap();

    let wrong = inspect(&store, &entry(&store).await, None).await.unwrap();
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(matches!(&wrong[0].subject, Subject::Snapshot { seq: at, .. } if *at == seq));
    assert!(wrong[0].problem.starts_with("it cannot be used"), "{wrong:?}");
    assert!(wrong[1].problem.contains("but the records fold to"), "{wrong:?}");

    let made = reindex(&*store, &entry(&store).await, 16, None).await.unwrap();
    assert_eq!(made.is_changed(), Some(true));
    assert_eq!(inspect(&store, &entry(&store).await, None).await.unwrap(), Vec::<Finding>::new());
}

#[tokio::test]
async fn the_settling_events_produce_the_settled_state() {
    for recording in claude_recordings() {
        let store = imported(&recording, u64::MAX).await;
        let loaded = load(&store, &recording.id, u64::MAX, Slices::default()).await.unwrap();
        let mut state = loaded.fold.conversation().clone();
        state.extend(&loaded.fold.settling());
        assert_eq!(state.hash(), loaded.fold.settled().hash(), "{}", recording.name);
    }
}

#[tokio::test]
async fn an_event_whose_line_has_no_end_is_there_once_its_source_is_settled() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let id = SessionId::from("ours");
    let mut session =
        Session::open(store.clone(), &id, Options::new(holder("a test"))).await.unwrap();
    let source = session.source(&SourceSpec::of_events("events.jsonl")).await.unwrap();
    let line = |id: &str| {
        format!(
            r#"{{"type":"block:upsert","payload":{{"block":{{"id":"{id}","type":"assistant_text","status":"complete","content":"x"}}}}}}"#
        )
    };
    let lines = format!("{}\n{}", line("a"), line("b"));
    let (mut cutter, mut records) = (Cutter::new(source), Vec::new());
    cutter.push(lines.as_bytes(), &mut records);
    records.extend(cutter.unfinished());
    session.accept(records).await.unwrap();
    let blocks = |fold: &Fold| (fold.conversation().blocks().len(), fold.settled().blocks().len());
    assert_eq!(blocks(session.fold()), (1, 2));
}

#[tokio::test]
async fn a_corrupt_snapshot_is_reported_and_removed_by_the_next_rebuild() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let file = Arc::new(SqliteStore::open(&path).unwrap());
    let store: Arc<dyn Store> = file.clone();
    let recording = nested();
    import_into(&store, &recording, 16).await;
    // Without a summary, what was known is looked up in the snapshot.
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "UPDATE blobs SET data = x'00' WHERE id IN (SELECT blob FROM snapshot_chunks);
             UPDATE sessions SET summary_generation = NULL, summary_seq = NULL, summary = NULL;",
        )
        .unwrap();
    let snapshots = store.snapshots(&recording.id).await.unwrap();
    let wrong = inspect(&store, &entry(&store).await, None).await.unwrap();
    assert_eq!(wrong.len(), snapshots.len(), "{wrong:?}");
    assert!(wrong.iter().all(|it| it.problem.contains("cannot be read: ")), "{wrong:?}");

    let made = reindex(&*store, &entry(&store).await, 16, None).await.unwrap();
    assert_eq!((made.before, made.snapshots), (None, snapshots.len() as u64));
    let wrong = inspect(&store, &entry(&store).await, None).await.unwrap();
    assert_eq!(wrong, Vec::<Finding>::new());
    assert_eq!(file.check().await.unwrap(), []);
}
