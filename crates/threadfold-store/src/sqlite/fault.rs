//! Why work in the database stopped, and what that means for whoever asked.

use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::error::StoreError;
use crate::pack::Malformed;

/// Why work in the database stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// It was refused before anything was written: the rest of a group goes on.
    Refused(StoreError),
    /// What was read is not what was written, and nothing was written because of it.
    Damaged(String),
    /// The database failed.
    Failed(rusqlite::Error),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Malformed> for Stop {
    fn from(error: Malformed) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

impl Stop {
    /// Returns what a reader is told.
    pub(super) fn while_reading(self, place: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Damaged(what) => StoreError::Damaged { place: place.to_owned(), what },
            Self::Failed(error) => match Kind::of(&error) {
                Kind::Damaged => damaged(place, &error),
                Kind::Busy | Kind::Other => {
                    StoreError::Unreachable { place: place.to_owned(), source: Box::new(error) }
                }
            },
        }
    }

    /// Returns what a writer is told.
    pub(super) fn while_writing(self, place: &str) -> StoreError {
        match self {
            Self::Failed(error) => failed_write(place, &Arc::new(error)),
            other => other.while_reading(place),
        }
    }
}

/// Returns what each writer of a group is told when the database failed.
pub(super) fn failed_write(place: &str, error: &Arc<rusqlite::Error>) -> StoreError {
    let place_text = place.to_owned();
    match Kind::of(error) {
        Kind::Damaged => damaged(place, error),
        Kind::Busy => {
            StoreError::Unreachable { place: place_text, source: Box::new(Arc::clone(error)) }
        }
        Kind::Other => {
            StoreError::Unwritable { place: place_text, source: Box::new(Arc::clone(error)) }
        }
    }
}

fn damaged(place: &str, error: &rusqlite::Error) -> StoreError {
    StoreError::Damaged { place: place.to_owned(), what: error.to_string() }
}

/// What can be done about a failure of the database.
enum Kind {
    Damaged,
    Busy,
    Other,
}

impl Kind {
    fn of(error: &rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(error, _) => match error.code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Damaged,
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
                _ => Self::Other,
            },
            // The tables are there, or it would not have been opened: what they hold is amiss.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows
            | rusqlite::Error::SqlInputError { .. } => Self::Damaged,
            _ => Self::Other,
        }
    }
}
