//! What goes wrong with a store, with what can be done about it.

use std::io::ErrorKind;

use threadfold_engine::{DatabaseError, DatabaseProblem, EngineError, InputError, ServerError};
use threadfold_store::StoreError;

use crate::error::CommandError;

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Held { .. } => "wait until it is done, or end that process",
            StoreError::Fenced { .. } | StoreError::Conflict { .. } => {
                "another process wrote meanwhile; try again"
            }
            StoreError::NotFound { .. } => {
                "`threadfold list` shows the sessions; `threadfold import` adds one"
            }
            StoreError::Unwritable { .. } => {
                "look whether the disk is full, and whether file and folder may be written to"
            }
            StoreError::Unreachable { .. } => {
                "look whether it is there and may be read, with its `-wal` and `-shm` files"
            }
            StoreError::Corrupt { .. } => "`threadfold doctor` tells more, and what to do",
            StoreError::Newer { .. } => {
                "use a newer threadfold, or another store by `--store` or `THREADFOLD_STORE`"
            }
            _ => "`--store` or `THREADFOLD_STORE` tell where the store is",
        };
        Self::new(error, hint)
    }
}

impl From<ServerError> for CommandError {
    fn from(error: ServerError) -> Self {
        let hint = match &error {
            ServerError::NoSession { .. } => "without `--session` the latest one is taken",
            _ => "check that the agent's server runs, and its address",
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
            EngineError::Output { ref source, .. } => {
                let hint = match source.kind() {
                    ErrorKind::Unsupported => "`--to FOLDER` writes it there",
                    ErrorKind::AlreadyExists => "look at what is there first",
                    ErrorKind::InvalidData => "`threadfold doctor` tells what is damaged",
                    ErrorKind::InvalidFilename => "`--to` or `--output` tell a shorter place",
                    _ => "look whether the disk is full, and whether it may be written to",
                };
                Self::new(error, hint)
            }
            EngineError::File { .. } => {
                Self::new(error, "look whether it is there and may be read")
            }
            _ => Self::new(error, "`threadfold reindex` makes anew what is derived of a session"),
        }
    }
}

impl From<DatabaseError> for CommandError {
    fn from(error: DatabaseError) -> Self {
        let hint = match &error {
            DatabaseError::Unreadable { problem, .. } => match problem {
                DatabaseProblem::NotADatabase => "it is not a SQLite database, or is encrypted",
                DatabaseProblem::Corrupt => {
                    "it is corrupt: `sqlite3 FILE .recover` saves what is left"
                }
                DatabaseProblem::Locked => {
                    "another program has it locked: try again when that is done"
                }
                DatabaseProblem::CannotOpen => {
                    "check that it is there and may be read, with its `-wal` and `-shm` files"
                }
                _ => "the agent's own export of a session can be read as well",
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
                "try again when a line of it is whole, or give its format with `--from`".into()
            }
            InputError::Unrecognized { .. } => {
                "`--from` gives its format, and `import --any` keeps it as it is".into()
            }
            InputError::Mismatch { .. } => {
                "`--from` lists the formats; without it, the format is detected".into()
            }
            InputError::NoSession { unrecognized: 1.., .. } => {
                "`--any` takes every file, whatever it is".into()
            }
            InputError::Several { example, .. } => {
                format!("`--session {example}` reads one of them; `threadfold list` shows more")
            }
            InputError::OneSession { .. } => "leave `--session` out".into(),
            InputError::Address { .. } => "an address looks like `http://127.0.0.1:4096`".into(),
            _ => "`threadfold list` shows the sessions on this machine".into(),
        };
        Self::new(error, hint)
    }
}
