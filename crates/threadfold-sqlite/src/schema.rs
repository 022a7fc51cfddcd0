//! The tables, and migrations from older versions.

use rusqlite::{Connection, TransactionBehavior};
use threadfold_store::StoreError;

use crate::failure::Failure;

/// Marks a database as a Threadfold store: `TFLD`.
pub(crate) const APPLICATION_ID: i32 = 0x5446_4c44;

/// The migration to each version from the one before.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
];

/// The newest version that this program supports.
pub(crate) const LATEST_VERSION: u32 = MIGRATIONS.len() as u32;

/// How many bits of a row key are the sequence number; the session's row id is above them.
const SEQ_BITS: u32 = 36;

/// Returns the key of a row: the rows of a session are adjacent, in the order of its records.
pub(crate) fn place(session: i64, first: u64) -> i64 {
    (session << SEQ_BITS) | (first & SEQ_MASK) as i64
}

const SEQ_MASK: u64 = (1 << SEQ_BITS) - 1;

/// Returns the first record of the row with this key.
pub(crate) fn first_of(place: i64) -> u64 {
    place as u64 & SEQ_MASK
}

/// Returns the session of the row with this key.
pub(crate) fn session_of(place: i64) -> i64 {
    place >> SEQ_BITS
}

/// Returns the greatest key that a session's rows can have.
pub(crate) fn last_place(session: i64) -> i64 {
    place(session, SEQ_MASK)
}

/// Returns how many records a log can have.
pub(crate) fn most_records() -> u64 {
    SEQ_MASK
}

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Migrates the tables to the latest version, or creates them.
pub(crate) fn migrate(connection: &mut Connection, place: &str) -> Result<(), Failure> {
    if version(connection)? == LATEST_VERSION {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    let Some(missing) = MIGRATIONS.get(found as usize..) else {
        return Err(newer(place, found).into());
    };
    for migration in missing {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", LATEST_VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// Makes a store of an earlier version, which is not migrated because it is only read, look like one
/// of the latest.
pub(crate) fn read_as_latest(connection: &Connection) -> rusqlite::Result<()> {
    match version(connection)? {
        1 | 2 => connection.execute_batch(
            "PRAGMA temp_store = MEMORY;
             CREATE TEMP VIEW packed_bursts AS SELECT id, directory, data FROM bursts;",
        ),
        _ => Ok(()),
    }
}

pub(crate) fn newer(place: &str, found: u32) -> StoreError {
    StoreError::Newer { place: place.to_owned(), found, known: LATEST_VERSION }
}
