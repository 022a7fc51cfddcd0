//! The store of sessions: where it is, how it is opened, and hints for its errors.
//!
//! The program is synchronous; this is where it waits for the store, which is not.

mod find;
mod load;
mod location;
mod place;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use threadfold_engine::Budget;
use threadfold_store::{SessionEntry, Store};

use self::location::Access;
use crate::error::{CommandError, say};
use crate::runtime::Waiter;

pub(crate) use find::unique;
pub(crate) use load::{load_stored, lost_records, summary_of};
pub(crate) use location::StoreLocation;
pub(crate) use place::StoreArgs;

/// How many bytes of a session's state stay in memory before the rest is spilled to disk.
const BUDGET: usize = 16 << 20;

/// Returns the budget of a command that only reads: it spills to the folder for temporary files,
/// because the store's folder may be read-only.
pub(crate) fn elsewhere() -> Budget {
    Budget { bytes: BUDGET, folder: env::temp_dir() }
}

/// An open store, with the runtime to wait for it.
pub(crate) struct OpenStore {
    // Dropped before the runtime that its tasks run on.
    store: Arc<dyn Store>,
    waiter: Waiter,
    location: StoreLocation,
    /// Whether a person named it.
    is_named: bool,
}

impl StoreArgs {
    /// Opens the store for writing, and creates it if there is none.
    pub(crate) fn open_or_make(&self) -> Result<OpenStore, CommandError> {
        OpenStore::new(self.location()?, self.is_named(), Access::ReadWrite)
    }

    /// Opens the store for writing.
    pub(crate) fn open(&self) -> Result<OpenStore, CommandError> {
        OpenStore::new(self.existing_location()?, self.is_named(), Access::ReadWrite)
    }

    /// Opens the store for reading.
    pub(crate) fn open_to_read(&self) -> Result<OpenStore, CommandError> {
        OpenStore::new(self.existing_location()?, self.is_named(), Access::ReadOnly)
    }

    /// Opens the store for reading, if it exists.
    ///
    /// If the default store cannot be opened, that is reported and the command continues without
    /// it; a store that a person named must open.
    pub(crate) fn open_if_there(&self) -> Result<Option<OpenStore>, CommandError> {
        if self.is_named() {
            let location = self.location()?;
            if !location.exists() {
                say(format_args!("there is no store at `{location}` yet"));
                return Ok(None);
            }
            return self.open_to_read().map(Some);
        }
        let Ok(location) = self.existing_location() else { return Ok(None) };
        match OpenStore::new(location, false, Access::ReadOnly) {
            Ok(store) => Ok(Some(store)),
            Err(error) => {
                say(format_args!("left out the store: {error}"));
                Ok(None)
            }
        }
    }

    fn existing_location(&self) -> Result<StoreLocation, CommandError> {
        let location = self.location()?;
        if location.exists() {
            return Ok(location);
        }
        Err(CommandError::new(
            anyhow!("there is no store at `{location}`"),
            "`threadfold import` and `threadfold run` create it; `--store` or `THREADFOLD_STORE` choose another one",
        ))
    }
}

impl OpenStore {
    fn new(location: StoreLocation, is_named: bool, access: Access) -> Result<Self, CommandError> {
        let waiter = Waiter::new()?;
        let store = location.open(access)?;
        Ok(Self { store, waiter, location, is_named })
    }

    /// Waits for a future.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.waiter.wait(work)
    }

    /// Closes the store without waiting for threads that may never end, such as one that reads
    /// standard input.
    pub(crate) fn leave(self) {
        drop(self.store);
        self.waiter.leave();
    }

    /// Returns the store.
    pub(crate) fn shared(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Returns where it is.
    pub(crate) fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// Returns where it is, if a person named it: hints that continue the command name it, too.
    pub(crate) fn named(&self) -> Option<String> {
        let is_text = self.location.file().is_none_or(|path| path.to_str().is_some());
        (self.is_named && is_text).then(|| self.location.to_string())
    }

    /// Returns the folder for files beside the store.
    pub(crate) fn folder(&self) -> PathBuf {
        match self.location.file().map(Path::parent) {
            Some(Some(folder)) if !folder.as_os_str().is_empty() => folder.to_owned(),
            Some(_) => PathBuf::from("."),
            None => env::temp_dir(),
        }
    }

    /// Returns the budget of a command that writes: it spills to a file beside the store.
    pub(crate) fn budget(&self) -> Budget {
        Budget { bytes: BUDGET, folder: self.folder() }
    }

    /// Returns all sessions.
    pub(crate) fn sessions(&self) -> Result<Vec<SessionEntry>, CommandError> {
        Ok(self.wait(self.store.list_all(""))?)
    }
}
