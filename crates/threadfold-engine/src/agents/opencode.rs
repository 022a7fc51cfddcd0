//! OpenCode: its database, the folder of files of older versions, exports, and running servers.

mod content;
mod database;
mod places;
mod server;
mod storage;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use threadfold_core::SessionId;
use threadfold_fold::{Agent, Detection, Shape};

use self::content::{RowContent, StorageContent};
use self::database::{DbSession, OpencodeDb, SessionRows};
use self::storage::Storage;
use super::{AgentAccess, Machine, other};
use crate::agent_database::DatabaseError;
use crate::discover::{Discovery, FolderTree, folders_below, name_of};
use crate::found_session::{FoundSession, IdOrigin};
use crate::open_path::{InputError, InputOptions, name_file, single_file};
use crate::server::{Server, ServerAccess};
use crate::unread::UnreadContent;

pub use server::{OpencodeServer, ServerSession, ServerTime};

/// OpenCode.
pub(crate) struct Opencode;

const STORAGE: &str = "storage";

/// Returns whether a file has the name of a database: every release channel has its own.
fn is_database(path: &Path) -> bool {
    let name = name_of(path);
    name == "opencode.db" || (name.starts_with("opencode-") && name.ends_with(".db"))
}

/// Returns the databases in a place, which may be one itself.
fn databases(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        let mut head = [0; 15];
        let opened = File::open(place).and_then(|mut file| file.read_exact(&mut head));
        let is_one = opened.is_ok() && &head == b"SQLite format 3";
        return if is_one { vec![place.to_owned()] } else { Vec::new() };
    }
    let entries = crate::discover::list(place).unwrap_or_default();
    entries.into_iter().filter(|it| is_database(it)).collect()
}

impl AgentAccess for Opencode {
    fn agent(&self) -> Agent {
        threadfold_convert::opencode::AGENT
    }

    fn variables(&self) -> &'static [&'static str] {
        places::VARIABLES
    }

    fn places(&self, machine: &Machine<'_>) -> Vec<PathBuf> {
        places::places(machine)
    }

    /// Credentials and the database are in the same folder, but not in this part of it.
    fn restore_folders(&self, machine: &Machine<'_>) -> Vec<PathBuf> {
        places::places(machine).into_iter().map(|place| place.join("storage")).collect()
    }

    fn enumerate(&self, place: &Path, found: &mut Discovery) {
        for database in databases(place) {
            self.add_database(&database, found);
        }
        self.add_storage(&place.join(STORAGE), found);
    }

    fn watched(&self, place: &Path) -> Vec<PathBuf> {
        // The database is in it; before it, each project had a folder of sessions.
        let older = folders_below(&place.join("storage").join("session"), 1);
        let older = older.into_iter().filter(|it| it.is_dir());
        std::iter::once(place.to_owned()).chain(older).collect()
    }

    fn unread(&self, place: &Path) -> Vec<UnreadContent> {
        let unread = |path: PathBuf| match OpencodeDb::open(&path) {
            Ok(database) => database.unread(),
            Err(DatabaseError::Foreign { .. }) => vec![database::foreign(&path)],
            // A database that is being created is empty at first.
            Err(_) if path.metadata().is_ok_and(|it| it.len() == 0) => Vec::new(),
            Err(_) => vec![database::unreadable(&path)],
        };
        let databases = databases(place).into_iter().flat_map(unread);
        databases.chain(storage::unread(&place.join(STORAGE))).collect()
    }

    fn claim(&self, tree: &mut FolderTree, found: &mut Discovery) {
        for path in tree.matching(is_database) {
            self.add_database(&path, found);
            found.add_unread(self.unread(&path));
            tree.remove_database(&path);
        }
        for folder in tree.folders_matching(Storage::is_one) {
            self.add_storage(&folder, found);
            found.add_unread(storage::unread(&folder));
            tree.remove_below(&folder);
        }
    }

    fn open(
        &self,
        path: &Path,
        input: Detection,
        options: &InputOptions<'_>,
    ) -> Result<Vec<FoundSession>, InputError> {
        match input.shape() {
            Shape::Database => self.open_database(path, options),
            Shape::Folder => self.open_storage(path, options),
            _ => self.open_file(path, input, options),
        }
    }

    fn recognize_folder(&self, folder: &Path) -> Option<Detection> {
        let format = self.agent().format(Shape::Folder)?;
        Storage::is_one(folder).then_some(Detection { agent: Some(self.agent()), format })
    }

    fn server(
        &self,
        address: &str,
        access: &ServerAccess<'_>,
    ) -> Option<Result<Box<dyn Server>, InputError>> {
        let server = OpencodeServer::new(address);
        let password = server::password(address, access);
        Some(server.map(|it| Box::new(it.with_password(password)) as Box<dyn Server>))
    }
}

