//! Truncated files: a reader gets what was acknowledged by then, or a clear error; never half an
//! append.
//!
//! The file is truncated at every byte of its last pages. Each test covers some of them, so that
//! they run in parallel.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use threadfold_core::SessionId;
use threadfold_fold::StoredRecord;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Limit, Store, StoreError};
use threadfold_testkit::store_suite::{Writer, line, run};

use crate::corruption::{is_clear, quick_folder};

const PAGE: usize = 4096;
/// A page in the WAL, with its header.
const FRAME: usize = PAGE + 24;
/// At every so many lengths the file is also written to, which takes longer.
const WRITTEN: usize = 97;

type ReadResult = Result<Vec<StoredRecord>, StoreError>;

async fn read(store: &dyn Store) -> ReadResult {
    let limit = Limit { until: u64::MAX, bytes: usize::MAX };
    store.read(&SessionId::from("session"), 0, limit).await
}

async fn read_file(path: &Path) -> ReadResult {
    read(&SqliteStore::open_read_only(path)?).await
}

/// Adds a record, and returns all that a reader finds after the file was closed.
async fn write_file(path: &Path) -> Result<(Vec<StoredRecord>, ReadResult), StoreError> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path)?);
    let session = SessionId::from("session");
    let head = store.head(&session).await?;
    if head.is_none() {
        return Err(StoreError::NotFound { session });
    }
    let found = read(&*store).await?;
    let mut writer = Writer::continue_as(&store, session, "after the cut").await;
    writer.written = found;
    writer.append(vec![line(&writer.session, 1000)]).await?;
    let expected = std::mem::take(&mut writer.written);
    drop((writer, store));
    Ok((expected, read_file(path).await))
}

/// A copy of a database that is cut off more and more.
struct TruncatedCopy {
    path: PathBuf,
    file: Vec<u8>,
    log: Vec<u8>,
}

impl TruncatedCopy {
    fn log_path(&self) -> PathBuf {
        self.path.with_file_name("cut.db-wal")
    }

    /// Rewrites the copy, truncating each file to this length.
    fn restore(&self, file: usize, log: usize) {
        self.forget_index();
        fs::write(&self.path, &self.file[..file]).expect("there is room");
        fs::write(self.log_path(), &self.log[..log]).expect("there is room");
    }

    /// Removes the index that a reader made of a longer file.
    fn forget_index(&self) {
        fs::remove_file(self.path.with_file_name("cut.db-shm")).ok();
    }
}

fn shorten(path: &Path, length: usize) {
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_len(length as u64).expect("it can be cut off");
}

/// Returns the places between two, the last first.
fn downwards(places: Range<usize>) -> impl Iterator<Item = usize> {
    places.rev()
}

/// A database whose last appends are in the write-ahead file alone.
struct Log {
    cut: TruncatedCopy,
    written: Vec<StoredRecord>,
    /// How long the file was when the session had begun, and when each append was acknowledged.
    begun: usize,
    lengths: Vec<usize>,
    _folder: TempDir,
}

impl Log {
    async fn make() -> Self {
        let folder = quick_folder().expect("a folder can be made");
        let path = folder.path().join("store.db");
        let wal = path.with_file_name("store.db-wal");
        let length = || fs::metadata(&wal).map_or(0, |it| it.len() as usize);
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let mut writer = Writer::begin(&store, "session").await;
        let begun = length();
        let mut lengths = Vec::new();
        for number in 0..12 {
            let append = vec![line(&writer.session, number), line(&writer.session, 39)];
            writer.append(append).await.expect("it is in order");
            lengths.push(length());
        }
        let file = fs::read(&path).expect("it is there");
        let log = fs::read(&wal).expect("it is there");
        assert_eq!(lengths.last(), Some(&log.len()));
        let cut = TruncatedCopy { path: folder.path().join("cut.db"), file, log };
        Self { cut, written: writer.written.clone(), begun, lengths, _folder: folder }
    }

    async fn check(&self, places: impl Iterator<Item = usize>) {
        let TruncatedCopy { path, file, log } = &self.cut;
        self.cut.restore(file.len(), log.len());
        for end in places {
            self.cut.forget_index();
            shorten(&self.cut.log_path(), end);
            self.check_found(end, read_file(path).await);
            if end.is_multiple_of(WRITTEN) {
                match write_file(path).await {
                    Ok((expected, found)) => {
                        let (_, before) = expected.split_last().expect("it was written to");
                        self.check_found(end, Ok(before.to_vec()));
                        assert!(found.expect("it was acknowledged") == expected, "at {end}");
                    }
                    Err(error) => self.check_found(end, Err(error)),
                }
                self.cut.restore(file.len(), end);
            }
        }
    }

