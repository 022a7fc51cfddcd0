//! Errors of reading an agent's database.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why an agent's database could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// Give another file.
    #[error("`{}` is a SQLite database, but not one of {agent}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The agent it was expected to be of.
        agent: &'static str,
    },
    /// List the sessions of the database.
    #[error("session `{session}` is not in `{}`", path.display())]
    NoSession {
        /// The file.
        path: PathBuf,
        /// The session that was requested.
        session: String,
    },
    /// Check the file, or retry: `problem` shows which.
    #[error("`{}` {problem}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: DatabaseProblem,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What is wrong with a database that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatabaseProblem {
    /// It is not a SQLite database, or is encrypted.
    NotADatabase,
    /// It is corrupt.
    Corrupt,
    /// Another program has it locked.
    Locked,
    /// It cannot be opened.
    CannotOpen,
    /// Another error; see the cause.
    Other,
}

impl fmt::Display for DatabaseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotADatabase => "is not a SQLite database, or is encrypted",
            Self::Corrupt => "is corrupt",
            Self::Locked => "is locked by another program",
            Self::CannotOpen => "cannot be opened",
            Self::Other => "cannot be read as an agent's database",
        })
    }
}

impl DatabaseProblem {
    // Not `From`: the type of a library in a public signature would tie users to its version.
    fn of(error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase,
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::CannotOpen,
            _ => Self::Other,
        }
    }
}

impl DatabaseError {
    pub(crate) fn unreadable(path: &Path, error: rusqlite::Error) -> Self {
        let problem = DatabaseProblem::of(&error);
        Self::Unreadable { path: path.to_owned(), problem, source: Box::new(error) }
    }
}
