//! An output file, written atomically: complete, or the existing file stays.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use threadfold_export::create_private;

use crate::error::CommandError;
use crate::unfinished::{UnfinishedFiles, unfinished_path};

/// A file that is being written.
pub(crate) struct Output {
    /// The path that the user gave.
    path: PathBuf,
    out: BufWriter<File>,
    place: Place,
    /// The first write error.
    failed: Option<io::Error>,
    /// Lists the temporary file, in case this process is killed.
    _listed: UnfinishedFiles,
}

/// Where the bytes are written until the file is complete.
enum Place {
    /// To a temporary file beside the target. The target did not exist at the start; if it
    /// exists at the end, it is not overwritten.
    New { unfinished: PathBuf },
    /// To a temporary file beside the existing one, which it then replaces.
    Beside { unfinished: PathBuf, target: PathBuf },
    /// To a pipe or a device.
    Stream,
}

impl Output {
    /// Creates a file, and fails if it exists. A pipe or a device is written directly.
    pub(crate) fn create(
        path: &Path,
        has_force: bool,
        listed: UnfinishedFiles,
    ) -> Result<Self, CommandError> {
        let made = open(path, has_force, &listed).map_err(|error| unwritable(path, error))?;
        let (file, place) = made;
        let (path, out) = (path.to_owned(), BufWriter::new(file));
        Ok(Self { path, out, place, failed: None, _listed: listed })
    }

    /// Moves the file into place if it is complete; otherwise removes it.
    pub(crate) fn finish(mut self, written: Result<(), CommandError>) -> Result<(), CommandError> {
        let flushed = self.out.flush();
        let failed = self.failed.take().or(flushed.err());
        let ended = match (failed, written) {
            (Some(error), _) => Err(unwritable(&self.path, error)),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => self.put_in_place().map_err(|error| unwritable(&self.path, error)),
        };
        if ended.is_err() {
            let unfinished = match &self.place {
                Place::New { unfinished } | Place::Beside { unfinished, .. } => Some(unfinished),
                Place::Stream => None,
            };
            // The write error is reported; failing to remove the rest is less important.
            unfinished.map(fs::remove_file);
        }
        ended
    }

    fn put_in_place(&self) -> io::Result<()> {
        match &self.place {
            Place::New { unfinished } => {
                self.out.get_ref().sync_all()?;
                rename_to_new(unfinished, &self.path)
            }
            Place::Beside { unfinished, target } => {
                self.out.get_ref().sync_all()?;
                fs::rename(unfinished, target)
            }
            Place::Stream => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}

impl Output {
    /// Records the write error, because callers report it as one of standard output.
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let kind = error.kind();
            self.failed.get_or_insert(error);
            kind.into()
        })
    }
}

/// Renames a file to a path that must not exist.
fn rename_to_new(file: &Path, path: &Path) -> io::Result<()> {
    // A rename would replace a file that another process created meanwhile; a link does not.
    match fs::hard_link(file, path) {
        Ok(()) => fs::remove_file(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Not every file system has links.
        Err(_) => fs::rename(file, path),
    }
}

fn open(path: &Path, has_force: bool, listed: &UnfinishedFiles) -> io::Result<(File, Place)> {
    let Ok(metadata) = fs::metadata(path) else {
        if fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it is a broken link"));
        }
        let unfinished = unfinished_path(path, None);
        listed.add(&unfinished);
        return create_private(&unfinished).map(|file| (file, Place::New { unfinished }));
    };
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return OpenOptions::new().write(true).open(path).map(|file| (file, Place::Stream));
    }
    if !has_force {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // A link stays a link: its target is replaced.
    let target = fs::canonicalize(path)?;
    let unfinished = unfinished_path(&target, None);
    listed.add(&unfinished);
    create_private(&unfinished).map(|file| (file, Place::Beside { unfinished, target }))
}

fn unwritable(path: &Path, error: io::Error) -> CommandError {
    let hint = match error.kind() {
        io::ErrorKind::BrokenPipe => return CommandError::PipeClosed,
        io::ErrorKind::AlreadyExists => "`--force` replaces it",
        io::ErrorKind::StorageFull => "the disk is full; the existing file is unchanged",
        _ => "check that the folder exists and is writable",
    };
    let what = format!("`{}` cannot be written", path.display());
    CommandError::new(anyhow::Error::new(error).context(what), hint)
}
