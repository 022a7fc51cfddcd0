//! Imported sessions are complete and can be viewed at any record.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use threadfold_core::{Payload, SessionId};
use threadfold_engine::agents::claude::claude_files;
use threadfold_engine::{Options, Session, holder, load, originals};
use threadfold_fold::{Cutter, Fold, Slices, SourceSpec};
use threadfold_store::{Limit, MemoryStore, Store};

use crate::recordings::{claude_recordings, import, parsed_hash, settled_hash};

/// Returns the session's files as the log has them, by name and part.
async fn files_out(store: &dyn Store, id: &SessionId) -> BTreeMap<(String, u32), Vec<u8>> {
    let mut files: BTreeMap<(String, u32), Vec<u8>> = BTreeMap::new();
    originals(store, id, |spec, position, bytes| {
        let file = files.entry((spec.name.clone(), spec.part)).or_default();
        file.truncate(usize::try_from(position).unwrap());
        file.extend_from_slice(bytes);
        Ok(())
    })
    .await
    .unwrap();
    files
}

#[tokio::test]
async fn an_import_equals_its_files_and_exports_them() {
    for recording in claude_recordings() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        import(&store, &recording).await;
        assert_eq!(
            settled_hash(&store, &recording.id).await,
            parsed_hash(&recording),
            "{}",
            recording.name
        );
        let out = files_out(&*store, &recording.id).await;
        let read = claude_files(&recording.main).unwrap();
        let read: BTreeMap<_, _> = read
            .iter()
            .map(|it| ((it.spec.name.clone(), 1), fs::read(&it.path).unwrap()))
            .collect();
        assert!(out == read, "{}: the files are not the same", recording.name);
    }
}

#[tokio::test]
async fn importing_twice_adds_nothing() {
    let recordings = claude_recordings();
    let recording = recordings.iter().find(|it| it.name == "subagents_parallel@2.1.197").unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    import(&store, recording).await;
    let once = store.head(&recording.id).await.unwrap().unwrap().seq;
    import(&store, recording).await;
    assert_eq!(store.head(&recording.id).await.unwrap().unwrap().seq, once);
}

#[tokio::test]
async fn at_every_record_a_session_is_the_fold_of_the_records_up_to_it() {
    let recordings = claude_recordings();
    let recording = recordings.iter().find(|it| it.name == "nested").unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let options = Options { snapshot_every: 4, ..Options::new(holder("a test")) };
    let mut session = Session::open(store.clone(), &recording.id, options).await.unwrap();
    for file in claude_files(&recording.main).unwrap() {
        let bytes = fs::read(&file.path).unwrap();
        let source = session.source(&file.spec).await.unwrap();
        let mut cutter = Cutter::new(source);
        let mut records = Vec::new();
        cutter.push(&bytes, &mut records);
        cutter.finish(&mut records);
        for record in records {
            session.accept(vec![record]).await.unwrap();
        }
    }
    assert_eq!(session.close().await.unwrap(), Vec::<String>::new());
    assert!(store.snapshots(&recording.id).await.unwrap().len() > 3);

    let head = store.head(&recording.id).await.unwrap().unwrap().seq;
    let all = store.read(&recording.id, 0, Limit::default()).await.unwrap();
    let mut fold = Fold::new(recording.id.clone(), Slices::default());
    for record in &all {
        fold.push(record);
        let at = load(&store, &recording.id, record.seq, Slices::default()).await.unwrap();
        assert_eq!(at.passed_over, None);
        assert!(at.records < 4, "{} records were read after a snapshot", at.records);
        assert_eq!(at.fold.conversation().hash(), fold.conversation().hash());
        assert_eq!(at.fold.metadata(), fold.metadata());
        assert_eq!(at.fold.settled().hash(), fold.settled().hash());
    }
    assert_eq!(fold.seq(), head);

    store.delete_derived(&recording.id).await.unwrap();
    let again = load(&store, &recording.id, u64::MAX, Slices::default()).await.unwrap();
    assert_eq!((again.snapshot, again.records), (None, head));
    assert_eq!(again.fold.conversation().hash(), fold.conversation().hash());
}

#[tokio::test]
async fn an_event_that_is_too_long_is_stored_and_reported() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = crate::recordings::open(&store, &"s".into()).await;
    let source = session.source(&SourceSpec::of_events("events.jsonl")).await.unwrap();
    let mut records = Vec::new();
    Cutter::new(source).with_limit(8).push(b"{\"type\":\"log\"}\n", &mut records);
    let steps = session.accept(records).await.unwrap();
    let events = steps.iter().flat_map(|it| &it.events);
    let messages: Vec<String> = events
        .filter_map(|event| match &event.payload {
            Payload::Log(log) => log.message.as_ref().map(ToString::to_string),
            _ => None,
        })
        .collect();
    assert_eq!(messages, ["line 1: a record of 14 bytes is too long to convert"]);
    assert_eq!(session.fold().conversation().blocks().len(), 1, "its beginning is shown");
}
