//! A full disk and a read-only folder: nothing is acknowledged, the error contains the reason, and
//! existing data stays readable.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Maintenance, Store, StoreError};
use threadfold_testkit::report_skipped;
use threadfold_testkit::store_suite::{Writer, line, run};

use crate::opening::with;

type Result = std::result::Result<(), Box<dyn Error>>;

/// A small file system of its own, gone when it is dropped.
struct Mount(TempDir);

impl Mount {
    /// Mounts one of this size; without permission, prints that the test is skipped and returns
    /// `None`.
    fn new(size: &str, what: &str) -> std::result::Result<Option<Self>, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let options = format!("size={size}");
        let is_mounted = mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], folder.path());
        if is_mounted {
            return Ok(Some(Self(folder)));
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target folder")?;
        report_skipped(target, what, "a file system cannot be mounted here")?;
        Ok(None)
    }

    fn remount(&self, how: &str) {
        assert!(mount(&["-o", &format!("remount,{how}")], self.0.path()));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|it| it.success()));
    }
}

fn mount(arguments: &[&str], path: &Path) -> bool {
    let output = Command::new("mount").args(arguments).arg(path).output();
    output.is_ok_and(|it| it.status.success())
}

fn open(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path).expect("it can be opened"))
}

#[test]
fn on_a_full_disk_nothing_is_acknowledged_and_everything_is_readable() -> Result {
    let Some(mount) = Mount::new("3m", "a full disk")? else { return Ok(()) };
    let path = mount.0.path().join("store.db");
    run(async {
        let mut writer = Writer::begin(&open(&path), "session").await;
        let error = loop {
            let number = writer.written.len();
            let append = (number..number + 20).map(|it| line(&writer.session, it)).collect();
            if let Err(error) = writer.append(append).await {
                break error;
            }
        };
        let StoreError::Unwritable { source, .. } = &error else { panic!("{error:?}") };
        assert!(source.to_string().contains("full"), "{source}");
        writer.check().await;

        // There is room again: the same append is taken, by the same store.
        let again = writer.next(vec![line(&writer.session, 1)]);
        mount.remount("size=30m");
        writer.append(again.records).await.expect("there is room");
        writer.check().await;
        let store = SqliteStore::open(&path).expect("it is whole");
        assert_eq!(store.check().await.expect("it can be read"), []);
        with(writer, store).check().await;
    });
    Ok(())
}

#[test]
fn in_a_read_only_folder_nothing_is_acknowledged_and_everything_is_readable() -> Result {
    let Some(mount) = Mount::new("30m", "a read-only file system")? else { return Ok(()) };
    let path = mount.0.path().join("store.db");
    run(async {
        let mut writer = Writer::begin(&open(&path), "session").await;
        writer.write_a_long_log().await;
        let (session, epoch, written) =
            (writer.session.clone(), writer.epoch, writer.written.clone());
        drop(writer);
        mount.remount("ro");

        let refused = SqliteStore::open(&path);
        assert!(matches!(refused, Err(StoreError::Unwritable { .. })), "{refused:?}");
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open_read_only(&path).expect("it can be read"));
        let mut reader = Writer { store, session, epoch, written, appends: Vec::new() };
        reader.check().await;
        let refused = reader.append(vec![line(&reader.session, 1)]).await;
        assert!(matches!(refused, Err(StoreError::Unwritable { .. })), "{refused:?}");
        reader.check().await;
    });
    Ok(())
}

#[test]
fn a_crashed_store_on_a_read_only_disk_can_be_read() -> Result {
    let Some(mount) = Mount::new("30m", "a crash on a read-only disk")? else { return Ok(()) };
    let path = mount.0.path().join("store.db");
    let copy = mount.0.path().join("copy.db");
    run(async {
        let mut writer = Writer::begin(&open(&path), "session").await;
        for number in 0..20 {
            writer.append(vec![line(&writer.session, number)]).await.expect("it is in order");
        }
        fs::copy(&path, &copy).unwrap();
        fs::copy(path.with_file_name("store.db-wal"), copy.with_file_name("copy.db-wal")).unwrap();
        let (session, epoch, written) =
            (writer.session.clone(), writer.epoch, writer.written.clone());
        drop(writer);
        mount.remount("ro");
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open_read_only(&copy).expect("it can be read"));
        Writer { store, session, epoch, written, appends: Vec::new() }.check().await;
    });
    Ok(())
}
