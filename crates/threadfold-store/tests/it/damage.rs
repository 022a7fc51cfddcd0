//! A file that was cut off or changed: all that was acknowledged by then, or a clear error.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;
use threadfold_core::SessionId;
use threadfold_store::{
    Limit, NewRecord, SqliteStore, Store, StoreError, StoredRecord, StoredSnapshot,
};
use threadfold_testkit::store_suite::{Writer, line, record, run};

use crate::opening::make;

type Result = std::result::Result<(), Box<dyn Error>>;

/// Returns a folder in memory where there is one: thousands of files are made in it.
fn quick_folder() -> std::io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Reads all there is of a session.
async fn read(store: &SqliteStore) -> std::result::Result<Vec<StoredRecord>, StoreError> {
    let limit = Limit { until: u64::MAX, bytes: usize::MAX };
    store.read(&SessionId::from("session"), 0, limit).await
}

/// Says whether an error is one that tells a person what is wrong with a file.
fn is_clear(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Damaged { .. }
            | StoreError::Foreign { .. }
            | StoreError::Unreachable { .. }
            | StoreError::NotFound { .. }
    )
}

#[test]
fn a_write_ahead_file_that_was_cut_off_anywhere_holds_what_was_acknowledged_by_then() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    let cut = folder.path().join("cut.db");
    run(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let mut writer = Writer::begin(&store, "session").await;
        let wal = path.with_file_name("store.db-wal");
        let length = || fs::metadata(&wal).map_or(0, |it| it.len());
        let begun = length();
        // The length of the file when each append was acknowledged.
        let mut lengths = Vec::new();
        for number in 0..12 {
            let append = vec![line(&writer.session, number), line(&writer.session, 39)];
            writer.append(append).await.expect("it is in order");
            lengths.push(length());
        }
        let (file, log) = (fs::read(&path).unwrap(), fs::read(&wal).unwrap());
        assert!(lengths.last().is_some_and(|last| *last == log.len() as u64));
        // Every byte of the last page and its header, and some of those before.
        let last = log.len() - 4200;
        for end in (last..=log.len()).chain((0..last).rev().step_by(41)) {
            copy_cut(&cut, &file, &log[..end]);
            // Every place is read; some are also opened for writing, which takes longer.
            let opened = if end % 97 == 0 {
                SqliteStore::open(&cut)
            } else {
                SqliteStore::open_read_only(&cut)
            };
            let found = match opened {
                Ok(store) => read(&store).await,
                Err(error) => Err(error),
            };
            let found = match found {
                Ok(found) => found,
                // Not even the session had been acknowledged.
                Err(error) if end < begun as usize => {
                    assert!(is_clear(&error), "{error:?}");
                    continue;
                }
                Err(error) => panic!("at {end}: {error}"),
            };
            let acknowledged = lengths.iter().filter(|length| **length <= end as u64).count() * 2;
            assert!(found.len() >= acknowledged, "{} of {acknowledged} at {end}", found.len());
            assert!(found.len() % 2 == 0, "half an append at {end}");
            assert!(found == writer.written[..found.len()]);
        }
    });
    Ok(())
}

fn copy_cut(path: &Path, file: &[u8], log: &[u8]) {
    let shm = path.with_file_name("cut.db-shm");
    if shm.exists() {
        fs::remove_file(shm).expect("it is there");
    }
    fs::write(path, file).expect("there is room");
    fs::write(path.with_file_name("cut.db-wal"), log).expect("there is room");
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_read_exactly_or_refused() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    run(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let mut writer = Writer::begin(&store, "session").await;
        for number in 0..30 {
            writer.append(vec![line(&writer.session, number)]).await.expect("it is in order");
        }
        let written = writer.written.clone();
        drop((store, writer));
        let whole = fs::read(&path).unwrap();
        let mut refused = 0;
        let last = whole.len() - 4096;
        for end in (last..whole.len()).chain((0..last).step_by(61)) {
            fs::write(&path, &whole[..end]).unwrap();
            let found = match SqliteStore::open_read_only(&path) {
                Ok(store) => read(&store).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(found) => assert!(found == written, "at {end}"),
                Err(error) => {
                    assert!(is_clear(&error), "at {end}: {error:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
        fs::write(&path, &whole).unwrap();
        let store = SqliteStore::open(&path).expect("it is whole");
        assert!(read(&store).await.expect("it is whole") == written);
    });
    Ok(())
}

#[test]
fn a_flipped_bit_changes_nothing_or_is_found() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    run(async {
        let mut writer = make(&path).await;
        let text = format!("{{\"text\":\"{}\"}}", "long".repeat(10_000));
        let mut large: Vec<NewRecord> = (0..2000).map(|it| line(&writer.session, it)).collect();
        large.insert(3, record(text.clone()));
        writer.append(large).await.expect("it is in order");
        let snapshot = StoredSnapshot { generation: 1, seq: 1, bytes: Bytes::from(text) };
        let put = writer.store.put_snapshot(&writer.session, snapshot.clone()).await;
        put.expect("it can be kept");
        let written = writer.written.clone();
        // A copy has no free pages, where any bit may be flipped.
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
                    assert!(findings.iter().all(|it| !it.advice.is_empty()));
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
fn nothing_is_found_in_a_store_that_is_whole() -> Result {
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
fn content_that_was_damaged_is_written_anew_by_whoever_keeps_it_next() -> Result {
    let folder = quick_folder()?;
    let path = folder.path().join("store.db");
    let content = Bytes::from("content ".repeat(10_000));
    run(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let writer = Writer::begin(&store, "session").await;
        let hash = store.put_blob(&writer.session, content.clone()).await.expect("it is kept");
        let file = rusqlite::Connection::open(&path).expect("it is a database");
        file.execute("UPDATE blobs SET data = x'00'", []).expect("it can be damaged");
        assert!(matches!(store.blob(&hash).await, Err(StoreError::Damaged { .. })));
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
