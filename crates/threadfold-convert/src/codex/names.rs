//! Names for what `codex exec` reports: it names nothing that a file names.
//!
//! What both have in common is the content: the text, the command, the arguments. A block of the
//! stream is the n-th with its content, and gets the name of the n-th with that content in the
//! files. Read before them, it has a name of its own, which the files' record replaces.

use std::sync::Arc;

use threadfold_core::BlockId;

use super::memory::Names;

/// Returns the key of a content, without its number.
fn key_of(kind: &str, content: &str) -> String {
    let hash =
        content.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B)
        });
    format!("exec:{kind}:{hash:032x}")
}

impl Names {
    /// Notes that a file has a block with this content under this name. Returns the name that the
    /// stream gave it, if the stream came first.
    pub(super) fn store(&mut self, kind: &str, content: &str, name: &str) -> Option<BlockId> {
        if !self.is_needed {
            return None;
        }
        self.note_place(name);
        let key = key_of(kind, content);
        let count = self.stored_counts.entry(key.as_str().into()).or_default();
        *count += 1;
        let key: Arc<str> = format!("{key}:{count}").into();
        self.stored.insert(key.clone(), name.into());
        let is_streamed = self.streamed.remove(&key);
        if is_streamed {
            self.renamed.insert(name.into(), key.clone());
            self.renamings.push((key.clone(), name.into()));
        }
        is_streamed.then(|| BlockId::from(&*key))
    }

    /// Notes the position of a block in the files.
    pub(super) fn note_place(&mut self, name: &str) {
        if self.is_needed && !self.places.contains_key(name) {
            let place = self.places.len() as u32;
            self.places.insert(name.into(), place);
        }
    }

    /// Forgets the last block with this content, because it never ran and no stream reports it.
    pub(super) fn forget(&mut self, kind: &str, content: &str, name: &str) {
        let key = key_of(kind, content);
        if let Some(count) = self.stored_counts.get_mut(key.as_str()) {
            let numbered = format!("{key}:{count}");
            if self.stored.get(numbered.as_str()).is_some_and(|it| **it == *name) {
                self.stored.remove(numbered.as_str());
                *count -= 1;
            }
        }
    }

    /// Returns the key of the stream's next block with this content.
    pub(super) fn next_key(&mut self, kind: &str, content: &str) -> Arc<str> {
        let key = key_of(kind, content);
        let count = self.streamed_counts.entry(key.as_str().into()).or_default();
        *count += 1;
        let key: Arc<str> = format!("{key}:{count}").into();
        if !self.stored.contains_key(&key) {
            self.streamed.insert(key.clone());
        }
        key
    }

    /// Returns the name of a block of the stream: the files' name, or its key.
    pub(super) fn resolve(&self, key: &Arc<str>) -> Arc<str> {
        self.stored.get(key).unwrap_or(key).clone()
    }

    /// Returns the block of the stream that precedes this one in the files; nothing if it is at the
    /// end, or the files do not have it.
    pub(super) fn place(&mut self, name: &str) -> Option<Option<BlockId>> {
        let place = *self.places.get(name)?;
        let is_last = self.placed.range(place..).next().is_none();
        let before = self.placed.range(..place).next_back().map(|(_, block)| block.clone());
        self.placed.insert(place, BlockId::from(name));
        (!is_last).then_some(before)
    }
}
