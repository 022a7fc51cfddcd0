//! Corrupt files: a reader gets everything that was acknowledged, or a clear error.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;
use threadfold_core::SessionId;
use threadfold_fold::{Record, StoredRecord};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{
    BlobStore, DerivedStore, Limit, LogStore, Maintenance, Remedy, Store, StoreError,
    StoredSnapshot, Subject,
};
use threadfold_testkit::store_suite::{Writer, line, record, run};

use crate::opening::make;

type Result = std::result::Result<(), Box<dyn Error>>;

/// Returns a folder in memory, if there is one: tests create thousands of files in it.
pub(crate) fn quick_folder() -> std::io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Reads all there is of a session.
async fn read(store: &SqliteStore) -> std::result::Result<Vec<StoredRecord>, StoreError> {
    let limit = Limit { until: u64::MAX, bytes: usize::MAX };
    store.read(&SessionId::from("session"), 0, limit).await
}

/// Returns whether an error names what is wrong with a file.
pub(crate) fn is_clear(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Corrupt { .. }
            | StoreError::Foreign { .. }
            | StoreError::Unreachable { .. }
            | StoreError::NotFound { .. }
    )
}

#[test]
fn a_flipped_bit_is_harmless_or_detected() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    run(async {
        let mut writer = make(&path).await;
        // Text that does not compress: there are more bits of content than of empty pages.
        let words =
            (1..20_000_u64).map(|it| format!("{:x}", it.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let text = format!("{{\"text\":\"{}\"}}", words.collect::<String>());
        let mut large: Vec<Record> = (0..2000).map(|it| line(&writer.session, it)).collect();
        large.insert(3, record(text.clone()));
        writer.append(large).await.expect("it is in order");
        let snapshot = StoredSnapshot { generation: 1, seq: 1, bytes: Bytes::from(text) };
        let put = writer.store.put_snapshot(&writer.session, snapshot.clone()).await;
        put.expect("it can be kept");
        let written = writer.written.clone();
        // A copy has no free pages, in which a flipped bit is harmless.
        let copy = folder.path().join("copy.db");
        let store = SqliteStore::open(&path).expect("it is whole");
        store.backup(&copy).await.expect("it can be written");

        let whole = fs::read(&copy).unwrap();
        let flipped = folder.path().join("flipped.db");
        let (mut found, mut harmless) = (0, 0);
        for bit in (0..whole.len() * 8).step_by(whole.len() * 8 / 311) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&flipped, bytes).unwrap();
            let store = match SqliteStore::open_read_only(&flipped) {
                Ok(store) => store,
                Err(error) => {
                    assert!(is_clear(&error) || matches!(error, StoreError::Newer { .. }));
                    continue;
                }
            };
            match store.check().await {
                Ok(findings) if findings.is_empty() => {
                    harmless += 1;
                    assert!(read(&store).await.expect("nothing was found") == written);
                    let read = store.snapshot(&SessionId::from("session"), 1, 1).await;
                    assert!(read.expect("nothing was found").as_ref() == Some(&snapshot));
                }
                Ok(findings) => {
                    found += 1;
                    assert!(findings.iter().all(|it| !it.problem.is_empty()));
                }
                Err(error) => {
                    found += 1;
                    assert!(is_clear(&error), "{error:?}");
                }
            }
        }
        assert!(found > harmless, "{found} found, {harmless} harmless");
    });
    Ok(())
}

#[test]
fn check_finds_nothing_in_an_intact_store() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    run(async {
        drop(make(&path).await);
        let store = SqliteStore::open(&path).expect("it is whole");
        assert_eq!(store.check().await.expect("it can be read"), []);
    });
    Ok(())
}

#[test]
fn a_corrupt_blob_is_rewritten_when_its_content_is_stored_again() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    let content = Bytes::from("content ".repeat(10_000));
    run(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let writer = Writer::begin(&store, "session").await;
        let hash = store.put_blob(&writer.session, content.clone()).await.expect("it is kept");
        let file = Connection::open(&path).expect("it is a database");
        file.execute("UPDATE blobs SET data = x'00'", []).expect("it can be damaged");
        assert!(matches!(store.blob(&hash).await, Err(StoreError::Corrupt { .. })));
        let again = store.put_blob(&writer.session, content.clone()).await.expect("it is kept");
        assert_eq!(again, hash);
        let found = store.blob(&hash).await.expect("it can be read");
        assert!(found.as_ref() == Some(&content), "it is what was kept");
    });
    Ok(())
}

