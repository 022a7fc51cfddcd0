//! Where a session goes that does not fit in memory: a file without a name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use threadfold_core::SpillStore;
use threadfold_store::BlobHash;

use crate::error::EngineError;

/// How much of a session is held in memory, and where the rest is spilled.
#[derive(Clone, Debug)]
pub struct Budget {
    /// How many bytes of records are folded before closed blocks are spilled.
    pub bytes: usize,
    /// The folder of the file that it is put into. The file has no name, and is gone with the
    /// session or with the process.
    pub folder: PathBuf,
}

/// A file without a name, which is made when something is put into it.
///
/// After a failure it takes nothing more, and whoever looks at what it held must ask
/// [`check`](Self::check).
pub(crate) struct SpillFile {
    folder: PathBuf,
    file: Mutex<Option<(File, u64)>>,
    trouble: OnceLock<Arc<io::Error>>,
    /// Stretches of the file that are pieces of a snapshot: where each ends, and its name.
    pieces: Mutex<BTreeMap<u64, (u64, BlobHash)>>,
}

impl SpillFile {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let (file, trouble, pieces) = Default::default();
        Self { folder, file, trouble, pieces }
    }

    /// Refuses to go on after a failure.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        match self.trouble.get() {
            None => Ok(()),
            Some(source) => {
                let (folder, source) = (self.folder.clone(), source.clone());
                Err(EngineError::Spill { folder, source })
            }
        }
    }

    /// Returns where the piece ends that begins at a place, and its name.
    pub(crate) fn piece_at(&self, place: u64) -> Option<(u64, BlobHash)> {
        self.pieces().get(&place).copied()
    }

    /// Remembers that a stretch of the file is a piece of a snapshot.
    pub(crate) fn note_piece(&self, place: u64, end: u64, name: BlobHash) {
        self.pieces().insert(place, (end, name));
    }

    /// Forgets all pieces: the store may have them no more.
    pub(crate) fn forget_pieces(&self) {
        self.pieces().clear();
    }

    fn pieces(&self) -> MutexGuard<'_, BTreeMap<u64, (u64, BlobHash)>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the file, and remembers how it failed.
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
        let what = format!("what stands at byte {place} is not what was put there");
        let error = io::Error::new(io::ErrorKind::InvalidData, what);
        self.trouble.get_or_init(|| Arc::new(error));
    }
}
