//! Writes files atomically: a reader sees the old text or the new one, even after a crash.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// What happens to a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// It stays, and writing fails with `AlreadyExists`: of several processes, the first decides.
    CreateNew,
    /// It is replaced.
    Replace,
}

/// Writes a file that only its user can read, all of it or nothing.
pub(crate) fn write(path: &Path, text: &[u8], mode: WriteMode) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    // A hard link fails if the target exists, a rename replaces it; both are atomic.
    let placed = written.and_then(|()| match mode {
        WriteMode::CreateNew => fs::hard_link(&beside, path),
        WriteMode::Replace => fs::rename(&beside, path),
    });
    if placed.is_err() || mode == WriteMode::CreateNew {
        fs::remove_file(&beside)?;
    }
    placed?;
    // Without syncing the folder, a crash could undo the rename although the file is durable.
    path.parent().map_or(Ok(()), sync_folder)
}

/// Creates a folder that only its user can enter, and those above it.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes the names in a folder durable. The current folder is the empty path.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // Other systems cannot open a folder, and need not.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_created_once_or_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name.json");
        write(&path, b"one", WriteMode::CreateNew).unwrap();
        let again = write(&path, b"two", WriteMode::CreateNew).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(&path, b"three", WriteMode::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let missing = folder.path().join("missing/name.json");
        assert!(write(&missing, b"x", WriteMode::Replace).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn only_its_user_can_read_a_file() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/key");
        create_folder(path.parent().unwrap()).unwrap();
        write(&path, b"secret", WriteMode::CreateNew).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
}
