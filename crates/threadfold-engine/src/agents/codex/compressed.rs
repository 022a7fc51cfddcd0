//! Compressed rollouts, read through a temporary copy.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::EngineError;

/// The most bytes that a rollout may have once it is decompressed: a small file can claim any size.
const LARGEST: u64 = 4 << 30;

/// The temporary copies of a session's compressed files, which are removed with it.
#[derive(Debug, Default)]
pub(super) struct PlainCopies(BTreeMap<PathBuf, NamedTempFile>);

impl PlainCopies {
    /// Returns the path of a file's decompressed copy. A compressed file is complete, so it is
    /// decompressed once.
    pub(super) fn path(&mut self, compressed: &Path) -> Result<PathBuf, EngineError> {
        if let Some(copy) = self.0.get(compressed) {
            return Ok(copy.path().to_owned());
        }
        let unreadable = |source| EngineError::File { path: compressed.to_owned(), source };
        let copy = decompress(compressed).map_err(unreadable)?;
        let path = copy.path().to_owned();
        self.0.insert(compressed.to_owned(), copy);
        Ok(path)
    }
}

fn decompress(path: &Path) -> io::Result<NamedTempFile> {
    let mut copy = NamedTempFile::new()?;
    let mut plain = zstd::stream::read::Decoder::new(File::open(path)?)?.take(LARGEST);
    if io::copy(&mut plain, &mut copy)? == LARGEST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is too large once decompressed",
        ));
    }
    Ok(copy)
}
