//! A pool of read-only connections.

use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::connect::{self, Access, Location};
use crate::failure::Failure;

/// How many idle connections stay open.
const MOST_IDLE: usize = 4;

/// Read-only connections. A reader never waits for another: if all are in use, one more is opened.
#[derive(Debug)]
pub(crate) struct Readers {
    pub(crate) location: Location,
    access: Access,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(location: Location, access: Access) -> Self {
        Self { location, access, idle: Mutex::default() }
    }

    /// Runs `work` with a connection that sees one consistent state of the store.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect::reader(&self.location, self.access)?,
        };
        let transaction = connection.unchecked_transaction()?;
        let done = work(&transaction);
        transaction.finish()?;
        // After an SQLite error the state of a connection is unknown.
        if !matches!(done, Err(Failure::Sqlite(_))) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MOST_IDLE {
                idle.push(connection);
            }
        }
        done
    }
}
