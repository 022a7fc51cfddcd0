//! Opens a database without writing anything, whatever state its files are in.
//!
//! In write-ahead mode a database is up to three files: `-wal` holds changes that are not in the
//! database yet, `-shm` is memory that all connections share. An ordinary reader creates these
//! files and writes marks to them. This one does not:
//!
//! | files | opened | because |
//! |---|---|---|
//! | `-wal` and `-shm` | shared memory read-only | it is live, or was when OpenCode died |
//! | `-wal` alone, with something in it | no shared memory | it is a copy; an open database has a `-shm` |
//! | neither | as immutable | an open database has a `-wal`; checked again after reading |

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::ffi;
use rusqlite::{Connection, OpenFlags};

/// How long to wait for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// Which file must not appear while a database is read as immutable.
pub(super) enum Isolation {
    /// Other processes may write; SQLite isolates the reads.
    Shared,
    /// No process writes as long as this file does not exist.
    Without(PathBuf),
}

impl Isolation {
    /// Fails if the data that was read may be inconsistent.
    pub(super) fn check(&self) -> rusqlite::Result<()> {
        match self {
            Self::Without(wal) if length(wal).is_some_and(|length| length > 0) => {
                Err(failure(ffi::SQLITE_BUSY, "another process began to write while it was read"))
            }
            _ => Ok(()),
        }
    }
}

/// Opens a database for reading, and begins a transaction: all reads see one snapshot.
pub(super) fn connect(path: &Path) -> rusqlite::Result<(Connection, Isolation)> {
    // SQLite's other files are beside the target of a link, not beside the link.
    let path = fs::canonicalize(path).map_err(unopened)?;
    let [wal, shm] = ["-wal", "-shm"].map(|suffix| {
        let mut name = OsString::from(&path);
        name.push(suffix);
        PathBuf::from(name)
    });
    let (how, isolation, is_alone) = match (length(&wal), length(&shm)) {
        _ if !is_write_ahead(&path)? => ("", Isolation::Shared, false),
        (Some(_), Some(_)) => ("&readonly_shm=1", Isolation::Shared, false),
        (Some(1..), None) if cfg!(unix) => ("&vfs=unix-none", Isolation::Shared, true),
        (Some(1..), None) => ("", Isolation::Shared, false),
        _ => ("&immutable=1", Isolation::Without(wal), false),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("{}?mode=ro{how}", uri(&path)), flags)?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    // The database is untrusted: do not run its views and functions, and check its pages.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    if is_alone {
        connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
    }
    connection.execute_batch("PRAGMA cell_size_check = ON; BEGIN")?;
    Ok((connection, isolation))
}

/// Returns whether a database is in write-ahead mode, according to its header.
fn is_write_ahead(path: &Path) -> rusqlite::Result<bool> {
    let mut header = [0; 20];
    match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) if header.starts_with(b"SQLite format 3\0") => Ok(header[18] == 2),
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(unopened(error)),
        _ => Err(failure(ffi::SQLITE_NOTADB, "its header is not that of a SQLite database")),
    }
}

fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|it| it.len())
}

fn unopened(error: std::io::Error) -> rusqlite::Error {
    failure(ffi::SQLITE_CANTOPEN, &error.to_string())
}

fn failure(code: i32, what: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(what.to_owned()))
}

/// Returns a path as a SQLite URI file name, with special characters escaped.
fn uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    let bytes = path.as_os_str().as_encoded_bytes();
    if !bytes.starts_with(b"/") {
        uri.push('/');
    }
    for byte in bytes {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            b':' if cfg!(windows) => uri.push(':'),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
