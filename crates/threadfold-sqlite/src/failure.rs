//! Why database work failed, and the [`StoreError`] that the caller gets for it.

use std::sync::Arc;

use rusqlite::ErrorCode;
use threadfold_store::StoreError;
use threadfold_store::pack::{MissingRecord, PackError};

/// Why database work failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The job was refused before it wrote anything; the other jobs of its group continue.
    Refused(StoreError),
    /// Stored bytes are not what was written; the job wrote nothing.
    Corrupt(String),
    /// SQLite failed; the whole group is rolled back.
    Sqlite(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<MissingRecord> for Failure {
    fn from(error: MissingRecord) -> Self {
        Self::Corrupt(error.to_string())
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Failure {
    /// Converts a failure of a read.
    pub(crate) fn while_reading(self, place: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Corrupt(what) => StoreError::Corrupt { place: place.to_owned(), what },
            Self::Sqlite(error) => match Kind::of(&error) {
                Kind::Corrupt => corrupt(place, &error),
                Kind::Busy | Kind::Other => {
                    StoreError::Unreachable { place: place.to_owned(), source: Box::new(error) }
                }
            },
        }
    }

    /// Converts a failure of a write.
    pub(crate) fn while_writing(self, place: &str) -> StoreError {
        match self {
            Self::Sqlite(error) => write_error(place, &Arc::new(error)),
            other => other.while_reading(place),
        }
    }
}

/// Converts an SQLite error that failed a write; every job of a group gets the same cause.
pub(crate) fn write_error(place: &str, error: &Arc<rusqlite::Error>) -> StoreError {
    let source = Box::new(Arc::clone(error));
    let place_text = place.to_owned();
    match Kind::of(error) {
        Kind::Corrupt => corrupt(place, error),
        Kind::Busy => StoreError::Unreachable { place: place_text, source },
        Kind::Other => StoreError::Unwritable { place: place_text, source },
    }
}

fn corrupt(place: &str, error: &rusqlite::Error) -> StoreError {
    StoreError::Corrupt { place: place.to_owned(), what: error.to_string() }
}

/// What a caller can do about an SQLite error.
enum Kind {
    Corrupt,
    Busy,
    Other,
}

impl Kind {
    fn of(error: &rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(error, _) => match error.code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt,
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
                _ => Self::Other,
            },
            // Opening the store verified that the tables exist, so a query or a value that does
            // not fit means that their contents are corrupt.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows
            | rusqlite::Error::SqlInputError { .. } => Self::Corrupt,
            _ => Self::Other,
        }
    }
}
