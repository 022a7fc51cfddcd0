//! Tests of content-addressed blobs and garbage collection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_fold::Record;
use threadfold_store::{BlobHash, GarbageReport, Store, StoredSnapshot};

use super::Place;
use super::writer::{Writer, line, record};

async fn put(store: &Arc<dyn Store>, session: &SessionId, bytes: &[u8]) -> BlobHash {
    let hash = store.put_blob(session, Bytes::copy_from_slice(bytes)).await;
    hash.expect("a blob can be stored")
}

async fn get(store: &Arc<dyn Store>, hash: &BlobHash) -> Option<Bytes> {
    store.blob(hash).await.expect("a blob can be read")
}

/// The hash is the one that any client computes.
pub async fn content_is_found_by_its_name(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    for bytes in [Vec::new(), b"a".to_vec(), vec![0xff; 100_000], b"session".to_vec()] {
        let hash = put(&writer.store, &writer.session, &bytes).await;
        assert_eq!(hash, BlobHash::of(&bytes));
        assert_eq!(get(&writer.store, &hash).await, Some(Bytes::from(bytes)));
    }
    assert_eq!(get(&writer.store, &BlobHash::of(b"nobody's")).await, None);
}

/// A blob of two sessions is stored once, and freed with the second session.
pub async fn a_blob_is_retained_while_a_session_refers_to_it(place: &dyn Place) {
    let store = place.open();
    let sessions = ["one", "other"].map(SessionId::from);
    for session in &sessions {
        store.create(session, "log".into()).await.expect("a session can be created");
        put(&store, session, b"shared").await;
    }
    let shared = BlobHash::of(b"shared");
    for session in &sessions {
        let collected =
            store.collect_garbage(Duration::ZERO).await.expect("garbage can be collected");
        assert_eq!(collected, GarbageReport::default());
        assert!(get(&store, &shared).await.is_some());
        store.remove(session).await.expect("it has no writer");
    }
    let collected = store.collect_garbage(Duration::ZERO).await.expect("garbage can be collected");
    assert_eq!(collected, GarbageReport { blobs: 1, bytes: 6 });
    assert_eq!(get(&store, &shared).await, None);
}

/// A blob that is being added is not collected.
pub async fn recent_garbage_is_not_collected(place: &dyn Place) {
    let store = place.open();
    let session = SessionId::from("session");
    store.create(&session, "log".into()).await.expect("a session can be created");
    let hash = put(&store, &session, b"young").await;
    store.remove(&session).await.expect("it has no writer");
    let hour = Duration::from_secs(3600);
    place.clock().advance(hour - Duration::from_millis(1));
    let report = store.collect_garbage(hour).await.expect("garbage can be collected");
    assert_eq!(report, GarbageReport::default());
    assert!(get(&store, &hash).await.is_some());
    place.clock().advance(Duration::from_millis(1));
    let report = store.collect_garbage(hour).await.expect("garbage can be collected");
    assert_eq!(report, GarbageReport { blobs: 1, bytes: 5 });
}

/// However the store represents them.
pub async fn records_and_snapshots_survive_a_collection(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.write_a_long_log().await;
    let text = format!("{{\"text\":\"{}\"}}", "long".repeat(10_000));
    let mut large: Vec<Record> = (0..2000).map(|it| line(&writer.session, it)).collect();
    large.insert(3, record(text.clone()));
    writer.append(large).await.expect("it is valid");
    let snapshot = StoredSnapshot { generation: 1, seq: 1, bytes: text.repeat(10).into() };
    let put = writer.store.put_snapshot(&writer.session, snapshot.clone()).await;
    put.expect("a snapshot can be stored");
    writer.store.collect_garbage(Duration::ZERO).await.expect("garbage can be collected");
    writer.check().await;
    let found = writer.store.snapshot(&writer.session, 1, 1).await;
    assert!(found.expect("a snapshot can be read") == Some(snapshot));
}

/// Nothing is left when both sessions are removed.
pub async fn a_fork_survives_the_original(place: &dyn Place) {
    let store = place.open();
    let mut original = Writer::begin(&store, "11111111-original").await;
    let mut fork = Writer::begin(&store, "22222222-fork").await;
    for writer in [&mut original, &mut fork] {
        let text = format!("{{\"text\":\"{}\"}}", "long".repeat(10_000));
        let mut records: Vec<Record> = (0..3000).map(|it| line(&writer.session, it)).collect();
        records.insert(10, record(text));
        writer.append(records).await.expect("it is valid");
        store.release(&writer.session, writer.epoch).await.expect("it is held");
    }
    store.remove(&original.session).await.expect("it has no writer");
    store.collect_garbage(Duration::ZERO).await.expect("garbage can be collected");
    fork.check().await;
    store.remove(&fork.session).await.expect("it has no writer");
    store.collect_garbage(Duration::ZERO).await.expect("garbage can be collected");
    let again = store.collect_garbage(Duration::ZERO).await.expect("garbage can be collected");
    assert_eq!(again, GarbageReport::default());
}
