//! Hints for errors of the engine and the store.

use std::io::{self, ErrorKind};

use threadfold_engine::{DatabaseError, DatabaseProblem, EngineError, InputError, ServerError};
use threadfold_store::StoreError;

use crate::error::CommandError;

/// Returns the error of the engine that caused an I/O error, if one did.
pub(crate) fn engine_error(error: io::Error) -> Result<EngineError, io::Error> {
    if !error.get_ref().is_some_and(|it| it.is::<EngineError>()) {
        return Err(error);
    }
    match error.into_inner().map(|it| it.downcast::<EngineError>()) {
        Some(Ok(error)) => Ok(*error),
        Some(Err(error)) => Err(io::Error::other(error)),
        None => Err(io::ErrorKind::Other.into()),
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Held { .. } => "wait until it is done, or stop that process",
            StoreError::Fenced { .. } | StoreError::Conflict { .. } => {
                "another process wrote to the session; try again"
            }
            StoreError::NotFound { .. } => {
                "`threadfold list` shows the sessions; `threadfold import` adds one"
            }
            StoreError::Unwritable { .. } => {
                "check that the disk is not full, and that file and folder are writable"
            }
            StoreError::Unreachable { place, .. } if place.starts_with("postgres") => {
                "check that the server runs, and the user, the password and the database's name"
            }
            StoreError::Unreachable { .. } => {
                "check that it exists and can be read, with its `-wal` and `-shm` files"
            }
            StoreError::Corrupt { .. } => {
                "`threadfold doctor` reports more; if it cannot, `threadfold export --salvage \
                 --output FOLDER` writes what can still be read"
            }
            StoreError::Newer { .. } => {
                "use a newer threadfold, or choose another store with `--store` or `THREADFOLD_STORE`"
            }
            StoreError::Foreign { .. } => {
                "`--store` or `THREADFOLD_STORE` choose the store; of a damaged one, `threadfold \
                 export --salvage --output FOLDER` writes what can still be read"
            }
            _ => "`--store` or `THREADFOLD_STORE` choose the store",
        };
        Self::new(error, hint)
    }
}

impl From<ServerError> for CommandError {
    fn from(error: ServerError) -> Self {
        let hint = match &error {
            ServerError::NoSession { .. } => "omit `--session` to follow the latest one".to_owned(),
            ServerError::Unauthorized { variable, .. } => {
                format!("set `{variable}`, or give the password with `--password-file FILE`")
            }
            ServerError::Redirect { .. } => {
                "give the address of the server itself, if you trust it".to_owned()
            }
            _ => "check that the agent's server runs, and its address".to_owned(),
        };
        Self::new(error, hint)
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Database(error) => error.into(),
            EngineError::Server(error) => error.into(),
            EngineError::StoredState { .. } => {
                Self::new(error, "`threadfold reindex` rebuilds it from the session's records")
            }
            EngineError::Output { ref source, .. } => {
                let hint = match source.kind() {
                    ErrorKind::Unsupported => "`--to FOLDER` writes it there",
                    ErrorKind::AlreadyExists => "check what already exists there",
                    ErrorKind::InvalidData => "`threadfold doctor` reports what is corrupt",
                    ErrorKind::InvalidFilename => "`--to` or `--output` choose a shorter path",
                    _ => "check that the disk is not full, and that it is writable",
                };
                Self::new(error, hint)
            }
            EngineError::IsRun { .. } => Self::new(
                error,
                "give the other source a session id of its own: a run is continued only by `threadfold resume`",
            ),
            EngineError::NotTheLoop { .. } => {
                Self::new(error, "`threadfold run` and `threadfold resume` write such records")
            }
            EngineError::OtherLog { .. } => Self::new(
                error,
                "copy into another store, or remove the session there with `threadfold rm`",
            ),
            EngineError::Spill { .. } => {
                Self::new(error, "free some space there; all records are in the store")
            }
            EngineError::File { ref path, .. } => {
                let hint = match path.to_string_lossy().contains("://") {
                    true => "`threadfold watch` and `view` read servers, by their HTTP address",
                    false => "check that it exists and can be read",
                };
                Self::new(error, hint)
            }
            _ => Self::new(error, "`threadfold reindex` rebuilds snapshots and summaries"),
        }
    }
}

impl From<DatabaseError> for CommandError {
    fn from(error: DatabaseError) -> Self {
        let hint = match &error {
            DatabaseError::Unreadable { problem, .. } => match problem {
                DatabaseProblem::Corrupt => "`sqlite3 FILE .recover` recovers what is readable",
                DatabaseProblem::Locked => "try again when it is unlocked; nothing was changed",
                DatabaseProblem::CannotOpen => {
                    "check that it exists and can be read, with its `-wal` and `-shm` files"
                }
                _ => "`threadfold list` shows where agents keep their sessions",
            },
            DatabaseError::NoSession { .. } => {
                "`threadfold list` shows the sessions on this machine"
            }
            _ => "`threadfold list` shows where it looks for sessions",
        };
        Self::new(error, hint)
    }
}

impl From<InputError> for CommandError {
    fn from(error: InputError) -> Self {
        let hint: String = match &error {
            InputError::Engine(_) => {
                let InputError::Engine(error) = error else { unreachable!("it was matched") };
                return error.into();
            }
            InputError::NotRegular { .. } => {
                "`threadfold watch -` reads a stream from standard input".into()
            }
            InputError::NothingYet { .. } => {
                "try again when its first line is complete, or set the format with `--from`".into()
            }
            InputError::Unrecognized { .. } => {
                "set its format with `--from`, or store it line by line with `import --any`".into()
            }
            InputError::Mismatch { .. } => {
                "omit `--from` to detect the format; `--help` lists the formats".into()
            }
            InputError::NoSession { unrecognized: 1.., .. } => {
                "use `--any` to import every file".into()
            }
            InputError::Several { example, .. } => {
                format!("`--session {example}` reads one of them; `threadfold list` shows more")
            }
            InputError::SeveralFiles { .. } => "give the path of one of their files".into(),
            InputError::OneSession { .. } => "omit `--session`".into(),
            InputError::Address { .. } => "an address looks like `http://127.0.0.1:4096`".into(),
            _ => "`threadfold list` shows the sessions on this machine".into(),
        };
        Self::new(error, hint)
    }
}
