//! Compressed rollouts, read through a temporary copy.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::EngineError;
use crate::found_session::LostContent;
use crate::packed::PlainReader;

/// The most bytes that a rollout may have once it is decompressed: a small file can claim any size.
const LARGEST: u64 = 4 << 30;

/// The temporary copies of a session's compressed files, which are removed with it.
#[derive(Debug, Default)]
pub(super) struct PlainCopies(BTreeMap<PathBuf, PlainCopy>);

#[derive(Debug)]
struct PlainCopy {
    file: NamedTempFile,
    /// Why the rest of the compressed file is lost.
    loss: Option<String>,
}

impl PlainCopies {
    /// Returns the path of a file's decompressed copy. A compressed file is complete, so it is
    /// decompressed once. Of a corrupt one, the copy has what precedes the corruption.
    pub(super) fn path(&mut self, compressed: &Path) -> Result<PathBuf, EngineError> {
        if let Some(copy) = self.0.get(compressed) {
            return Ok(copy.file.path().to_owned());
        }
        let unreadable = |source| EngineError::File { path: compressed.to_owned(), source };
        let copy = decompress(compressed).map_err(unreadable)?;
        let path = copy.file.path().to_owned();
        self.0.insert(compressed.to_owned(), copy);
        Ok(path)
    }

    /// Returns what of the files that were decompressed is lost.
    pub(super) fn losses(&self) -> Vec<LostContent> {
        let lost = |(path, copy): (&PathBuf, &PlainCopy)| {
            let reason = copy.loss.clone()?;
            Some(LostContent { place: path.display().to_string(), reason })
        };
        self.0.iter().filter_map(lost).collect()
    }
}

fn decompress(path: &Path) -> io::Result<PlainCopy> {
    let mut file = NamedTempFile::new()?;
    let plain = PlainReader::new(File::open(path)?);
    let state = plain.state();
    if io::copy(&mut plain.take(LARGEST), &mut file)? == LARGEST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is too large once decompressed",
        ));
    }
    Ok(PlainCopy { file, loss: state.loss() })
}
