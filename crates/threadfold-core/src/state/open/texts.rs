//! The list of open texts.

use std::ops::Index;
use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::id::BlockId;
use crate::text::Buffer;

use super::{OPEN_LIMIT, OpenText, Slot};

/// The texts that are open, in the order in which they were opened.
///
/// Each is shared, because the list is copied whenever one is opened or closed while a reader holds
/// the old state.
#[derive(Clone, Default)]
pub(crate) struct OpenTexts {
    /// The end of each block's id. Most ids differ there, so few are compared as a whole.
    ends: ArrayVec<u64, OPEN_LIMIT>,
    texts: ArrayVec<Arc<OpenText>, OPEN_LIMIT>,
}

impl OpenTexts {
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenText> {
        self.texts.iter().map(|text| &**text)
    }

    /// Returns the index of the first text of a conversation.
    pub(crate) fn first_of(&self, slot: Slot) -> Option<usize> {
        self.texts.iter().position(|text| text.slot == slot)
    }

    /// Returns the first text.
    pub(crate) fn first(&self) -> Option<&OpenText> {
        self.texts.first().map(|text| &**text)
    }

    /// Returns the index of a text of this block that `is_it` accepts, from `start` on and then from
    /// the first.
    pub(crate) fn find(
        &self,
        block: &BlockId,
        start: usize,
        is_it: impl Fn(&OpenText) -> bool,
    ) -> Option<usize> {
        let wanted = end_of(block);
        let is_found = |&index: &usize| {
            let text = &self.texts[index];
            self.ends[index] == wanted && text.block == *block && is_it(text)
        };
        let start = start.min(self.len());
        (start..self.len()).chain(0..start).find(is_found)
    }

    pub(super) fn push(&mut self, text: OpenText) {
        self.ends.push(end_of(&text.block));
        self.texts.push(Arc::new(text));
    }

    pub(super) fn remove(&mut self, index: usize) -> Arc<OpenText> {
        self.ends.remove(index);
        self.texts.remove(index)
    }

    pub(crate) fn set_buffer(&mut self, index: usize, buffer: Buffer) {
        Arc::make_mut(&mut self.texts[index]).buffer = buffer;
    }
}

impl Index<usize> for OpenTexts {
    type Output = OpenText;

    fn index(&self, index: usize) -> &OpenText {
        &self.texts[index]
    }
}

/// Returns the last eight bytes of an id, or its length if it is shorter.
fn end_of(id: &BlockId) -> u64 {
    let bytes = id.as_str().as_bytes();
    bytes.last_chunk().map_or(bytes.len() as u64, |end| u64::from_le_bytes(*end))
}
