//! What was read and not sent yet: in memory up to a limit, and then in a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use bytes::{Buf, Bytes, BytesMut};
use threadfold_client::ClientError;

use crate::error::CommandError;
use crate::store::data_folder;

/// How many bytes are held in memory.
const MEMORY: usize = 1 << 20;

/// Bytes of a stream that are not on the server.
pub(super) struct Spool {
    /// Where they begin in the stream.
    position: u64,
    memory: BytesMut,
    /// What follows the memory.
    file: Option<SpoolFile>,
    path: PathBuf,
    /// The server has the end of the stream.
    is_finished: bool,
}

struct SpoolFile {
    file: File,
    /// Where what was not read back begins.
    start: u64,
    end: u64,
}

impl Spool {
    pub(super) fn new(stream: &str, position: u64) -> Result<Self, CommandError> {
        let folder = data_folder().unwrap_or_else(std::env::temp_dir).join("push");
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        if stream.is_empty() || !stream.chars().all(is_plain) || stream.starts_with(['.', '-']) {
            return Err(CommandError::new(
                anyhow!("`{stream}` is not the name of a stream"),
                "a name has letters, digits, `-`, `_` and `.`",
            ));
        }
        let path = folder.join(format!("{stream}.{}.spool", std::process::id()));
        Ok(Self { position, memory: BytesMut::new(), file: None, path, is_finished: false })
    }

    /// Adds bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        if self.file.is_none() && self.memory.len() + bytes.len() <= MEMORY {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        self.append(bytes).map_err(|error| self.unwritable(error))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let spool = match &mut self.file {
            Some(spool) => spool,
            none => {
                if let Some(folder) = self.path.parent() {
                    fs::create_dir_all(folder)?;
                }
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(true);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                none.insert(SpoolFile { file: options.open(&self.path)?, start: 0, end: 0 })
            }
        };
        spool.file.seek(SeekFrom::Start(spool.end))?;
        spool.file.write_all(bytes)?;
        spool.end += bytes.len() as u64;
        Ok(())
    }

    /// Returns the first bytes, at most so many.
    pub(super) fn front(&mut self, most: usize) -> Result<Bytes, CommandError> {
        while self.memory.len() < most {
            let read = self.read_back(most - self.memory.len());
            if !read.map_err(|error| self.unwritable(error))? {
                break;
            }
        }
        Ok(Bytes::copy_from_slice(&self.memory[..self.memory.len().min(most)]))
    }

    /// Moves bytes from the file to the memory, and returns whether there were any.
    fn read_back(&mut self, most: usize) -> io::Result<bool> {
        let Some(spool) = &mut self.file else { return Ok(false) };
        let length = usize::try_from(spool.end - spool.start).unwrap_or(usize::MAX).min(most);
        let before = self.memory.len();
        self.memory.resize(before + length, 0);
        spool.file.seek(SeekFrom::Start(spool.start))?;
        spool.file.read_exact(&mut self.memory[before..])?;
        spool.start += length as u64;
        if spool.start == spool.end {
            // Everything is in memory again.
            self.file = None;
            fs::remove_file(&self.path)?;
        }
        Ok(length > 0)
    }

    /// Notes how far the server has the stream.
    pub(super) fn advance_to(&mut self, position: u64, is_end: bool) -> Result<(), CommandError> {
        let odd = || {
            CommandError::new(
                anyhow!(
                    "the server has {position} bytes of the stream, and {} were sent",
                    self.position
                ),
                "check that nobody else pushes the same stream",
            )
        };
        let gained = position.checked_sub(self.position).ok_or_else(odd)?;
        let gained = usize::try_from(gained).ok().filter(|it| *it <= self.memory.len());
        let gained = gained.ok_or_else(odd)?;
        self.memory.advance(gained);
        self.position = position;
        self.is_finished = is_end && self.length() == 0;
        Ok(())
    }

    /// Returns whether a refusal means that the server has more than was known: after an answer that
    /// was lost.
    pub(super) fn recovers(&mut self, error: &ClientError) -> bool {
        let ClientError::Refused { status: 409, expected_position: Some(expected), .. } = error
        else {
            return false;
        };
        let is_ahead =
            *expected > self.position && *expected - self.position <= self.memory.len() as u64;
        is_ahead && self.advance_to(*expected, false).is_ok()
    }

    /// Writes everything to the file, and returns it.
    pub(super) fn keep(&mut self) -> Result<PathBuf, CommandError> {
        let kept = self.try_keep();
        kept.map_err(|error| self.unwritable(error))
    }

    fn try_keep(&mut self) -> io::Result<PathBuf> {
        let mut rest = self.memory.split().to_vec();
        if let Some(spool) = &mut self.file {
            spool.file.seek(SeekFrom::Start(spool.start))?;
            (&spool.file).take(spool.end - spool.start).read_to_end(&mut rest)?;
        }
        self.file = None;
        let beside = self.path.with_extension("unsent");
        if let Some(folder) = beside.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside)?;
        file.write_all(&rest)?;
        file.sync_all()?;
        if fs::exists(&self.path)? {
            fs::remove_file(&self.path)?;
        }
        Ok(beside)
    }

    /// Removes the file, because everything is on the server.
    pub(super) fn remove(&mut self) -> Result<(), CommandError> {
        self.file = None;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.unwritable(error)),
            _ => Ok(()),
        }
    }

    fn unwritable(&self, error: io::Error) -> CommandError {
        let what = format!("`{}` cannot be written", self.path.display());
        let error = anyhow::Error::new(error).context(what);
        CommandError::new(error, "check that the disk is not full, and that the folder is writable")
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns how many bytes are not on the server.
    pub(super) fn length(&self) -> u64 {
        let in_file = self.file.as_ref().map_or(0, |it| it.end - it.start);
        self.memory.len() as u64 + in_file
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_in_order_and_memory_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new("test", 0).unwrap();
        spool.path = folder.path().join("spool");
        let all: Vec<u8> = (0..5 * MEMORY).map(|it| (it % 251) as u8).collect();
        let mut read = Vec::new();
        for (number, chunk) in all.chunks(70_001).enumerate() {
            spool.push(chunk).unwrap();
            assert!(spool.memory.len() <= MEMORY, "{}", spool.memory.len());
            if number % 3 == 0 {
                let front = spool.front(50_000).unwrap();
                read.extend_from_slice(&front);
                spool.advance_to(read.len() as u64, false).unwrap();
            }
        }
        assert!(spool.path.exists());
        while spool.length() > 0 {
            let front = spool.front(300_000).unwrap();
            read.extend_from_slice(&front);
            spool.advance_to(read.len() as u64, false).unwrap();
        }
        assert_eq!(read, all);
        assert!(!spool.path.exists());
    }
}
