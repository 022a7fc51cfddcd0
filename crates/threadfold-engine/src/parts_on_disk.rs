//! The parts of a loaded session that are not in memory.

use std::sync::Arc;

use crate::error::EngineError;
use crate::spill_file::SpillFile;
use crate::stored_text::StoredText;

/// The parts of a loaded session that are read when they are looked at.
///
/// A reader of a state cannot handle an error, so whoever has read one checks here whether all of
/// it was there.
#[derive(Clone, Default)]
pub struct PartsOnDisk {
    /// The file that the fold spills to.
    pub(crate) file: Option<Arc<SpillFile>>,
    /// The snapshot that it was restored from.
    pub(crate) text: Option<Arc<StoredText>>,
}

impl PartsOnDisk {
    /// Fails if a part could not be written or read: the conversation may be corrupt then, but the
    /// stored records are intact.
    pub fn check(&self) -> Result<(), EngineError> {
        self.file.as_ref().map_or(Ok(()), |it| it.check())?;
        self.text.as_ref().map_or(Ok(()), |it| it.check())
    }
}
