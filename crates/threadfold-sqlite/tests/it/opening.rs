//! Opening a file: a store, a foreign file, a newer store, a read-only one.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use threadfold_fold::LogId;

use rusqlite::Connection;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Maintenance, Store, StoreError};
use threadfold_testkit::store_suite::{Writer, line, run};

type Result = std::result::Result<(), Box<dyn Error>>;

/// Makes a store with a log, and returns what is in it.
pub(crate) async fn make(path: &Path) -> Writer {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).expect("it can be made"));
    let mut writer = Writer::begin(&store, "session").await;
    writer.write_a_long_log().await;
    writer
}

/// Returns the writer with another store instead of its own.
pub(crate) fn with(writer: Writer, store: SqliteStore) -> Writer {
    let Writer { store: _, session, epoch, written, appends } = writer;
    Writer { store: Arc::new(store), session, epoch, written, appends }
}

#[cfg(unix)]
#[test]
fn only_the_user_may_read_a_store_and_its_folder() -> Result {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("made/too/store.db");
    run(async {
        let _writer = make(&path).await;
        let mode = |path: &Path| fs::metadata(path).map(|it| it.permissions().mode() & 0o777);
        for file in ["store.db", "store.db-wal", "store.db-shm"] {
            assert_eq!(mode(&path.with_file_name(file)).ok(), Some(0o600), "{file}");
        }
        assert_eq!(mode(&folder.path().join("made/too")).ok(), Some(0o700));
        assert_eq!(mode(&folder.path().join("made")).ok(), Some(0o700));
    });
    Ok(())
}

/// Leaves a file as a process does that was killed in its first write to it: `pages` is how many
/// it had before.
fn killed_in_the_first_write(path: &Path, tables: &str, pages: u32) -> Result {
    Connection::open(path)?.execute_batch(tables)?;
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    for word in [0, 7, pages, 512, 4096] {
        journal.extend(u32::to_be_bytes(word));
    }
    journal.resize(512, 0);
    fs::write(format!("{}-journal", path.display()), journal)?;
    Ok(())
}

#[test]
fn a_store_whose_creation_was_killed_is_created_again() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    killed_in_the_first_write(&path, "CREATE TABLE t (x); DROP TABLE t", 0)?;
    run(async {
        make(&path).await;
    });
    Ok(())
}

#[test]
fn the_unfinished_write_of_another_program_is_not_rolled_back() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("other.db");
    killed_in_the_first_write(&path, "CREATE TABLE t (x)", 2)?;
    let before = fs::read(&path)?;
    assert!(SqliteStore::open(&path).is_err());
    assert_eq!(fs::read(&path)?, before);
    Ok(())
}

#[test]
fn a_file_that_is_not_a_store_is_refused_and_not_changed() -> Result {
    let folder = tempfile::tempdir()?;
    let text = folder.path().join("text");
    fs::write(&text, "this is no database, and longer than the header of one is".repeat(9))?;
    let other = folder.path().join("other.db");
    Connection::open(&other)?.execute_batch("CREATE TABLE t (x); PRAGMA user_version = 9")?;
    let marked = folder.path().join("marked.db");
    Connection::open(&marked)?.execute_batch("CREATE TABLE t (x); PRAGMA application_id = 9")?;
    for path in [text, other, marked] {
        let before = fs::read(&path)?;
        for opened in [SqliteStore::open(&path), SqliteStore::open_read_only(&path)] {
            assert!(matches!(opened, Err(StoreError::Foreign { .. })), "{opened:?}");
        }
        assert_eq!(fs::read(&path)?, before);
    }
    Ok(())
}

#[test]
fn a_newer_store_is_refused_and_not_changed() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    run(async { drop(make(&path).await) });
    Connection::open(&path)?.execute_batch("PRAGMA user_version = 1000")?;
    let before = fs::read(&path)?;
    for opened in [SqliteStore::open(&path), SqliteStore::open_read_only(&path)] {
        let Err(StoreError::Newer { found, known, .. }) = opened else { panic!("{opened:?}") };
        assert_eq!((found, known), (1000, 4));
    }
    assert_eq!(fs::read(&path)?, before);
    Ok(())
}

