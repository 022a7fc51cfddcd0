//! The store of sessions: where it is, how it is opened, and hints for its errors.
//!
//! The program is synchronous; this is where it waits for the store, which is not.

mod find;
mod load;
mod location;
mod option;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use anyhow::anyhow;
use threadfold_engine::Budget;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{SessionEntry, Store};
use tokio::task::JoinHandle;

use self::location::Access;
use crate::error::{CommandError, print_note};
use crate::runtime::Waiter;
use crate::unfinished::{UnfinishedFiles, remove_abandoned, unfinished_path};

pub(crate) use find::unique;
pub(crate) use load::{load_stored, lost_records, summary_of};
pub(crate) use location::StoreLocation;
pub(crate) use option::{StoreArgs, data_folder};

/// How many bytes of a session's state stay in memory before the rest is spilled to disk.
const BUDGET: usize = 2 << 20;
/// The same for an import, which drops the state at its end: most sessions are read without writing
/// any of it.
const BUDGET_OF_IMPORT: usize = 16 << 20;

/// Returns the budget of a command that only reads: it spills to the folder for temporary files,
/// because the store's folder may be read-only.
pub(crate) fn elsewhere() -> Budget {
    Budget { bytes: BUDGET, folder: env::temp_dir() }
}

/// A temporary copy of a damaged store, removed on drop.
pub(crate) struct RebuiltStore {
    store: Option<OpenStore>,
    folder: PathBuf,
    _listed: UnfinishedFiles,
}

impl RebuiltStore {
    /// Uses the copy.
    pub(crate) fn with(
        &self,
        work: impl FnOnce(&OpenStore) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        self.store.as_ref().map_or(Ok(()), work)
    }
}

impl Drop for RebuiltStore {
    fn drop(&mut self) {
        // Closed before its files go.
        self.store = None;
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// An open store, with the runtime to wait for it.
pub(crate) struct OpenStore {
    // Dropped before the runtime that its tasks run on.
    store: Arc<dyn Store>,
    waiter: Waiter,
    location: StoreLocation,
    /// Whether the user chose it.
    is_named: bool,
}

impl OpenStore {
    /// Opens a store that the user named, for reading.
    pub(crate) fn named_to_read(location: StoreLocation) -> Result<Self, CommandError> {
        if !location.exists() {
            return Err(CommandError::new(
                anyhow!("there is no store at `{location}`"),
                "name a store that exists",
            ));
        }
        Self::new(location, true, Access::ReadOnly)
    }

    /// Opens a store that the user named, for writing, and creates it if there is none.
    pub(crate) fn named_to_write(location: StoreLocation) -> Result<Self, CommandError> {
        Self::new(location, true, Access::ReadWrite)
    }
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

    /// Copies what can be read of a damaged store into a temporary one, and opens that.
    pub(crate) fn open_rebuilt(&self) -> Result<RebuiltStore, CommandError> {
        let location = self.existing_location()?;
        let Some(damaged) = location.file() else {
            return Err(CommandError::new(
                anyhow!("`{location}` is not a file"),
                "restore the database from a backup: `pg_restore`, or `threadfold copy`",
            ));
        };
        let listed = UnfinishedFiles::new(&location);
        let folder = unfinished_path(&env::temp_dir().join("threadfold-salvage"), None);
        listed.add(&folder);
        fs::create_dir(&folder)?;
        let mut rebuilt = RebuiltStore { store: None, folder, _listed: listed };
        let target = rebuilt.folder.join("store.db");
        SqliteStore::rebuild(damaged, &target)?;
        let location = StoreLocation::File(target);
        rebuilt.store = Some(OpenStore::new(location, self.is_named(), Access::ReadOnly)?);
        Ok(rebuilt)
    }

    /// Opens the store for reading, if it exists.
    ///
    /// If the default store cannot be opened, that is reported and the command continues without
    /// it; a store that the user chose must open.
    pub(crate) fn open_if_there(&self) -> Result<Option<OpenStore>, CommandError> {
        if self.is_named() {
            let location = self.location()?;
            if !location.exists() {
                print_note(format_args!("there is no store at `{location}` yet"));
                return Ok(None);
            }
            return self.open_to_read().map(Some);
        }
        let Ok(location) = self.existing_location() else { return Ok(None) };
        match OpenStore::new(location, false, Access::ReadOnly) {
            Ok(store) => Ok(Some(store)),
            Err(error) => {
                print_note(format_args!("continuing without the store: {error}"));
                if let CommandError::Failed { hint, .. } = &error {
                    print_note(format_args!("hint: {hint}"));
                }
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
        remove_abandoned(&location);
        let waiter = Waiter::new()?;
        let store = waiter.wait(location.open(access))?;
        Ok(Self { store, waiter, location, is_named })
    }

    /// Waits for a future.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.waiter.wait(work)
    }

    /// Returns the runtime, for code that waits by itself.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        self.waiter.handle()
    }

    /// Runs a future beside others.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.waiter.spawn(work)
    }

    /// Closes the store without waiting for threads that may never end, such as one that reads
    /// standard input.
    pub(crate) fn shut_down(self) {
        drop(self.store);
        self.waiter.shut_down();
    }

    /// Returns the store.
    pub(crate) fn shared(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Returns where it is.
    pub(crate) fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// Returns where it is, if the user chose it: hints that continue the command include it.
    pub(crate) fn named(&self) -> Option<String> {
        let is_text = self.location.file().is_none_or(|path| path.to_str().is_some());
        (self.is_named && is_text).then(|| self.location.to_string())
    }

    /// Returns a list for files that this process is about to write.
    pub(crate) fn unfinished_files(&self) -> UnfinishedFiles {
        UnfinishedFiles::new(&self.location)
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

    /// Returns the budget of an import.
    pub(crate) fn budget_of_import(&self) -> Budget {
        Budget { bytes: BUDGET_OF_IMPORT, folder: self.folder() }
    }

    /// Returns all sessions.
    pub(crate) fn sessions(&self) -> Result<Vec<SessionEntry>, CommandError> {
        Ok(self.wait(self.store.list_all(""))?)
    }
}
