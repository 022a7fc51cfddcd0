//! A session larger than its budget: closed blocks are spilled, and nothing else is different.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use threadfold_core::{SessionId, StateHash};
use threadfold_engine::agents::claude::claude_files;
use threadfold_engine::{
    Budget, EngineError, InputFile, Options, Session, holder, load, load_within, read_files,
    reindex,
};
use threadfold_fold::{
    Cutter, Fold, GENERATION, Record, RecordKind, Slices, Snapshot, SnapshotFooter, StoredRecord,
};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Limit, MemoryStore, Store, StoreError};
use threadfold_testkit::big_session::write_transcript;
use threadfold_testkit::{DelegatingStore, StoreCall, StoreHooks};

use crate::recordings::{claude_recordings, parsed_hash, settled_hash};

const EVERY: u64 = 64;

fn budget(bytes: usize, folder: &Path) -> Option<Budget> {
    Some(Budget { bytes, folder: folder.to_owned() })
}

async fn open(store: &Arc<dyn Store>, id: &SessionId, budget: Option<Budget>) -> Session {
    let options = Options { budget, snapshot_every: EVERY, ..Options::new(holder("a test")) };
    Session::open(store.clone(), id, options).await.unwrap()
}

async fn import(
    store: &Arc<dyn Store>,
    (id, files): (&SessionId, &[InputFile]),
    budget: Option<Budget>,
) {
    let mut session = open(store, id, budget).await;
    read_files(&mut session, files).await.unwrap();
    assert_eq!(session.close().await.unwrap(), Vec::<String>::new());
}

/// Writes a session of about so many bytes.
fn made_up(folder: &Path, bytes: u64) -> (SessionId, Vec<InputFile>) {
    let file = folder.join("made-up.jsonl");
    let mut text = Vec::new();
    write_transcript(bytes, &mut text).unwrap();
    fs::write(&file, text).unwrap();
    (SessionId::from("made-up"), claude_files(&file).unwrap())
}

async fn all_records(store: &dyn Store, id: &SessionId) -> Vec<StoredRecord> {
    let limit = Limit { bytes: usize::MAX, ..Limit::default() };
    store.read(id, 0, limit).await.unwrap()
}

/// Opens a session at every tenth record, and holds it against the fold of the records up to it.
async fn check_every_tenth(store: &Arc<dyn Store>, id: &SessionId) {
    let mut fold = Fold::new(id.clone(), Slices::default());
    for record in all_records(&**store, id).await {
        fold.push(&record);
        if record.seq % 10 == 0 {
            let at = load(store, id, record.seq, Slices::default()).await.unwrap();
            assert_eq!(at.passed_over, None);
            assert_eq!(at.records, record.seq % EVERY, "records after a snapshot");
            assert_eq!(at.fold.conversation().hash(), fold.conversation().hash());
            assert_eq!(at.fold.metadata(), fold.metadata());
        }
    }
}

/// Returns the snapshots as they were written, but for what is of the log and of the time.
async fn written(store: &dyn Store, id: &SessionId) -> Vec<String> {
    let mut all = Vec::new();
    for (generation, seq) in store.snapshots(id).await.unwrap() {
        let stored = store.snapshot(id, generation, seq).await.unwrap().unwrap();
        let json = SnapshotFooter::json_of(&stored.bytes);
        let mut text = std::str::from_utf8(json).unwrap().to_owned();
        let snapshot = Snapshot::from_json(&text).unwrap();
        for own in [&snapshot.created_at, snapshot.log_id.as_str()] {
            text = text.replace(own, "own");
        }
        let footer = SnapshotFooter::read(&stored.bytes).unwrap();
        let rows = &stored.bytes[footer.rows as usize..footer.outline as usize];
        all.push(format!("{text} and {}", blake3::hash(rows)));
    }
    all
}

