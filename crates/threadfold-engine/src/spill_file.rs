//! Spills session state that does not fit in memory to an unnamed temporary file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use threadfold_core::SpillStore;
use threadfold_store::BlobHash;

use crate::error::EngineError;

/// How much of a session is held in memory, and where the rest is spilled.
#[derive(Clone, Debug)]
pub struct Budget {
    /// How many bytes of records are folded before closed blocks are spilled.
    pub bytes: usize,
    /// The folder of the spill file. The file is unnamed, and disappears with the session or the
    /// process.
    pub folder: PathBuf,
}

/// An unnamed file, created on first use.
///
/// After an error it accepts nothing more, and readers of its data must call
/// [`check`](Self::check).
pub(crate) struct SpillFile {
    folder: PathBuf,
    file: Mutex<Option<(File, u64)>>,
    trouble: OnceLock<Arc<io::Error>>,
    /// Ranges of the file that are pieces of a snapshot: where each ends, and its id.
    pieces: Mutex<BTreeMap<u64, (u64, BlobHash)>>,
}

impl SpillFile {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let (file, trouble, pieces) = Default::default();
        Self { folder, file, trouble, pieces }
    }

    /// Returns the folder of the file.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fails after an earlier error.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        match self.trouble.get() {
            None => Ok(()),
            Some(source) => {
                let (folder, source) = (self.folder.clone(), source.clone());
                Err(EngineError::Spill { folder, source })
            }
        }
    }

    /// Returns the end and the id of the piece that begins at an offset.
    pub(crate) fn piece_at(&self, place: u64) -> Option<(u64, BlobHash)> {
        self.pieces().get(&place).copied()
    }

    /// Records that a range of the file is a piece of a snapshot.
    pub(crate) fn note_piece(&self, place: u64, end: u64, name: BlobHash) {
        self.pieces().insert(place, (end, name));
    }

    /// Forgets all pieces, because the store may have deleted them.
    pub(crate) fn forget_pieces(&self) {
        self.pieces().clear();
    }

    fn pieces(&self) -> MutexGuard<'_, BTreeMap<u64, (u64, BlobHash)>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accesses the file, and records the first error.
    fn with<T>(&self, work: impl FnOnce(&mut File, &mut u64) -> io::Result<T>) -> Option<T> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if self.trouble.get().is_some() {
            return None;
        }
        let made = match held.take() {
            Some(made) => Ok(made),
            None => tempfile::tempfile_in(&self.folder).map(|file| (file, 0)),
        };
        let done = made.and_then(|made| {
            let (file, end) = held.insert(made);
            work(file, end)
        });
        done.map_err(|error| self.trouble.get_or_init(|| Arc::new(error))).ok()
    }
}

impl SpillStore for SpillFile {
    fn put(&self, text: &[u8]) -> Option<u64> {
        self.with(|file, end| {
            let place = *end;
            file.seek(SeekFrom::Start(place))?;
            file.write_all(text)?;
            *end += text.len() as u64;
            Ok(place)
        })
    }

    fn fetch(&self, place: u64, length: usize) -> Option<Vec<u8>> {
        self.with(|file, _| {
            let mut bytes = vec![0; length];
            file.seek(SeekFrom::Start(place))?;
            file.read_exact(&mut bytes)?;
            Ok(bytes)
        })
    }

    fn report_corruption(&self, place: u64) {
        let what = format!("the spill file is corrupt at byte {place}");
        let error = io::Error::new(io::ErrorKind::InvalidData, what);
        self.trouble.get_or_init(|| Arc::new(error));
    }
}

/// Text that is written once and read once: in memory if it is short, else in an unnamed file.
pub(crate) struct ScratchText {
    /// Where a file may be made; without one, all of it stays in memory.
    folder: Option<PathBuf>,
    file: Option<File>,
    /// The bytes that are not in the file.
    held: Vec<u8>,
    /// How many bytes are in the file.
    filed: u64,
    trouble: Option<Arc<io::Error>>,
}

/// How many bytes of a scratch text are held in memory.
const HELD: usize = 1 << 20;

impl ScratchText {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, file: None, held: Vec::new(), filed: 0, trouble: None }
    }

    /// Writes the text with `write`; if that fails, so does every reader.
    pub(crate) fn written_by(mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> Self {
        self.trouble = write(&mut self).err().map(Arc::new);
        self
    }

    /// Fails if the text was not written.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.trouble.as_ref().map_or(Ok(()), |error| Err(self.failed(error.clone())))
    }

    pub(crate) fn len(&self) -> u64 {
        self.filed + self.held.len() as u64
    }

    /// Returns up to `length` bytes at `place`, at least one before the end.
    pub(crate) fn read(&self, place: u64, length: usize) -> Result<Vec<u8>, EngineError> {
        let Some(file) = self.file.as_ref().filter(|_| place < self.filed) else {
            let start = usize::try_from(place - self.filed).unwrap_or(usize::MAX);
            let rest = self.held.get(start..).unwrap_or_default();
            return Ok(rest[..rest.len().min(length)].to_vec());
        };
        let count = (self.filed - place).min(length as u64);
        let mut bytes = vec![0; usize::try_from(count).unwrap_or_default()];
        let mut reader = file;
        let read = reader.seek(SeekFrom::Start(place)).and_then(|_| reader.read_exact(&mut bytes));
        read.map(|()| bytes).map_err(|error| self.failed(Arc::new(error)))
    }

    pub(crate) fn failed(&self, source: Arc<io::Error>) -> EngineError {
        EngineError::Spill { folder: self.folder.clone().unwrap_or_default(), source }
    }
}

impl Write for ScratchText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= HELD
            && let Some(folder) = &self.folder
        {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(tempfile::tempfile_in(folder)?),
            };
            file.write_all(&self.held)?;
            self.filed += self.held.len() as u64;
            self.held.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_text_comes_back_from_memory_and_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        for (folder, length) in [
            (None, 3 * HELD + 7),
            (Some(folder.path().to_owned()), 10),
            (Some(folder.path().to_owned()), 3 * HELD + 7),
        ] {
            let bytes: Vec<u8> = (0..length).map(|it| (it % 251) as u8).collect();
            let text = ScratchText::new(folder.clone())
                .written_by(|text| bytes.chunks(100_003).try_for_each(|part| text.write_all(part)));
            text.check().unwrap();
            assert!(folder.is_none() || text.held.len() < HELD);
            let (mut read, mut place) = (Vec::new(), 0);
            while place < text.len() {
                read.extend(text.read(place, 60_001).unwrap());
                place = read.len() as u64;
            }
            assert!(read == bytes);
        }
        let nowhere = ScratchText::new(Some(folder.path().join("missing")));
        let text = nowhere.written_by(|text| text.write_all(&vec![0; 2 * HELD]));
        assert!(matches!(text.check(), Err(EngineError::Spill { .. })));
    }
}