#[test]
fn a_store_of_version_1_is_read_unchanged_and_migrated_on_write() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    run(async {
        let made = make(&path).await;
        let (session, epoch) = (made.session.clone(), made.epoch);
        let (written, appends) = (made.written.clone(), made.appends.clone());
        drop(made);
        let older = "DROP TABLE tickets; DROP TABLE removed;
                     ALTER TABLE packed_bursts RENAME TO bursts;
                     PRAGMA user_version = 1";
        let file = Connection::open(&path).expect("it is a database");
        file.execute_batch(older).expect("it can be made older");
        drop(file);

        let reader: Arc<dyn Store> =
            Arc::new(SqliteStore::open_read_only(&path).expect("it can be read"));
        let written_before = Writer { store: reader, session, epoch, written, appends };
        written_before.check().await;
        let mut writer = with(written_before, SqliteStore::open(&path).expect("it can be written"));
        // An older process that has the store open must not move rows that it cannot read.
        let file = Connection::open(&path).expect("it is a database");
        let older = file.prepare("SELECT count(*) FROM bursts");
        assert!(older.is_err(), "an older process would go on");
        drop(older);
        drop(file);
        writer.append(vec![line(&writer.session, 1)]).await.expect("the lease still holds");
        writer.check().await;
        let released = writer.store.release(&writer.session, writer.epoch).await;
        released.expect("it has the lease");
        writer.store.remove(&writer.session).await.expect("nobody writes to it");
        let again = writer.store.create(&writer.session, LogId::from("another")).await;
        assert!(again.expect("it can begin").epoch > writer.epoch);
        drop(writer);
        let store = SqliteStore::open(&path).expect("it is whole");
        assert_eq!(store.check().await.expect("it can be read"), []);
    });
    Ok(())
}

#[test]
fn an_empty_file_becomes_a_store() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    fs::write(&path, "")?;
    run(async { make(&path).await.check().await });
    Ok(())
}

#[test]
fn a_missing_store_cannot_be_read() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    let opened = SqliteStore::open_read_only(&path);
    assert!(matches!(opened, Err(StoreError::Unreachable { .. })), "{opened:?}");
    assert!(!path.exists());
    Ok(())
}

#[test]
fn a_store_opened_read_only_is_not_written() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    run(async {
        let writer = make(&path).await;
        let reader = SqliteStore::open_read_only(&path).expect("it is there");
        let mut reading = with(writer.clone(), reader);
        reading.check().await;
        let refused = reading.append(vec![line(&writer.session, 1)]).await;
        assert!(matches!(refused, Err(StoreError::Unwritable { .. })), "{refused:?}");
        reading.check().await;
    });
    Ok(())
}

#[test]
fn a_closed_store_leaves_no_other_files() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    run(async { drop(make(&path).await) });
    let names: Vec<_> = fs::read_dir(folder.path())?.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["store.db"]);
    Ok(())
}

#[test]
fn a_backup_is_the_store_of_one_moment() -> Result {
    let folder = tempfile::tempdir()?;
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.db"));
    fs::write(&copy, "what was there")?;
    run(async {
        let mut writer = make(&path).await;
        let moment = writer.clone();
        let store = SqliteStore::open(&path).expect("it is there");
        store.backup(&copy).await.expect("it can be written");
        writer.write_a_long_log().await;
        let backup = SqliteStore::open(&copy).expect("it is a store");
        assert_eq!(backup.check().await.expect("it can be read"), []);
        assert_eq!(
            backup.size().await.expect("it can be read").records,
            moment.written.len() as u64
        );
        with(moment, backup).check().await;
        let missing = folder.path().join("missing/copy.db");
        let refused = store.backup(&missing).await;
        assert!(matches!(refused, Err(StoreError::Unwritable { .. })), "{refused:?}");
        writer.check().await;
    });
    let mut names: Vec<_> =
        fs::read_dir(folder.path())?.map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["copy.db", "store.db"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&copy)?.permissions().mode() & 0o777, 0o600);
    }
    Ok(())
}
