//! OpenCode's database as a place that holds sessions; the engine reads it.

use rusqlite::ErrorCode;
use threadfold_engine::DatabaseError;

use super::Format;
use super::opencode_shelf::{EachRecord, Shelf, ShelfFile, missing, only};
use crate::error::CommandError;

pub(crate) use threadfold_engine::OpencodeDb as Database;

impl Shelf for Database {
    fn format(&self) -> Format {
        Format::OpencodeDb
    }

    fn only_session(&self) -> Result<String, CommandError> {
        only(self.path(), self.root_sessions()?)
    }

    fn read(&self, session: &str, each: &mut EachRecord<'_>) -> Result<(), CommandError> {
        self.read_session(session, &mut |record| each(record.as_bytes()))
    }

    fn files(&self, _: &str) -> Result<Option<Vec<ShelfFile>>, CommandError> {
        Ok(None)
    }
}

impl From<DatabaseError> for CommandError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Unreadable { path, source } => told(&path, source),
            DatabaseError::NoSession { path, session } => missing(&path, &session),
            other => Self::new(other, "OpenCode's is `opencode.db` in `~/.local/share/opencode`"),
        }
    }
}

/// Tells what is wrong with a database, and what can be done.
fn told(path: &std::path::Path, error: rusqlite::Error) -> CommandError {
    let place = path.display();
    let (what, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => (
            format!("`{place}` is not a SQLite database, or is encrypted"),
            "OpenCode's is `opencode.db` in `~/.local/share/opencode`",
        ),
        Some(ErrorCode::DatabaseCorrupt) => (
            format!("`{place}` is damaged"),
            "`opencode export` may still read the session; `sqlite3 FILE .recover` saves what is left",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            format!("`{place}` is locked by another program"),
            "try again when it is done; nothing was changed",
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            format!("`{place}` cannot be opened"),
            "look whether it is there and may be read, with its `-wal` and `-shm` files",
        ),
        _ => (
            format!("`{place}` cannot be read as OpenCode's database"),
            "`opencode export` prints a session in a form that can be read as well",
        ),
    };
    CommandError::new(anyhow::Error::new(error).context(what), hint)
}

#[cfg(test)]
mod tests;
