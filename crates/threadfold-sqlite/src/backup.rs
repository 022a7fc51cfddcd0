//! Consistent copies of the store.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rusqlite::Connection;
use threadfold_store::StoreError;

use crate::connect::{Location, private_file, sync_folders};
use crate::failure::Failure;

/// Writes the copy beside the target, syncs it, and renames it: the target is never half a copy.
pub(crate) fn write(connection: &Connection, target: &Location) -> Result<(), Failure> {
    let unfinished = target.beside(&format!(".{}.unfinished", std::process::id()));
    let written = write_unfinished(connection, &unfinished).and_then(|()| {
        put_in_place(&unfinished, &target.path).map_err(|error| {
            StoreError::Unwritable { place: target.name.clone(), source: Box::new(error) }.into()
        })
    });
    if written.is_err() {
        // The file may not exist.
        fs::remove_file(&unfinished).ok();
    }
    written
}

fn write_unfinished(connection: &Connection, unfinished: &Path) -> Result<(), Failure> {
    let made = private_file().open(unfinished);
    made.map_err(|error| StoreError::Unwritable {
        place: format!("`{}`", unfinished.display()),
        source: Box::new(error),
    })?;
    let path = unfinished.to_str().ok_or_else(|| StoreError::Unwritable {
        place: format!("`{}`", unfinished.display()),
        source: "the path is not UTF-8".into(),
    })?;
    // `VACUUM` cannot run inside the reader's transaction. The statement itself reads one consistent
    // state, and the caller expects its transaction to be open afterwards.
    connection.execute_batch("COMMIT")?;
    let copied = connection.execute("VACUUM INTO ?1", [path]);
    connection.execute_batch("BEGIN")?;
    copied?;
    Ok(())
}

fn put_in_place(unfinished: &Path, target: &Path) -> io::Result<()> {
    File::open(unfinished)?.sync_all()?;
    // The WAL of a store that the copy replaces would be applied to the copy.
    for suffix in ["-wal", "-shm"] {
        let mut beside = target.as_os_str().to_owned();
        beside.push(suffix);
        match fs::remove_file(beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(unfinished, target)?;
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => sync_folders(folder),
        _ => sync_folders(Path::new(".")),
    }
}