#[tokio::test]
async fn a_session_over_its_budget_has_the_snapshots_of_one_within_it() {
    let folder = tempfile::tempdir().unwrap();
    let (id, files) = made_up(folder.path(), 2_000_000);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("a.db")).unwrap());
    import(&store, (&id, &files), budget(30_000, folder.path())).await;
    let head = store.head(&id).await.unwrap().unwrap().seq;
    let places = store.snapshots(&id).await.unwrap();
    let seqs: Vec<u64> = places.iter().map(|(_, seq)| *seq).collect();
    assert_eq!(seqs, (1..=head / EVERY).map(|it| it * EVERY).collect::<Vec<_>>());
    check_every_tenth(&store, &id).await;

    let plain: Arc<dyn Store> = Arc::new(MemoryStore::default());
    import(&plain, (&id, &files), None).await;
    assert!(written(&*store, &id).await == written(&*plain, &id).await, "byte for byte");
}

#[tokio::test]
async fn every_recording_is_the_same_whatever_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    for recording in claude_recordings() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let files = claude_files(&recording.main).unwrap();
        import(&store, (&recording.id, &files), budget(0, folder.path())).await;
        let hash = settled_hash(&store, &recording.id).await;
        assert_eq!(hash, parsed_hash(&recording), "{}", recording.name);
        check_every_tenth(&store, &recording.id).await;
    }
}

#[tokio::test]
async fn a_session_is_loaded_within_its_budget_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let (id, files) = made_up(folder.path(), 300_000);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    import(&store, (&id, &files), None).await;
    store.delete_derived(&id).await.unwrap();
    let session = open(&store, &id, budget(10_000, folder.path())).await;
    let whole = load(&store, &id, u64::MAX, Slices::default()).await.unwrap();
    assert_eq!(session.fold().conversation().hash(), whole.fold.conversation().hash());
    assert_eq!(session.fold().settled(), whole.fold.settled());
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_session_is_opened_from_its_snapshot_within_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let (id, files) = made_up(folder.path(), 300_000);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    import(&store, (&id, &files), None).await;
    let whole = load(&store, &id, u64::MAX, Slices::default()).await.unwrap();
    assert!(whole.snapshot.is_some());
    let session = open(&store, &id, budget(10_000, folder.path())).await;
    assert_eq!(session.fold().conversation().hash(), whole.fold.conversation().hash());
    assert_eq!(session.fold().settled(), whole.fold.settled());
    session.close().await.unwrap();

    // A folder that does not exist shows that nothing is spilled: blocks stay in the snapshot.
    let (seq, nowhere) = (whole.snapshot.unwrap(), folder.path().join("not there"));
    let within = |seq| load_within(&store, &id, seq, Slices::default(), budget(1_000, &nowhere));
    let loaded = within(seq).await.unwrap();
    assert_eq!((loaded.fold.seq(), loaded.records), (seq, 0));
    loaded.parts.check().unwrap();
    // Later records are spilled.
    store.delete_derived(&id).await.unwrap();
    let loaded = within(seq).await.map(|it| it.fold.seq());
    assert!(matches!(loaded, Err(EngineError::Spill { .. })), "{loaded:?}");
}

