//! The file of a mark key: readable by its user alone, and created once.

use std::fs;
use std::io;
use std::path::Path;

use super::MarkKey;
use crate::atomic_file::{self, WriteMode};

impl MarkKey {
    /// Reads the key from a file, which must be readable by its user alone.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if others_have_access(&fs::metadata(path)?) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "other users can read or write it; expected mode 0600",
            ));
        }
        let text = fs::read_to_string(path)?;
        let hash = blake3::Hash::from_hex(text.trim())
            .map_err(|_| invalid("it is not a key; expected 64 hexadecimal digits"))?;
        Ok(Self::new(*hash.as_bytes()))
    }

    /// Reads the key from a file, and creates it with a new key if it does not exist. Processes
    /// that do so at once get the same key.
    pub fn open_or_create(path: &Path) -> io::Result<Self> {
        match Self::from_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            atomic_file::create_folder(folder)?;
        }
        match create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::from_file(path),
        }
    }
}

/// Creates the file with a new key, unless another process did.
fn create(path: &Path) -> io::Result<()> {
    let random = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
    let bytes: Vec<u8> = random.iter().flat_map(|it| *it.as_bytes()).collect();
    let text = format!("{}\n", blake3::hash(&bytes));
    atomic_file::write(path, text.as_bytes(), WriteMode::CreateNew)
}

#[cfg(unix)]
fn others_have_access(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;

    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn others_have_access(_: &fs::Metadata) -> bool {
    false
}
