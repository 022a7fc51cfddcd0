//! A file that a person named: it is written whole, or what was there stays.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::scribe::{beside, create_new};
use crate::error::CommandError;

/// A file in the making.
pub(crate) struct Output {
    /// As a person named it.
    path: PathBuf,
    out: BufWriter<File>,
    place: Place,
    /// Why something could not be written.
    failed: Option<io::Error>,
}

/// Where the bytes go until all are there.
enum Place {
    /// To its own place, where nothing was.
    New,
    /// Beside what is there, which it replaces.
    Beside { unfinished: PathBuf, target: PathBuf },
    /// To what is no file: a pipe or a device.
    Stream,
}

impl Output {
    /// Begins a file, or says that there is one. What is no file is written to as it is.
    pub(crate) fn create(path: &Path, has_force: bool) -> Result<Self, CommandError> {
        let made = open(path, has_force).map_err(|error| unwritable(path, error))?;
        let (file, place) = made;
        Ok(Self { path: path.to_owned(), out: BufWriter::new(file), place, failed: None })
    }

    /// Gives the file its place, if all was written; takes away what was not.
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
                Place::New => Some(&self.path),
                Place::Beside { unfinished, .. } => Some(unfinished),
                Place::Stream => None,
            };
            // What could not be written is told; that a part of it stays is not worse.
            unfinished.map(fs::remove_file);
        }
        ended
    }

    fn put_in_place(&self) -> io::Result<()> {
        match &self.place {
            Place::New => self.out.get_ref().sync_all(),
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
    /// Remembers why something could not be written: whoever writes tells it of standard output.
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let kind = error.kind();
            self.failed.get_or_insert(error);
            kind.into()
        })
    }
}

fn open(path: &Path, has_force: bool) -> io::Result<(File, Place)> {
    let Ok(metadata) = fs::metadata(path) else {
        if fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it is a link that leads nowhere"));
        }
        return create_new(path).map(|file| (file, Place::New));
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
    // A link stays one: what it leads to is replaced.
    let target = fs::canonicalize(path)?;
    let unfinished = beside(&target, &format!(".{}.unfinished", std::process::id()));
    create_new(&unfinished).map(|file| (file, Place::Beside { unfinished, target }))
}

fn unwritable(path: &Path, error: io::Error) -> CommandError {
    let hint = match error.kind() {
        io::ErrorKind::BrokenPipe => return CommandError::PipeClosed,
        io::ErrorKind::AlreadyExists => "`--force` replaces it",
        io::ErrorKind::StorageFull => "the disk is full; what was there before is as it was",
        _ => "look whether the folder is there and may be written to",
    };
    let what = format!("`{}` cannot be written", path.display());
    CommandError::new(anyhow::Error::new(error).context(what), hint)
}
