//! Remembers a stretch of blocks that all left the active path.
//!
//! Every rewind marks all blocks after its head. Most of them are marked already when many prompts
//! continue the same block, and to look at each again would cost the square of their number.

use std::ops::Range;
use std::sync::Arc;

use crate::event::Rank;
use crate::id::BlockId;

use super::conversation::Conversation;
use super::entry::{Entry, RANKS};

/// The first and the last block of a stretch.
pub(super) type Stretch = (BlockId, BlockId);

impl Conversation {
    /// Returns positions at which every block that a source of this rank reported is inactive.
    pub(crate) fn left_path(&self, rank: Rank) -> Option<Range<usize>> {
        let (first, last) = self.rare.left[rank as usize].as_ref()?;
        Some(self.position(first)?..self.position(last)? + 1)
    }

    /// Notes that every block from `start` on left the active path.
    pub(crate) fn note_left_path(&mut self, rank: Rank, start: usize) {
        self.set_left_path(rank, start..self.len());
    }

    fn set_left_path(&mut self, rank: Rank, range: Range<usize>) {
        let stretch = (!range.is_empty()).then(|| {
            let id = |at: usize| self.entries[at].id().into_owned();
            (id(range.start), id(range.end - 1))
        });
        Arc::make_mut(&mut self.rare).left[rank as usize] = stretch;
    }

    /// Shortens the stretches that contain a block that is on the active path now.
    pub(super) fn keep_left_path(&mut self, position: usize, entry: &Entry) {
        for rank in RANKS {
            if self.rare.left[rank as usize].is_some()
                && entry.is_known(rank)
                && !entry.is_inactive(rank)
                && let Some(range) = self.left_path(rank)
                && range.contains(&position)
            {
                self.set_left_path(rank, position + 1..range.end);
            }
        }
    }

    /// Shortens the stretches in which a block is about to be inserted.
    pub(super) fn split_left_path(&mut self, position: usize) {
        // A block at the end is in no stretch.
        if position == self.len() {
            return;
        }
        for rank in RANKS {
            if let Some(range) = self.left_path(rank)
                && range.start < position
                && position < range.end
            {
                self.set_left_path(rank, position..range.end);
            }
        }
    }

    /// Shortens the stretches that begin or end with a block that is about to be taken out.
    pub(super) fn trim_left_path(&mut self, position: usize) {
        for rank in RANKS {
            let Some(Range { start, end }) = self.left_path(rank) else { continue };
            if start == position {
                self.set_left_path(rank, start + 1..end);
            } else if end == position + 1 {
                self.set_left_path(rank, start..position);
            }
        }
    }
}
