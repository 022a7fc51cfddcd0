//! The order of blocks: labels with gaps between them, and the position of a new block.
//!
//! Blocks are looked up by label, so inserting in the middle renumbers only the neighbours.

use crate::event::{Placement, Rank};
use crate::id::BlockId;
use crate::work::visit;

use super::conversation::Conversation;
use super::entry::Entry;

/// A number that increases along a conversation.
pub(crate) type Label = u64;

const FIRST: Label = 1 << 62;
const STEP: Label = 1 << 32;
/// How many labels the smallest range has that is renumbered at once, roughly.
const FEWEST: Label = 32;
/// A new label is placed at this fraction of its gap: near the left, because insertions usually
/// arrive in ascending order. The smaller the fraction, the more labels fit one after another.
const SHARE: Label = 1024;
const ROOM: Label = 1 << 12;

/// How many blocks of a restored conversation have a label of their own.
pub(super) const MOST_RESTORED: usize = 1 << 31;

/// Returns the label of the block at `position` of a restored conversation.
pub(super) fn restored_label(position: usize) -> Label {
    FIRST + STEP * position as Label
}

/// Returns the position that the block with this label had in a restored conversation, if it was in
/// one.
pub(super) fn restored_position(label: Label) -> Option<usize> {
    let distance = label.checked_sub(FIRST).filter(|it| it.is_multiple_of(STEP))?;
    usize::try_from(distance / STEP).ok()
}

impl Conversation {
    /// Returns a label for a block that is about to be inserted at `position`.
    pub(super) fn label_at(&mut self, position: usize) -> Label {
        if let Some(label) = self.free_label(position) {
            return label;
        }
        self.make_room(position);
        self.free_label(position).expect("room was made for it")
    }

    fn free_label(&self, position: usize) -> Option<Label> {
        let label = |at: usize| self.entries.get(at).map(|entry| entry.label);
        let left = position.checked_sub(1).and_then(label);
        let right = label(position);
        match (left, right) {
            (None, None) => Some(FIRST),
            (Some(left), None) => left.checked_add(STEP),
            (left, Some(right)) => {
                let left = left.unwrap_or(right.saturating_sub(2 * STEP));
                let gap = right - left;
                let share = (gap / SHARE).max(1);
                // Before the block that was inserted last, they arrive in descending order.
                let offset = if right == self.newest { gap - share } else { share };
                (gap > 1).then(|| left + offset)
            }
        }
    }

    /// Spreads the labels around `position` over the smallest range that has enough room.
    ///
    /// The more labels a range has, the further apart they must be afterwards. If the distance were
    /// the same for all ranges, a large one would be full again as soon as a small one, and every
    /// few blocks would renumber the whole conversation.
    ///
    /// Labels at the end advance by a few steps only: if they were spread up to the largest number,
    /// a few rounds would leave no room for the next block.
    fn make_room(&mut self, position: usize) {
        let mut reach = 16;
        loop {
            let start = position.saturating_sub(reach);
            let end = (position + reach).min(self.entries.len());
            let whole = start == 0 && end == self.entries.len();
            let count = (end - start + 2) as Label;
            let last = self.entries.back().map_or(FIRST, |entry| entry.label);
            let beyond = last.saturating_add(STEP.saturating_mul(count));
            let high = self.entries.get(end).map_or(beyond, |entry| entry.label);
            let low = start.checked_sub(1).map_or(0, |at| self.entries[at].label);
            let (low, step) = match whole {
                true => (FIRST, STEP.min((Label::MAX - FIRST) / (count + 1))),
                false => (low, (high - low) / count),
            };
            let is_roomy = step / count.div_ceil(FEWEST) >= ROOM;
            if is_roomy || whole {
                for (count, at) in (start..end).enumerate() {
                    visit();
                    let mut entry = self.entries[at].clone();
                    let id = entry.id().into_owned();
                    self.index.remove(&id, entry.label);
                    entry.label = low + step * (count as Label + 1);
                    self.index.insert(&id, entry.label);
                    self.entries.set(at, entry);
                }
                if whole || self.free_label(position).is_some() {
                    return;
                }
            }
            reach *= 4;
        }
    }

