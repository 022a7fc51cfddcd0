//! The connections that read, beside the one that writes.

use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::connect::{self, Access, Location};
use crate::failure::Failure;

/// How many connections are kept open for the next reader.
const KEPT: usize = 4;

/// Connections that read. None waits for another: one more is opened when all are in use.
#[derive(Debug)]
pub(crate) struct Readers {
    pub(crate) location: Location,
    access: Access,
    free: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(location: Location, access: Access) -> Self {
        Self { location, access, free: Mutex::default() }
    }

    /// Does `work` with a connection that sees one moment of the store.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match free {
            Some(connection) => connection,
            None => connect::reader(&self.location, self.access)?,
        };
        let moment = connection.unchecked_transaction()?;
        let done = work(&moment);
        moment.finish()?;
        // After a failure nothing is believed of a connection.
        if !matches!(done, Err(Failure::Sqlite(_))) {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if free.len() < KEPT {
                free.push(connection);
            }
        }
        done
    }
}