    fn check_found(&self, end: usize, found: ReadResult) {
        let found = match found {
            Ok(found) => found,
            // Not even the session had been acknowledged.
            Err(error) if end < self.begun => {
                assert!(is_clear(&error), "at {end}: {error:?}");
                return;
            }
            Err(error) => panic!("at {end}: {error}"),
        };
        let acknowledged = self.lengths.iter().filter(|length| **length <= end).count() * 2;
        // The file is written from its beginning again: below what it was long then, more is there.
        let is_known = end > self.begun;
        assert!(found.len() >= acknowledged, "{} of {acknowledged} at {end}", found.len());
        assert!(found.len() == acknowledged || !is_known, "more than was acknowledged at {end}");
        assert!(found.len().is_multiple_of(2), "half an append at {end}");
        assert!(found == self.written[..found.len()], "at {end}");
    }

    /// Checks every byte of a frame; 0 is the last.
    async fn check_frame(&self, number: usize) {
        let end = self.cut.log.len() + 1 - FRAME * number;
        self.check(downwards(end - FRAME..end)).await;
    }
}

#[test]
fn the_wal_is_truncated_anywhere_in_its_last_frame() {
    run(async { Log::make().await.check_frame(0).await });
}

#[test]
fn the_wal_is_truncated_anywhere_in_its_second_last_frame() {
    run(async { Log::make().await.check_frame(1).await });
}

#[test]
fn the_wal_is_truncated_anywhere_in_its_third_last_frame() {
    run(async { Log::make().await.check_frame(2).await });
}

#[test]
fn the_wal_is_truncated_anywhere_in_its_fourth_last_frame() {
    run(async { Log::make().await.check_frame(3).await });
}

#[test]
fn the_wal_is_truncated_at_many_places_of_all_frames() {
    run(async {
        let log = Log::make().await;
        log.check(downwards(0..log.cut.log.len()).step_by(41)).await;
    });
}

/// A database that was closed: all is in the one file.
struct ClosedDatabase {
    cut: TruncatedCopy,
    written: Vec<StoredRecord>,
    _folder: TempDir,
}

impl ClosedDatabase {
    async fn make() -> Self {
        let folder = quick_folder().expect("a folder can be made");
        let path = folder.path().join("store.db");
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it can be made"));
        let mut writer = Writer::begin(&store, "session").await;
        for number in 0..60 {
            writer.append(vec![line(&writer.session, number)]).await.expect("it is in order");
        }
        let written = writer.written.clone();
        drop((store, writer));
        let file = fs::read(&path).expect("it is there");
        assert_eq!(file.len() % PAGE, 0);
        let cut = TruncatedCopy { path: folder.path().join("cut.db"), file, log: Vec::new() };
        Self { cut, written, _folder: folder }
    }

    /// Cuts the file off at each of the places; returns how many were refused.
    async fn check(&self, places: impl Iterator<Item = usize>) -> usize {
        let TruncatedCopy { path, file, log: _ } = &self.cut;
        let mut refused = 0;
        self.cut.restore(file.len(), 0);
        for end in places {
            shorten(path, end);
            match read_file(path).await {
                Ok(found) => assert!(found == self.written, "at {end}"),
                Err(error) => {
                    assert!(is_clear(&error), "at {end}: {error:?}");
                    refused += 1;
                }
            }
            if end.is_multiple_of(WRITTEN) {
                match write_file(path).await {
                    Ok((expected, found)) => {
                        let (_, before) = expected.split_last().expect("it was written to");
                        assert!(before == self.written, "at {end}");
                        assert!(found.expect("it was acknowledged") == expected, "at {end}");
                    }
                    Err(error) => assert!(is_clear(&error), "at {end}: {error:?}"),
                }
                self.cut.restore(end, 0);
            }
        }
        self.cut.restore(file.len(), 0);
        assert!(read_file(path).await.expect("it is whole again") == self.written);
        refused
    }

    /// Checks every byte of a page; 0 is the last.
    async fn check_page(&self, number: usize) {
        let end = self.cut.file.len() - PAGE * number;
        assert!(self.check(downwards(end - PAGE..end)).await > 0);
    }
}

#[test]
fn a_file_is_truncated_anywhere_in_its_last_page() {
    run(async { ClosedDatabase::make().await.check_page(0).await });
}

#[test]
fn a_file_is_truncated_anywhere_in_its_second_last_page() {
    run(async { ClosedDatabase::make().await.check_page(1).await });
}

#[test]
fn a_file_is_truncated_anywhere_in_its_third_last_page() {
    run(async { ClosedDatabase::make().await.check_page(2).await });
}

#[test]
fn a_file_is_truncated_anywhere_in_its_fourth_last_page() {
    run(async { ClosedDatabase::make().await.check_page(3).await });
}

#[test]
fn a_file_is_truncated_at_many_places_of_all_pages() {
    run(async {
        let closed = ClosedDatabase::make().await;
        assert!(closed.check(downwards(0..closed.cut.file.len()).step_by(61)).await > 0);
    });
}
