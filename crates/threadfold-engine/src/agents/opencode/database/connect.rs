//! Opening a database so that nothing is written, whatever state its files are in.
//!
//! In write-ahead mode a database is up to three files: `-wal` holds what is not in the database
//! yet, `-shm` is memory that all who have it open share. An ordinary reader makes these files and
//! leaves marks in them. This one does not:
//!
//! | files | opened | because |
//! |---|---|---|
//! | `-wal` and `-shm` | shared memory read-only | it is live, or was when OpenCode died |
//! | `-wal` alone, with something in it | no shared memory | it was copied; who has it open has a `-shm` |
//! | neither | as unchangeable | who has it open has a `-wal`; that none came is looked at again |

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::ffi;
use rusqlite::{Connection, OpenFlags};

/// How long a lock is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// What must not appear while a database is read as unchangeable.
pub(super) enum Stillness {
    /// Others may write, and SQLite sees to it.
    Shared,
    /// Nobody writes as long as this file is not there.
    Without(PathBuf),
}

impl Stillness {
    /// Says whether what was read can be relied on.
    pub(super) fn check(&self) -> rusqlite::Result<()> {
        match self {
            Self::Without(wal) if length(wal).is_some_and(|length| length > 0) => {
                Err(failure(ffi::SQLITE_BUSY, "somebody began to write while it was read"))
            }
            _ => Ok(()),
        }
    }
}

/// Opens a database for reading, and begins to read: all is as of one moment.
pub(super) fn connect(path: &Path) -> rusqlite::Result<(Connection, Stillness)> {
    // The files beside a link are beside what it leads to.
    let path = fs::canonicalize(path).map_err(unopened)?;
    let [wal, shm] = ["-wal", "-shm"].map(|suffix| {
        let mut name = OsString::from(&path);
        name.push(suffix);
        PathBuf::from(name)
    });
    let (how, stillness, is_alone) = match (length(&wal), length(&shm)) {
        _ if !is_write_ahead(&path)? => ("", Stillness::Shared, false),
        (Some(_), Some(_)) => ("&readonly_shm=1", Stillness::Shared, false),
        (Some(1..), None) if cfg!(unix) => ("&vfs=unix-none", Stillness::Shared, true),
        (Some(1..), None) => ("", Stillness::Shared, false),
        _ => ("&immutable=1", Stillness::Without(wal), false),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("{}?mode=ro{how}", uri(&path)), flags)?;
    connection.busy_timeout(PATIENCE)?;
    // The database is a stranger's: its views and functions are not run, its pages not believed.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    if is_alone {
        connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
    }
    connection.execute_batch("PRAGMA cell_size_check = ON; BEGIN")?;
    Ok((connection, stillness))
}

/// Says whether a database is in write-ahead mode, as its header tells.
fn is_write_ahead(path: &Path) -> rusqlite::Result<bool> {
    let mut header = [0; 20];
    match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) if header.starts_with(b"SQLite format 3\0") => Ok(header[18] == 2),
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(unopened(error)),
        _ => Err(failure(ffi::SQLITE_NOTADB, "it does not begin as one")),
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

/// Returns a path as SQLite reads names of files with options behind them.
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