impl Opencode {
    /// Adds the sessions of a database; child sessions are kept separately.
    fn add_database(&self, path: &Path, found: &mut Discovery) {
        let rows = OpencodeDb::open(path)
            .and_then(|database| Ok((database.root_sessions()?, database.child_sessions()?)));
        match rows {
            Ok((roots, children)) => {
                let rows_of_all = Arc::new(SessionRows::new(path));
                roots.into_iter().for_each(|row| found.add(self.row(path, row, &rows_of_all)));
                children
                    .into_iter()
                    .for_each(|row| found.add_child(self.row(path, row, &rows_of_all)));
            }
            // It is reported as a file that is not read.
            Err(DatabaseError::Foreign { .. }) => {}
            Err(DatabaseError::Unreadable { problem, .. }) => {
                found.unreadable.push((path.to_owned(), format!("it {problem}")));
            }
            Err(error) => found.report_unreadable(path, &error),
        }
    }

    fn row(&self, path: &Path, row: DbSession, all: &Arc<SessionRows>) -> FoundSession {
        let changed = row.updated.and_then(time);
        FoundSession {
            id: SessionId::from(row.id.as_str()),
            naming: IdOrigin::Agent,
            agent: Some(self.agent()),
            project: row.directory,
            place: path.to_owned(),
            parent: None,
            content: Arc::new(RowContent::new(path, &row.id, changed, all.clone())),
        }
    }

    /// Adds the sessions of the older folder, except those already migrated to a database.
    fn add_storage(&self, folder: &Path, found: &mut Discovery) {
        let storage = Arc::new(Storage::open(folder));
        storage.unreadable.iter().for_each(|(path, error)| found.report_unreadable(path, error));
        for (row, main) in storage.root_sessions() {
            if !found.has(&row.id) {
                found.add(self.stored(&storage, row, main));
            }
        }
        for (row, main) in storage.child_sessions() {
            if !found.has(&row.id) {
                found.add_child(self.stored(&storage, row, main));
            }
        }
    }

    fn stored(&self, storage: &Arc<Storage>, row: DbSession, main: PathBuf) -> FoundSession {
        FoundSession {
            id: SessionId::from(row.id.as_str()),
            naming: IdOrigin::Agent,
            agent: Some(self.agent()),
            project: row.directory,
            place: main,
            parent: None,
            content: Arc::new(StorageContent::new(storage, &row.id)),
        }
    }

    fn open_database(
        &self,
        path: &Path,
        options: &InputOptions<'_>,
    ) -> Result<Vec<FoundSession>, InputError> {
        let unreadable = |error| InputError::Engine(crate::error::EngineError::Database(error));
        let database = OpencodeDb::open(path).map_err(unreadable)?;
        let mut rows = database.root_sessions().map_err(unreadable)?;
        if let Some(session) = options.session {
            rows.extend(database.child_sessions().map_err(unreadable)?);
            rows.retain(|row| row.id == session);
        }
        let rows_of_all = Arc::new(SessionRows::new(path));
        let found = rows.into_iter().map(|row| self.row(path, row, &rows_of_all)).collect();
        some_session(path, options, found)
    }

    fn open_storage(
        &self,
        folder: &Path,
        options: &InputOptions<'_>,
    ) -> Result<Vec<FoundSession>, InputError> {
        let storage = Arc::new(Storage::open(folder));
        let mut rows = storage.root_sessions();
        if let Some(session) = options.session {
            rows.extend(storage.child_sessions());
            rows.retain(|(row, _)| row.id == session);
        }
        let found = rows.into_iter().map(|(row, main)| self.stored(&storage, row, main)).collect();
        some_session(folder, options, found)
    }

    /// Opens an export, or a recording of the bus, which may contain several sessions.
    fn open_file(
        &self,
        path: &Path,
        input: Detection,
        options: &InputOptions<'_>,
    ) -> Result<Vec<FoundSession>, InputError> {
        let file = single_file(path, input)?;
        let (id, naming) = match options.session {
            Some(session) => (SessionId::from(session), IdOrigin::Agent),
            None => name_file(path, input, file.form)?,
        };
        let mut found = other::session_of(file, input, id, naming);
        found.parent = parent_of(path).filter(|parent| *parent != found.id);
        Ok(vec![found])
    }
}

/// Refuses a place that holds no session.
fn some_session(
    path: &Path,
    options: &InputOptions<'_>,
    found: Vec<FoundSession>,
) -> Result<Vec<FoundSession>, InputError> {
    match (found.is_empty(), options.session) {
        (false, _) => Ok(found),
        (true, None) => Err(InputError::NoSession { path: path.to_owned(), unrecognized: 0 }),
        (true, Some(session)) => {
            Err(InputError::Missing { path: path.to_owned(), session: session.to_owned() })
        }
    }
}

pub(super) fn time(milliseconds: i64) -> Option<SystemTime> {
    let since = Duration::from_millis(u64::try_from(milliseconds).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Returns the parent session of an export.
fn parent_of(path: &Path) -> Option<SessionId> {
    #[derive(Deserialize)]
    struct Export {
        info: Session,
    }
    #[derive(Deserialize)]
    struct Session {
        #[serde(rename = "parentID")]
        parent: Option<SessionId>,
    }
    let file = BufReader::new(File::open(path).ok()?);
    let export: Export = serde_json::from_reader(crate::files::without_mark(file)).ok()?;
    export.info.parent
}
