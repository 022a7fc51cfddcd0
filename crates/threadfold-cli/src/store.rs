//! The store that sessions are kept in: where it is, how it is opened, what goes wrong with it.
//!
//! Whoever uses it waits: the program is synchronous, and this is where it meets what is not.

mod find;
mod load;
mod place;
mod told;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use threadfold_engine::Budget;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{SessionEntry, Store, StoreError};
use tokio::runtime::Runtime;

use crate::error::{CommandError, say};

pub(crate) use find::{named, unique};
pub(crate) use load::{load_kept, lost_records, noted_summary, summary_of};
pub(crate) use place::StoreArgs;

/// As many bytes of a session's records are held in memory, understood, before they are put away.
const BUDGET: usize = 16 << 20;

/// Returns how much of a session is held in memory by whoever only reads it: a store's folder may
/// take nothing.
pub(crate) fn elsewhere() -> Budget {
    Budget { bytes: BUDGET, folder: env::temp_dir() }
}

/// A store that is open, with what it takes to wait for it.
pub(crate) struct OpenStore {
    // Dropped before the runtime that its tasks run on.
    store: Arc<SqliteStore>,
    runtime: Runtime,
    path: PathBuf,
    /// A person named it.
    is_named: bool,
}

impl StoreArgs {
    /// Opens the store for writing, and makes it if there is none.
    pub(crate) fn open_or_make(&self) -> Result<OpenStore, CommandError> {
        let path = self.path()?;
        OpenStore::new(path, self.is_named(), |path| SqliteStore::open(path))
    }

    /// Opens the store for writing.
    pub(crate) fn open(&self) -> Result<OpenStore, CommandError> {
        let path = self.path_that_is_there()?;
        OpenStore::new(path, self.is_named(), |path| SqliteStore::open(path))
    }

    /// Opens the store, and can write nothing to it.
    pub(crate) fn open_to_read(&self) -> Result<OpenStore, CommandError> {
        let path = self.path_that_is_there()?;
        OpenStore::new(path, self.is_named(), |path| SqliteStore::open_read_only(path))
    }

    /// Opens the store to read beside what agents keep; what is wrong with it is said, and it is
    /// left out. A store that was named must be one, if it is there.
    pub(crate) fn open_if_there(&self) -> Result<Option<OpenStore>, CommandError> {
        if self.is_named() {
            if !self.path()?.exists() {
                say(format_args!("there is no store at `{}` yet", self.path()?.display()));
                return Ok(None);
            }
            return self.open_to_read().map(Some);
        }
        let Ok(path) = self.path_that_is_there() else { return Ok(None) };
        match OpenStore::new(path, false, |path| SqliteStore::open_read_only(path)) {
            Ok(store) => Ok(Some(store)),
            Err(error) => {
                say(format_args!("left out the store: {error}"));
                Ok(None)
            }
        }
    }

    fn path_that_is_there(&self) -> Result<PathBuf, CommandError> {
        let path = self.path()?;
        if path.exists() {
            return Ok(path);
        }
        Err(CommandError::new(
            anyhow!("there is no store at `{}`", path.display()),
            "`threadfold import` and `threadfold run` make it; `--store` or `THREADFOLD_STORE` tell where else one is",
        ))
    }
}

impl OpenStore {
    fn new(
        path: PathBuf,
        is_named: bool,
        open: impl FnOnce(&PathBuf) -> Result<SqliteStore, StoreError>,
    ) -> Result<Self, CommandError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| {
                let error = anyhow::Error::new(error).context("no thread can be started");
                CommandError::new(error, "look how many processes may run at once")
            })?;
        let store = Arc::new(open(&path)?);
        Ok(Self { store, runtime, path, is_named })
    }

    /// Waits for what takes a while.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Leaves without waiting for threads that may never end, such as one that reads standard
    /// input.
    pub(crate) fn leave(self) {
        drop(self.store);
        self.runtime.shutdown_background();
    }

    /// Returns the store as every store is used.
    pub(crate) fn shared(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Returns the store with what only one in a file can do.
    pub(crate) fn file(&self) -> &SqliteStore {
        &self.store
    }

    /// Returns where it is.
    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Returns where it is, if a person named it: who says how to go on names it, too.
    pub(crate) fn named(&self) -> Option<&str> {
        self.path.to_str().filter(|_| self.is_named)
    }

    /// Returns how much of a session is held in memory while it is taken in; the rest is put away
    /// beside the store.
    pub(crate) fn budget(&self) -> Budget {
        let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty());
        Budget { bytes: BUDGET, folder: folder.unwrap_or(Path::new(".")).to_owned() }
    }

    /// Returns all sessions.
    pub(crate) fn sessions(&self) -> Result<Vec<SessionEntry>, CommandError> {
        Ok(self.wait(self.store.list())?)
    }
}