#[tokio::test]
async fn a_session_is_opened_without_reading_its_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let (id, files) = made_up(folder.path(), 10_000_000);
    let path = folder.path().join("a.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).unwrap());
    // As many records as there are: the only snapshot is written when the session is closed.
    let options = Options { budget: budget(1_000_000, folder.path()), ..Options::new(holder("a")) };
    let mut session = Session::open(store.clone(), &id, options).await.unwrap();
    read_files(&mut session, &files).await.unwrap();
    let expected = session.fold().settled();
    session.close().await.unwrap();
    let counted = DelegatingStore::new(store.clone(), BlobCount::default());
    let counted = Arc::new(counted);
    let shared: Arc<dyn Store> = counted.clone();
    let loaded = load(&shared, &id, u64::MAX, Slices::default()).await.unwrap();
    let pieces = store.snapshot_pieces(&id, GENERATION, u64::MAX).await.unwrap().unwrap().pieces;
    let opened = counted.hooks().0.load(Ordering::Relaxed);
    assert!(pieces.len() > 50 && opened < pieces.len() / 5, "{opened} of {}", pieces.len());
    assert_eq!(loaded.fold.conversation().hash(), expected_hash(&store, &id).await);
    let first = loaded.fold.settled();
    assert_eq!(first.blocks().get(0), expected.blocks().get(0));
    let looked = counted.hooks().0.load(Ordering::Relaxed);
    assert!(looked < pieces.len() / 3, "{looked} of {}", pieces.len());
    assert_eq!(first, expected);
    loaded.parts.check().unwrap();

    // A piece that is gone is reported to whoever looks, and opening goes back to the records.
    let mut session = open(&store, &id, budget(1_000_000, folder.path())).await;
    store.delete_derived(&id).await.unwrap();
    store.collect_garbage(Duration::ZERO).await.unwrap();
    assert!(first.blocks().iter().count() > 0);
    assert_eq!(session.fold().conversation().blocks().iter().count(), expected.blocks().len());
    assert!(matches!(session.new_part(&files[0].spec).await, Err(EngineError::StoredState { .. })));
    let again = load(&store, &id, u64::MAX, Slices::default()).await.unwrap();
    assert_eq!((again.snapshot, again.fold.settled()), (None, expected));
}

/// Returns how many blobs are read to show the last blocks of a session of so many bytes, then one in
/// the middle, and how many more to look for a block that does not exist.
async fn blobs_of_looking(bytes: u64) -> [usize; 3] {
    let folder = tempfile::tempdir().unwrap();
    let (id, files) = made_up(folder.path(), bytes);
    let store = Arc::new(SqliteStore::open(folder.path().join("a.db")).unwrap());
    let store: Arc<dyn Store> = store;
    let options = Options { budget: budget(1_000_000, folder.path()), ..Options::new(holder("a")) };
    let mut session = Session::open(store.clone(), &id, options).await.unwrap();
    read_files(&mut session, &files).await.unwrap();
    session.close().await.unwrap();
    let counted = Arc::new(DelegatingStore::new(store, BlobCount::default()));
    let shared: Arc<dyn Store> = counted.clone();
    let count = || counted.hooks().0.load(Ordering::Relaxed);
    let loaded = load(&shared, &id, u64::MAX, Slices::default()).await.unwrap();
    assert_eq!(loaded.records, 0, "there is a snapshot of all");
    let state = loaded.fold.settled();
    let blocks = state.blocks();
    let last: Vec<_> = (blocks.len() - 50..blocks.len()).map(|at| blocks.get(at)).collect();
    let of_last = count();
    assert_eq!(blocks.position(&last[0].as_ref().unwrap().id), Some(blocks.len() - 50));
    assert!(blocks.get(blocks.len() / 2).is_some());
    let of_middle = count();
    assert_eq!(blocks.position(&"nobody".into()), None);
    loaded.parts.check().unwrap();
    [of_last, of_middle, count() - of_middle]
}

#[tokio::test]
async fn looking_at_a_session_costs_the_same_if_it_is_ten_times_as_long() {
    let (small, large) = (blobs_of_looking(12_000_000).await, blobs_of_looking(120_000_000).await);
    for (one, ten) in small.iter().zip(large).take(2) {
        assert!(ten * 2 <= one * 3, "{small:?} and {large:?}");
    }
    // A page of each segment of the index: their number grows with the logarithm of the length.
    assert!(small[2] <= 8 && large[2] <= 8, "{small:?} and {large:?}");
}

