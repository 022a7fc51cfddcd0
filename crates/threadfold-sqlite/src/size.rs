//! Measures the store.

use std::fs;

use rusqlite::Connection;
use threadfold_store::StoreSize;

use crate::bursts;
use crate::connect::Location;
use crate::failure::Failure;

pub(crate) fn measure(connection: &Connection, location: &Location) -> Result<StoreSize, Failure> {
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
    Ok(StoreSize {
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