    /// Returns the position at which to insert a new block.
    ///
    /// Between two blocks that both sources know, blocks that only the transcript has precede
    /// blocks that only the stream has. Without that rule the order would depend on which source
    /// was read first.
    pub(crate) fn position_for_new(&self, rank: Rank, place: &Placement) -> usize {
        let start = match place {
            Placement::Unspecified => return self.entries.len(),
            Placement::First => 0,
            Placement::After(block) => match self.position(block) {
                Some(position) => position + 1,
                None => return self.entries.len(),
            },
        };
        match rank {
            Rank::Transcript => start,
            Rank::Stream => self.skip_unknown_to(rank, start),
        }
    }

    fn skip_unknown_to(&self, rank: Rank, start: usize) -> usize {
        // An index is used because skipping an iterator would walk all preceding entries.
        (start..self.entries.len())
            .inspect(|_| visit())
            .find(|&at| self.entries[at].is_known(rank))
            .unwrap_or(self.entries.len())
    }

    /// Returns true if the block at `position` follows `wanted`, ignoring blocks that a source of
    /// this rank does not know.
    fn follows(&self, rank: Rank, position: usize, wanted: Option<&BlockId>) -> bool {
        let before = (0..position)
            .rev()
            .inspect(|_| visit())
            .map(|at| &self.entries[at])
            .find(|entry| entry.is_known(rank) || wanted.is_some_and(|it| *entry.id() == *it));
        before.map(Entry::id).as_deref() == wanted
    }

    /// Moves blocks so that the one at `position`, just reported by `rank`, is where its source has
    /// it. Returns the ids of the blocks that moved, in the order they moved.
    pub(crate) fn move_into_place(
        &mut self,
        rank: Rank,
        position: usize,
        place: &Placement,
        occurrence: Occurrence,
    ) -> Vec<BlockId> {
        let wanted = match place {
            Placement::Unspecified => return Vec::new(),
            Placement::First => None,
            Placement::After(block) => match self.position(block) {
                Some(at) => Some(self.entries[at].id().into_owned()),
                None => return Vec::new(),
            },
        };
        let id = self.entries[position].id().into_owned();
        if wanted.as_ref() == Some(&id) || self.follows(rank, position, wanted.as_ref()) {
            return Vec::new();
        }
        if rank == Rank::Stream && self.entries[position].is_known(Rank::Transcript) {
            return match (occurrence, wanted) {
                (Occurrence::First, Some(before)) => {
                    self.move_stream_only_before(position, &before)
                }
                _ => Vec::new(),
            };
        }
        let entry = self.take_out(position);
        let start = match &wanted {
            None => 0,
            Some(block) => self.position(block).expect("it was found above") + 1,
        };
        let target = match (rank, &wanted) {
            (Rank::Transcript, None) => 0,
            _ => self.skip_unknown_to(rank, start),
        };
        self.put_in(target, entry);
        if target == position { Vec::new() } else { vec![id] }
    }

    /// Moves the blocks that only the stream has, up to `last`, before the block at `position`.
    ///
    /// The transcript had already shown that block. Now the stream has reached it, so everything
    /// that the stream reported earlier belongs before it.
    fn move_stream_only_before(&mut self, position: usize, last: &BlockId) -> Vec<BlockId> {
        let Some(end) = self.position(last).filter(|&end| end > position) else {
            return Vec::new();
        };
        let movable =
            |entry: &Entry| entry.is_known(Rank::Stream) && !entry.is_known(Rank::Transcript);
        if !movable(&self.entries[end]) {
            return Vec::new();
        }
        let mut moved = Vec::new();
        let mut target = position;
        for at in position + 1..=end {
            visit();
            if movable(&self.entries[at]) {
                let entry = self.take_out(at);
                moved.push(entry.id().into_owned());
                self.put_in(target, entry);
                target += 1;
            }
        }
        moved
    }
}

/// Whether a source reports a block for the first time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occurrence {
    First,
    Repeated,
}