#[test]
fn records_of_many_megabytes_do_not_stay_uncompressed() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    run(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let mut writer = Writer::begin(&store, "session").await;
        let text = "a".repeat(5 << 20);
        writer.append(vec![record(text)]).await.expect("it is in order");
        writer.check().await;
        drop((writer, store));
        let length = fs::metadata(&path).expect("it is there").len();
        assert!(length < 1 << 20, "{length} bytes are on disk");
    });
    Ok(())
}

/// Changes the file behind the store's back.
fn alter(path: &Path, sql: &str) {
    let file = Connection::open(path).expect("it is a database");
    file.execute_batch(sql).expect("it can be changed");
}

#[test]
fn a_corrupt_snapshot_piece_loses_nothing_and_is_rewritten() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    run(async {
        let store = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let writer = Writer::begin(&(store.clone() as Arc<dyn Store>), "session").await;
        let bytes: String = (0..50_000).map(|number| format!("{number} ")).collect();
        let snapshot = StoredSnapshot { generation: 1, seq: 1, bytes: Bytes::from(bytes) };
        store.put_snapshot(&writer.session, snapshot.clone()).await.expect("it can be kept");
        alter(
            &path,
            "UPDATE blobs SET data = x'00' WHERE id = (SELECT min(blob) FROM snapshot_chunks)",
        );

        let read = store.snapshot(&writer.session, 1, 1).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        let findings = store.check().await.expect("it can be read");
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        let session = writer.session.clone();
        assert_eq!(finding.subject, Subject::Snapshot { session, generation: 1, seq: 1 });
        assert_eq!(finding.remedy, Remedy::Rebuild);

        store.put_snapshot(&writer.session, snapshot.clone()).await.expect("it can be kept");
        let read = store.snapshot(&writer.session, 1, 1).await;
        assert!(read.expect("it is whole").as_ref() == Some(&snapshot));
        assert_eq!(store.check().await.expect("it can be read"), []);
    });
    Ok(())
}

#[test]
fn corruption_of_an_unreferenced_blob_loses_nothing() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    run(async {
        let store = SqliteStore::open(&path).expect("it can be made");
        let session = SessionId::from("session");
        store.create(&session, "log".into()).await.expect("it can begin");
        let content = Bytes::from("content");
        store.put_blob(&session, content.clone()).await.expect("it is kept");
        store.remove(&session).await.expect("nobody writes to it");
        alter(&path, "UPDATE blobs SET data = x'00'");
        assert_eq!(store.check().await.expect("it can be read"), []);
        store.create(&session, "log".into()).await.expect("it can begin");
        let hash = store.put_blob(&session, content.clone()).await.expect("it is kept");
        assert_eq!(store.blob(&hash).await.expect("it is whole"), Some(content));
    });
    Ok(())
}

/// Appends to many sessions at once, so that some are written together.
async fn write_bursts(store: &Arc<dyn Store>, path: &Path) {
    let file = Connection::open(path).expect("it is a database");
    for round in 0..100 {
        let mut writers = Vec::new();
        for number in 0..40 {
            writers.push(Writer::begin(store, &format!("{round} {number}")).await);
        }
        // The writer waits for the lock, and the other appends queue up behind it.
        file.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
        let writing: Vec<_> = writers
            .into_iter()
            .map(|mut it| tokio::spawn(async move { it.append(vec![record("x")]).await }))
            .collect();
        tokio::task::yield_now().await;
        file.execute_batch("COMMIT").expect("it can be ended");
        for written in writing {
            written.await.expect("it does not panic").expect("it is in order");
        }
        let bursts = file.query_row("SELECT count(*) FROM packed_bursts", [], |row| row.get(0));
        if bursts.is_ok_and(|count: u64| count > 0) {
            return;
        }
    }
    panic!("nothing was written together");
}

#[test]
fn appends_continue_beside_a_corrupt_burst() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    run(async {
        let damaged = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let store: Arc<dyn Store> = damaged.clone();
        let mut writer = Writer::begin(&store, "session").await;
        write_bursts(&store, &path).await;
        alter(&path, "UPDATE packed_bursts SET data = x''");
        // Enough bytes for a long tail, and enough appends to move the bursts.
        for number in 0..200 {
            let text = "x".repeat(if number < 4 { 100_000 } else { 10 });
            let append = writer.append(vec![record(text)]);
            match tokio::time::timeout(Duration::from_secs(20), append).await {
                Ok(appended) => drop(appended.expect("it is in order")),
                Err(_) => {
                    // Dropping the store would wait for the writer thread, which does not end.
                    std::mem::forget(store);
                    panic!("append {number} hangs");
                }
            }
        }
        writer.check().await;
        let findings = damaged.check().await.expect("it can be read");
        assert!(!findings.is_empty());
    });
    Ok(())
}
