//! One file, opened more than once: as by several processes.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use threadfold_core::SessionId;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{GarbageReport, Store, StoreError};
use threadfold_testkit::store_suite::{Writer, line, record, run};

type Result = std::result::Result<(), Box<dyn Error>>;

fn open_twice(folder: &tempfile::TempDir) -> [Arc<dyn Store>; 2] {
    let path = folder.path().join("store.db");
    [(); 2].map(|()| Arc::new(SqliteStore::open(&path).expect("it opens")) as Arc<dyn Store>)
}

#[test]
fn each_handle_reads_the_writes_of_the_other() -> Result {
    let folder = tempfile::tempdir()?;
    run(async {
        let [one, other] = open_twice(&folder);
        let mut writer = Writer::begin(&one, "session").await;
        for number in 0..1000 {
            writer.store = Arc::clone(if number % 2 == 0 { &one } else { &other });
            writer.append(vec![line(&writer.session, number)]).await.expect("it is in order");
        }
        writer.check().await;
        writer.store = one;
        writer.check().await;
    });
    Ok(())
}

#[test]
fn a_writer_is_fenced_by_a_lease_given_out_elsewhere() -> Result {
    let folder = tempfile::tempdir()?;
    run(async {
        let [one, other] = open_twice(&folder);
        let mut old = Writer::begin(&one, "session").await;
        old.append(vec![record("a")]).await.expect("it is in order");
        let mut new = Writer::continue_as(&other, old.session.clone(), "another").await;
        new.written = old.written.clone();
        let refused = old.append(vec![record("zombie")]).await;
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
        new.append(vec![record("b")]).await.expect("it is in order");
        new.check().await;
    });
    Ok(())
}

#[test]
fn both_write_to_sessions_of_their_own_at_once() -> Result {
    let folder = tempfile::tempdir()?;
    run(async {
        let stores = open_twice(&folder);
        let mut writing = Vec::new();
        for number in 0..8 {
            let mut writer = Writer::begin(&stores[number % 2], &format!("s{number}")).await;
            writing.push(tokio::spawn(async move {
                for number in 0..100 {
                    let append = vec![line(&writer.session, number)];
                    writer.append(append).await.expect("it is in order");
                }
                writer
            }));
        }
        for writer in writing {
            writer.await.expect("it does not panic").check().await;
        }
    });
    Ok(())
}

#[test]
fn a_change_in_another_process_wakes_waiters() -> Result {
    let folder = tempfile::tempdir()?;
    run(async {
        let [one, other] = open_twice(&folder);
        let mut writer = Writer::begin(&one, "session").await;
        for round in 0..5 {
            let (other, session) = (Arc::clone(&other), writer.session.clone());
            let waiting = tokio::spawn(async move { other.changed(&session, round).await });
            writer.append(vec![record("a")]).await.expect("it is in order");
            waiting.await.expect("it does not panic").expect("it is there");
        }
    });
    Ok(())
}

#[test]
fn a_session_that_was_removed_elsewhere_is_not_written_to() -> Result {
    let folder = tempfile::tempdir()?;
    run(async {
        let [one, other] = open_twice(&folder);
        let mut writer = Writer::begin(&one, "session").await;
        writer.append(vec![record("a")]).await.expect("it is in order");
        one.release(&writer.session, writer.epoch).await.expect("it has it");
        other.remove(&writer.session).await.expect("it is free");
        let mut new = Writer::begin(&other, "new").await;
        new.append(vec![record("b")]).await.expect("it is in order");
        let refused = writer.append(vec![record("zombie")]).await;
        assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");
        new.check().await;
        assert_eq!(one.head(&SessionId::from("session")).await.expect("it can be read"), None);
    });
    Ok(())
}

#[test]
fn garbage_is_collected_in_steps_that_let_others_write() -> Result {
    const BLOBS: u64 = 5000;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    run(async {
        let [one, other] = open_twice(&folder);
        let mut writer = Writer::begin(&other, "other").await;
        one.create(&"session".into(), "log".into()).await.expect("it can begin");
        let file = Connection::open(&path).expect("it is a database");
        file.execute_batch(&format!(
            "WITH RECURSIVE number (it) AS (SELECT 1 UNION ALL SELECT it + 1 FROM number LIMIT {BLOBS})
             INSERT INTO blobs (hash, length, stored_at, data)
             SELECT randomblob(32), 4, 0, x'01020304' FROM number;"
        ))
        .expect("it can be written");
        let left = || -> u64 {
            // Records of the writer may have become a blob meanwhile.
            let made = "SELECT count(*) FROM blobs WHERE stored_at = 0";
            let count = file.query_row(made, [], |row| row.get(0));
            count.expect("it can be read")
        };
        let collecting = tokio::spawn(async move { one.collect_garbage(Duration::ZERO).await });
        let mut seen = BTreeSet::new();
        while !collecting.is_finished() {
            seen.insert(left());
            writer.append(vec![record("meanwhile")]).await.expect("it is in order");
        }
        let collected = collecting.await.expect("it does not panic").expect("it can be collected");
        assert_eq!(collected, GarbageReport { blobs: BLOBS, bytes: 4 * BLOBS });
        assert_eq!(left(), 0);
        let between = seen.iter().filter(|it| (1..BLOBS).contains(*it)).count();
        assert!(between > 0, "{seen:?}");
        writer.check().await;
    });
    Ok(())
}
