//! Opens the file: checks that it is a store, and configures connections.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use threadfold_store::StoreError;

use crate::failure::Failure;
use crate::schema::{self, APPLICATION_ID, LATEST_VERSION};
use crate::shared_memory;

/// How long to wait for a lock of another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The first bytes of an SQLite rollback journal.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The path of a store.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    /// The path, as error messages show it.
    pub(crate) name: String,
}

impl Location {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), name: format!("`{}`", path.display()) }
    }

    /// Returns the path of a file beside the database: `-wal` or `-shm`.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        PathBuf::from(name)
    }

    fn foreign(&self, what: &str) -> Failure {
        StoreError::Foreign { place: self.name.clone(), what: what.to_owned() }.into()
    }

    pub(crate) fn unwritable(&self, error: std::io::Error) -> Failure {
        StoreError::Unwritable { place: self.name.clone(), source: Box::new(error) }.into()
    }

    fn unreachable(&self, error: std::io::Error) -> Failure {
        StoreError::Unreachable { place: self.name.clone(), source: Box::new(error) }.into()
    }
}

/// Creates the file and its folder if they do not exist, readable by this user only.
pub(crate) fn create_file(location: &Location) -> Result<(), Failure> {
    if location.path.exists() {
        return Ok(());
    }
    let folder = match location.path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let unwritable = |error| location.unwritable(error);
    if !folder.exists() {
        private_folder().create(folder).map_err(unwritable)?;
    }
    match private_file().open(&location.path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unwritable(error)),
    }
    sync_folders(folder).map_err(unwritable)
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Returns options that create a file which only this user can read.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Syncs a folder and its parent, so that a new file in it survives a power cut.
pub(crate) fn sync_folders(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
        if let Some(above) = folder.parent().filter(|it| !it.as_os_str().is_empty()) {
            File::open(above)?.sync_all()?;
        }
    }
    Ok(())
}

/// Refuses files that are not stores or that a newer version wrote, without writing to them.
///
/// It reads the header itself: SQLite could change the file of another program just by opening it.
pub(crate) fn inspect(location: &Location) -> Result<(), Failure> {
    // Before it is opened: a pipe would wait for somebody to write to it.
    let metadata = fs::metadata(&location.path).map_err(|error| location.unreachable(error))?;
    if metadata.is_dir() {
        return Err(location.foreign("it is a folder"));
    }
    if !metadata.is_file() {
        return Err(location.foreign("it is a device, a pipe or a socket, not a file"));
    }
    let mut header = Vec::new();
    let file = File::open(&location.path).map_err(|error| location.unreachable(error))?;
    file.take(100).read_to_end(&mut header).map_err(|error| location.unreachable(error))?;
    if header.is_empty() {
        return Ok(());
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(location.foreign("it is not an SQLite database"));
    }
    let word = |at: usize| {
        header.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_be_bytes)
    };
    let (version, application) = (word(60), word(68));
    if application == APPLICATION_ID as u32 {
        return if version > LATEST_VERSION {
            Err(schema::newer(&location.name, version).into())
        } else {
            Ok(())
        };
    }
    if application != 0 || !is_blank(location)? {
        return Err(location.foreign("it is an SQLite database of another program"));
    }
    Ok(())
}

/// Refuses a database without our tables, or of a newer version. Older versions have everything that
/// reading needs.
pub(crate) fn check_version(location: &Location, connection: &Connection) -> Result<(), Failure> {
    match schema::version(connection)? {
        0 => Err(location.foreign("it is empty")),
        found if found > LATEST_VERSION => Err(schema::newer(&location.name, found).into()),
        _ => Ok(()),
    }
}

/// Returns whether a database is a store whose creation was interrupted.
fn is_blank(location: &Location) -> Result<bool, Failure> {
    if was_empty_before(location) {
        return Ok(true);
    }
    let connection = reader(location, Access::Shared)?;
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(application == APPLICATION_ID || (application == 0 && tables == 0))
}

/// Returns whether a process was killed during its first write to an empty file.
///
/// The journal has the size of the file before the write. A read-only connection cannot roll the
/// journal back, so it cannot be asked.
fn was_empty_before(location: &Location) -> bool {
    let mut header = [0; 20];
    let journal = File::open(location.beside("-journal"));
    let is_read = journal.is_ok_and(|mut file| file.read_exact(&mut header).is_ok());
    is_read && header.starts_with(&JOURNAL_MAGIC) && header[16..] == [0; 4]
}

/// Opens a connection for writing, and syncs what it finds.
pub(crate) fn writer(location: &Location) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    shared_memory::check_room(location)?;
    let mut connection = Connection::open_with_flags(&location.path, flags)?;
    harden(&connection)?;
    use_write_ahead(&connection)?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -4096;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    schema::migrate(&mut connection, &location.name)?;
    shared_memory::touch(location, &connection)?;
    // A killed process may have left commits that are written but not synced. Readers see them from
    // now on, so they must be durable now.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Turns WAL mode on. SQLite does not use the busy timeout here, so when two processes create a store
/// at once, one has to retry.
fn use_write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let start = Instant::now();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())) {
            Err(rusqlite::Error::SqliteFailure(error, _))
                if error.code == ErrorCode::DatabaseBusy && start.elapsed() < LOCK_TIMEOUT =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Other processes may write to it.
    Shared,
    /// Nothing can be written in its folder, or there is no room: no process writes to it.
    Immutable,
    /// The same, but the last commits are still in `-wal`: the file was copied while in use.
    ImmutableWithWal,
}

impl Access {
    /// Returns how to read a store that this process does not write to.
    pub(crate) fn of(location: &Location) -> Self {
        if location.beside("-shm").exists() {
            return Self::Shared;
        }
        // Without shared memory nobody has the store open, and without room nobody can open it for
        // writing.
        if can_write_beside(location) && shared_memory::check_room(location).is_ok() {
            return Self::Shared;
        }
        let has_wal = fs::metadata(location.beside("-wal")).is_ok_and(|it| it.len() > 0);
        if has_wal { Self::ImmutableWithWal } else { Self::Immutable }
    }
}

/// Returns whether a file can be created in the folder of the store.
fn can_write_beside(location: &Location) -> bool {
    let probe = location.beside("-probe");
    match private_file().open(&probe) {
        Ok(_) => fs::remove_file(&probe).is_ok(),
        Err(error) => error.kind() == ErrorKind::AlreadyExists,
    }
}

/// Opens a read-only connection.
pub(crate) fn reader(location: &Location, access: Access) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open_uri = |how: &str| {
        let uri = format!("{}?mode=ro&{how}", uri(&location.path));
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
    };
    let connection = match access {
        Access::Shared => {
            shared_memory::check_room(location)?;
            Connection::open_with_flags(&location.path, flags)?
        }
        Access::Immutable => open_uri("immutable=1")?,
        Access::ImmutableWithWal => {
            let connection = open_uri("vfs=unix-none")?;
            connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
            connection
        }
    };
    harden(&connection)?;
    connection.set_prepared_statement_cache_capacity(32);
    schema::read_as_latest(&connection)?;
    Ok(connection)
}

/// Makes SQLite detect corruption early, and run no code that a file contains.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(LOCK_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.execute_batch("PRAGMA cell_size_check = ON")
}

/// Returns a path as an SQLite URI.
fn uri(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
