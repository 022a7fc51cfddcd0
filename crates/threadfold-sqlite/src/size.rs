//! How much is stored.

use std::fs;

use rusqlite::Connection;

use crate::bursts;
use crate::connect::Location;
use crate::failure::Failure;

/// How much a store holds, and how much room it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Size {
    /// How many sessions there are.
    pub sessions: u64,
    /// How many records their logs have together.
    pub records: u64,
    /// How many blobs are kept, those of groups and snapshots included.
    pub blobs: u64,
    /// How many bytes they hold.
    pub blob_bytes: u64,
    /// How many bytes they take.
    pub stored_blob_bytes: u64,
    /// How large the file is, with what was written last beside it.
    pub file_bytes: u64,
    /// How much of the file is free for what comes next.
    pub free_bytes: u64,
}

pub(crate) fn measure(connection: &Connection, location: &Location) -> Result<Size, Failure> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0));
    let length = |path| fs::metadata(path).map_or(0, |it| it.len());
    let (blobs, blob_bytes, stored_blob_bytes) = connection.query_row(
        "SELECT count(*), coalesce(sum(length), 0), coalesce(sum(length(data)), 0) FROM blobs",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let mut in_bursts = 0;
    bursts::each(connection, |entry, _| {
        in_bursts += entry.count;
        Ok(())
    })?;
    Ok(Size {
        sessions: number("SELECT count(*) FROM sessions")?,
        records: number("SELECT coalesce(sum(count), 0) FROM tail")?
            + number("SELECT coalesce(sum(count), 0) FROM groups")?
            + in_bursts,
        blobs,
        blob_bytes,
        stored_blob_bytes,
        file_bytes: length(location.path.clone()) + length(location.beside("-wal")),
        free_bytes: number("PRAGMA freelist_count")? * number("PRAGMA page_size")?,
    })
}
