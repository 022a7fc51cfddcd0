//! Checks that there is disk space for SQLite's shared memory, the file `-shm`.
//!
//! SQLite extends that file by one byte in each of its 4 KiB pages, and then writes to it through a
//! memory map. Where a block of the file system is smaller than a page, the rest of the page is a
//! hole, and writing to a hole on a full disk kills the process with SIGBUS. So there must be room
//! when SQLite writes to a page for the first time:
//!
//! - when the file is opened, where recovery writes to it;
//! - for the first frame of the write-ahead log, and for the first of each 4,096 more, where SQLite
//!   clears a region of 32 KiB. [`touch`] makes the first of these happen while a store is opened,
//!   where blocks are smaller than pages.
//!
//! The file itself is never opened here: closing it would release the locks that SQLite holds on it
//! in this process, and another process would then truncate it under our memory map.

use rusqlite::Connection;

use crate::connect::Location;
use crate::failure::Failure;

/// Fails if there is no room for the shared memory.
///
/// It asks for the free space and writes nothing, because it is called for every connection; and
/// before each transaction where blocks are smaller than pages, because the disk may have become
/// full since the store was opened.
pub(crate) fn check_room(location: &Location) -> Result<(), Failure> {
    system::check_room(location).map_err(|error| location.unwritable(error))
}

/// Returns whether blocks of the file system may be smaller than a page.
pub(crate) fn has_small_blocks(location: &Location) -> bool {
    system::has_small_blocks(location)
}

/// Makes SQLite write to every page of the first region, now that there is room.
///
/// Where blocks are as large as pages there are no holes, and nothing is written: the first frame of
/// a write-ahead log is preceded by a header, which SQLite syncs.
pub(crate) fn touch(location: &Location, connection: &Connection) -> rusqlite::Result<()> {
    if !system::has_small_blocks(location) {
        return Ok(());
    }
    // A frame is written although nothing changes. It need not be durable, so it is not synced. But
    // it may start a checkpoint of what others wrote, which must be synced: hence not `OFF`.
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let written = connection.pragma_update(None, "user_version", version);
    connection.execute_batch("PRAGMA synchronous = FULL")?;
    written
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::path::Path;

    use rustix::fs::statvfs;
    use rustix::io::Errno;

    use crate::connect::Location;

    /// The room that opening a store may need: a region of the shared memory, and metadata.
    const ROOM: u64 = 96 << 10;
    /// The size of a page of memory, at least.
    const PAGE: u64 = 4096;

    pub(super) fn check_room(location: &Location) -> io::Result<()> {
        // SQLite reports whatever else is wrong with the folder.
        let Ok(found) = statvfs(folder_of(location)) else { return Ok(()) };
        // A file system without a size, such as one over a network, does not know.
        let is_full = found.f_blocks > 0 && found.f_bavail.saturating_mul(found.f_frsize) < ROOM;
        match is_full {
            true => Err(Errno::NOSPC.into()),
            false => Ok(()),
        }
    }

    pub(super) fn has_small_blocks(location: &Location) -> bool {
        statvfs(folder_of(location)).map_or(true, |found| found.f_frsize < PAGE)
    }

    fn folder_of(location: &Location) -> &Path {
        match location.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }
}

/// Other systems fail a write to the file itself.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use crate::connect::Location;

    pub(super) fn check_room(_: &Location) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn has_small_blocks(_: &Location) -> bool {
        false
    }
}