#[tokio::test]
async fn snapshots_of_many_subagents_cost_in_proportion_to_them() {
    const SUBAGENTS: u64 = 2_000;
    let (id, store) = (SessionId::from("many"), Arc::new(MemoryStore::default()) as Arc<dyn Store>);
    let mut session = open(&store, &id, None).await;
    let spawned = |number: u64| {
        let json =
            format!(r#"{{"type":"subagent:spawned","payload":{{"toolUseId":"t{number}"}}}}"#);
        Record::new(RecordKind::Event, 0, 0, json)
    };
    for first in (0..SUBAGENTS).step_by(10) {
        session.accept((first..first + 10).map(spawned).collect()).await.unwrap();
    }
    session.close().await.unwrap();
    // Each snapshot has as many subagents as there are records.
    let written = |snapshots: Vec<(u32, u64)>| snapshots.iter().map(|it| it.1).sum::<u64>();
    let imported = written(store.snapshots(&id).await.unwrap());
    assert!((1..=3 * SUBAGENTS).contains(&imported), "{imported} subagents were written");
    let entry = store.entry(&id).await.unwrap().unwrap();
    reindex(&*store, &entry, EVERY, None).await.unwrap();
    let rebuilt = written(store.snapshots(&id).await.unwrap());
    assert!((1..=3 * SUBAGENTS).contains(&rebuilt), "{rebuilt} subagents were written");
}

/// Counts the blobs that are read.
#[derive(Default)]
struct BlobCount(AtomicUsize);

#[async_trait::async_trait]
impl StoreHooks for BlobCount {
    type Ticket = ();

    async fn before(&self, call: StoreCall) -> Result<(), StoreError> {
        self.0.fetch_add(usize::from(call == StoreCall::Blob), Ordering::Relaxed);
        Ok(())
    }

    async fn after(&self, _: StoreCall, (): ()) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Returns the hash of the fold of all records.
async fn expected_hash(store: &Arc<dyn Store>, id: &SessionId) -> StateHash {
    let mut fold = Fold::new(id.clone(), Slices::default());
    for record in all_records(&**store, id).await {
        fold.push(&record);
    }
    fold.conversation().hash()
}

#[tokio::test]
async fn collected_pieces_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (id, files) = made_up(folder.path(), 3_000_000);
    for store in [
        Arc::new(MemoryStore::default()) as Arc<dyn Store>,
        Arc::new(SqliteStore::open(folder.path().join("gone.db")).unwrap()),
    ] {
        let mut session = open(&store, &id, budget(30_000, folder.path())).await;
        let bytes = fs::read(&files[0].path).unwrap();
        let source = session.source(&files[0].spec).await.unwrap();
        let mut records = Vec::new();
        Cutter::new(source).push(&bytes, &mut records);
        for (index, record) in records.into_iter().enumerate() {
            session.accept(vec![record]).await.unwrap();
            if index == 500 {
                store.delete_derived(&id).await.unwrap();
                store.collect_garbage(std::time::Duration::ZERO).await.unwrap();
            }
        }
        assert_eq!(session.close().await.unwrap(), Vec::<String>::new());
        let last = store.snapshots(&id).await.unwrap().last().unwrap().1;
        let at = load(&store, &id, last, Slices::default()).await.unwrap();
        assert_eq!((at.snapshot, at.records, at.passed_over), (Some(last), 0, None));
    }
}

#[tokio::test]
async fn a_spill_that_fails_is_reported_and_no_record_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (id, files) = made_up(folder.path(), 300_000);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &id, budget(10_000, &folder.path().join("not there"))).await;
    let intake = read_files(&mut session, &files).await;
    assert!(matches!(intake, Err(EngineError::Spill { .. })), "{intake:?}");
    let again = session.accept(vec![Record::new(RecordKind::Event, 0, 0, "{}")]);
    assert!(matches!(again.await, Err(EngineError::Spill { .. })));
    assert!(matches!(session.close().await, Err(EngineError::Spill { .. })));

    assert_eq!(store.list_all("").await.unwrap()[0].lease, None, "others may write");
    import(&store, (&id, &files), None).await;
    let whole = load(&store, &id, u64::MAX, Slices::default()).await.unwrap();
    let plain: Arc<dyn Store> = Arc::new(MemoryStore::default());
    import(&plain, (&id, &files), None).await;
    let expected = load(&plain, &id, u64::MAX, Slices::default()).await.unwrap();
    assert_eq!(whole.fold.conversation().hash(), expected.fold.conversation().hash());
}
