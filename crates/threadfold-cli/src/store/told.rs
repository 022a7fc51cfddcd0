//! What goes wrong with a store, with what can be done about it.

use std::io::ErrorKind;

use threadfold_engine::{EngineError, ServerError};
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
            ServerError::Address { .. } => "an address looks like `http://127.0.0.1:4096`",
            ServerError::NoSession { .. } => "without `--session` the latest one is taken",
            _ => "`opencode serve` starts a server, and tells its address",
        };
        Self::new(error, hint)
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Database(error) => error.into(),
            EngineError::Written { ref source, .. } => {
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
