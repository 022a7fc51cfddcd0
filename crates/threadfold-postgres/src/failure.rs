//! Why database work failed, and the [`StoreError`] that the caller gets for it.

use std::sync::Arc;

use threadfold_store::StoreError;
use threadfold_store::pack::{MissingRecord, PackError};
use tokio_postgres::error::SqlState;

/// Why database work failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The call was refused; it wrote nothing.
    Refused(StoreError),
    /// Stored bytes are not what was written.
    Corrupt(String),
    /// PostgreSQL refused the work or could not be reached; whether it was done may be unknown.
    Database(Arc<tokio_postgres::Error>),
    /// There is no connection.
    Pool(Arc<deadpool_postgres::PoolError>),
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

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

impl From<deadpool_postgres::PoolError> for Failure {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            other => Self::Pool(Arc::new(other)),
        }
    }
}

impl Failure {
    /// Returns the same failure for another call that shared the work; `None` if it concerns one
    /// call alone.
    pub(crate) fn shared(&self) -> Option<Self> {
        match self {
            Self::Refused(_) => None,
            Self::Corrupt(what) => Some(Self::Corrupt(what.clone())),
            Self::Database(error) => Some(Self::Database(error.clone())),
            Self::Pool(error) => Some(Self::Pool(error.clone())),
        }
    }

    /// Returns what PostgreSQL calls it.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => error.code(),
            _ => None,
        }
    }

    /// Returns whether another transaction stood in the way, so that the same work may succeed when
    /// it is done again.
    pub(crate) fn is_rivalry(&self) -> bool {
        matches!(
            self.code(),
            Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE)
        )
    }

    /// Converts it for the caller of a store at this place.
    pub(crate) fn at(self, place: &str) -> StoreError {
        let place = place.to_owned();
        match self {
            Self::Refused(error) => error,
            Self::Corrupt(what) => StoreError::Corrupt { place, what },
            Self::Pool(source) => StoreError::Unreachable { place, source: Box::new(source) },
            Self::Database(source) => match source.code().map(kind) {
                Some(Kind::Corrupt) => StoreError::Corrupt { place, what: source.to_string() },
                Some(Kind::Unwritable) => {
                    StoreError::Unwritable { place, source: Box::new(Reason(source)) }
                }
                _ => StoreError::Unreachable { place, source: Box::new(Reason(source)) },
            },
        }
    }
}

/// An error of PostgreSQL, as people read it: `tokio_postgres` prints `db error` alone.
#[derive(Debug)]
struct Reason(Arc<tokio_postgres::Error>);

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_db_error() {
            Some(error) => f.write_str(error.message()),
            None => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Reason {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)
    }
}

/// What a caller can do about an error.
enum Kind {
    Corrupt,
    Unwritable,
    Unreachable,
}

fn kind(code: &SqlState) -> Kind {
    match *code {
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Kind::Corrupt,
        SqlState::DISK_FULL
        | SqlState::INSUFFICIENT_PRIVILEGE
        | SqlState::READ_ONLY_SQL_TRANSACTION
        | SqlState::OUT_OF_MEMORY => Kind::Unwritable,
        _ => Kind::Unreachable,
    }
}
