//! Spills closed blocks and quiet subagents out of memory.
//!
//! A closed block of a long conversation is rarely read again. Its facts can be spilled as the JSON
//! that a snapshot contains; the entry keeps the location and a few flags that are read often. A
//! state with spilled blocks is equal to one without.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;

use crate::block::{Block, BlockBody};
use crate::event::Rank;
use crate::hash::block_hash;
use crate::id::{BlockId, ConversationId, ToolUseId};
use crate::work::visit;

use super::block_index::hash_of_id;
use super::conversation::Conversation;
use super::entry::{Entry, Facts, RANKS, Residence, ResidentBlock};
use super::snapshot::{BlockFacts, OutlineRow};
use super::subagents::MOST_RESIDENT;
use super::{ConversationState, Slot};

/// How much text is collected before it is written to the store.
const BATCH: usize = 1 << 20;
/// How many bytes the length of a text has.
const LENGTH: usize = 4;
/// How many open blocks of a conversation stay in memory.
const MOST_OPEN: usize = 256;

/// Stores spilled text outside of memory, for a state that became large.
///
/// Methods return `None` instead of an error, because a reader of a state has no way to handle one:
/// the owner of the store must check whether it failed. A block that cannot be read back is shown
/// as empty, so a state is invalid once its store has failed.
pub trait SpillStore: Send + Sync {
    /// Appends text and returns the offset at which it begins; `None` on failure.
    fn put(&self, text: &[u8]) -> Option<u64>;

    /// Returns `length` bytes at `place`; `None` on failure.
    fn fetch(&self, place: u64, length: usize) -> Option<Vec<u8>>;

    /// Reports that the text at `place` is corrupt, which counts as a failure of the store.
    fn report_corruption(&self, place: u64);
}

/// What the spilled blocks of a conversation share.
pub(crate) struct SpilledConversation {
    store: Arc<dyn SpillStore>,
    name: ConversationId,
    hashes: Mutex<SpilledHashes>,
}

/// The hashes of spilled blocks, in the order of spilling.
///
/// They are spilled in pages, apart from the blocks, so that the texts of blocks stay adjacent.
#[derive(Default)]
struct SpilledHashes {
    /// The offsets of the pages that are spilled.
    pages: Vec<u64>,
    /// The last page of a restored state, which is not full and not read yet: its offset, and its
    /// number of hashes.
    unread: Option<(u64, usize)>,
    /// The hashes after them.
    rest: Vec<u8>,
}

const HASH: usize = 32;
/// How many hashes a page has.
const PAGE: usize = 4096;

impl SpilledConversation {
    pub(super) fn new(store: Arc<dyn SpillStore>, name: ConversationId) -> Self {
        Self { store, name, hashes: Mutex::default() }
    }

    /// Returns what the blocks of a restored state share, whose `count` hashes begin at `place`.
    pub(super) fn restored(
        store: Arc<dyn SpillStore>,
        name: ConversationId,
        place: u64,
        count: usize,
    ) -> Self {
        let page_at = |page: usize| place + (page * PAGE * HASH) as u64;
        let (full, more) = (count / PAGE, count % PAGE);
        let unread = (more > 0).then(|| (page_at(full), more));
        let pages = (0..full).map(page_at).collect();
        let hashes = Mutex::new(SpilledHashes { pages, unread, rest: Vec::new() });
        Self { store, name, hashes }
    }

    pub(super) fn store(&self) -> &Arc<dyn SpillStore> {
        &self.store
    }

    fn is_of(&self, store: &Arc<dyn SpillStore>, name: &ConversationId) -> bool {
        Arc::ptr_eq(&self.store, store) && self.name == *name
    }

    fn hashes(&self) -> MutexGuard<'_, SpilledHashes> {
        // A page is complete after every change, so a panic elsewhere cannot leave half of one.
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a hash, and returns its number.
    fn add_hash(&self, hash: &[u8; HASH]) -> u32 {
        let mut hashes = self.hashes();
        if let Some((place, count)) = hashes.unread.take() {
            hashes.rest = self.store.fetch(place, count * HASH).unwrap_or_default();
        }
        // If a page cannot be spilled, it stays in memory with all after it.
        if hashes.rest.len() == PAGE * HASH
            && let Some(place) = self.store.put(&hashes.rest)
        {
            hashes.pages.push(place);
            hashes.rest.clear();
        }
        hashes.rest.extend_from_slice(hash);
        (hashes.pages.len() * PAGE + hashes.rest.len() / HASH - 1) as u32
    }

    /// Returns the hashes from the start of a page.
    fn page(&self, page: usize) -> Vec<u8> {
        let hashes = self.hashes();
        let read = |place, count: usize| self.store.fetch(place, count * HASH).unwrap_or_default();
        match (hashes.pages.get(page), hashes.unread) {
            (Some(place), _) => read(*place, PAGE),
            (None, Some((place, count))) => read(place, count),
            (None, None) => hashes.rest.clone(),
        }
    }
}

/// What remains in memory of a spilled block. Its id and its hash are spilled as well.
#[derive(Clone)]
pub(crate) struct SpilledBlock {
    shared: Arc<SpilledConversation>,
    /// The offset of its text, in two parts: together with the flags they fill 24 bytes.
    place_low: u32,
    length: u32,
    /// The number of its hash.
    hash: u32,
    place_high: u8,
    /// Two bits for each rank: the rank knows it, and it left the rank's active path.
    marks: u8,
    /// The index of its type in [`BlockBody::KINDS`].
    kind: u8,
    flags: u8,
}

/// The type of the block is known.
const HAS_KIND: u8 = 1;
/// The block shows a subagent: what it shows follows its text, see [`PendingBatch::add`].
const HAS_SHOWN: u8 = 2;

impl SpilledBlock {
    /// Returns a block of a restored state, whose text begins at `place`; nothing if that is beyond
    /// the first terabyte.
    pub(super) fn restored(
        shared: Arc<SpilledConversation>,
        place: u64,
        row: &OutlineRow,
        hash: u32,
    ) -> Option<Self> {
        let OutlineRow { length, marks, kind, .. } = *row;
        let (place_low, place_high) = split_place(place)?;
        let (kind, flags) = (kind.unwrap_or_default(), kind.map_or(0, |_| HAS_KIND));
        Some(Self { shared, place_low, length, hash, place_high, marks, kind, flags })
    }

    /// Returns what an outline has of the block; `id_hash` is the hash of its id.
    pub(super) fn outline_row(&self, id_hash: u64) -> OutlineRow {
        let kind = self.has(HAS_KIND).then_some(self.kind);
        OutlineRow { length: self.length, id_hash, kind, marks: self.marks, is_eager: false }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn is_known(&self, rank: Rank) -> bool {
        self.marks & known_mark(rank) != 0
    }

    pub(super) fn is_inactive(&self, rank: Rank) -> bool {
        self.marks & inactive_mark(rank) != 0
    }

    /// Returns true if the block may have this type.
    pub(super) fn may_be(&self, kind: &str) -> bool {
        !self.has(HAS_KIND) || BlockBody::KINDS.get(usize::from(self.kind)) == Some(&kind)
    }

    /// Reads the block back; nothing if that fails.
    pub(super) fn try_read(&self) -> Option<BlockFacts> {
        visit();
        let text = self.shared.store.fetch(self.place(), self.length as usize)?;
        let read = serde_json::from_slice(&text).ok();
        if read.is_none() {
            self.shared.store.report_corruption(self.place());
        }
        read
    }

    /// Reads the block back; an empty one if that fails.
    pub(super) fn read(&self) -> BlockFacts {
        let lost = || BlockFacts { id: BlockId::from(""), facts: Facts::default() };
        self.try_read().unwrap_or_else(lost)
    }

    pub(super) fn id(&self) -> BlockId {
        self.read().id
    }

    /// Returns true if the block has this id, which its hash suggests, or cannot be read.
    pub(super) fn has_id(&self, id: &BlockId) -> bool {
        self.try_read().is_none_or(|it| it.id == *id)
    }

    /// Returns the call that spawned a subagent, if the block shows one.
    pub(super) fn call(&self) -> Option<ToolUseId> {
        self.has(HAS_SHOWN).then(|| self.read().facts.call).flatten()
    }

    pub(super) fn shown(&self) -> Arc<Block> {
        self.read_shown().unwrap_or_else(|| {
            let BlockFacts { id, facts } = self.read();
            facts.show_without_run(&id, &self.shared.name)
        })
    }

    /// Reads back what the block shows, if its facts do not tell, or if that fails.
    fn read_shown(&self) -> Option<Arc<Block>> {
        if !self.has(HAS_SHOWN) {
            return None;
        }
        let place = self.end() + 1;
        let length = self.shared.store.fetch(place, LENGTH)?;
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        let text = self.shared.store.fetch(place + LENGTH as u64, length)?;
        let Ok(mut shown) = serde_json::from_slice::<Block>(&text) else {
            self.shared.store.report_corruption(place);
            return None;
        };
        shown.conversation_id = self.shared.name.clone();
        Some(Arc::new(shown))
    }

    pub(super) fn store(&self) -> &Arc<dyn SpillStore> {
        &self.shared.store
    }

    /// Returns the offset at which the text begins.
    pub(super) fn place(&self) -> u64 {
        u64::from(self.place_high) << 32 | u64::from(self.place_low)
    }

    /// Returns the offset at which the text ends.
    pub(super) fn end(&self) -> u64 {
        self.place() + u64::from(self.length)
    }

    /// Returns true if its text directly follows another's in the same store, after one comma.
    pub(super) fn follows(&self, end: u64, store: &Arc<dyn SpillStore>) -> bool {
        self.place() == end + 1 && Arc::ptr_eq(&self.shared.store, store)
    }
}

/// Returns the low and the high part of an offset; nothing beyond the first terabyte.
pub(super) fn split_place(place: u64) -> Option<(u32, u8)> {
    Some((place as u32, u8::try_from(place >> 32).ok()?))
}

/// Returns the flags of a block: two bits for each rank.
fn marks_of(facts: &Facts) -> u8 {
    let marks = RANKS.into_iter().map(|rank| {
        let report = facts.report(rank);
        let known = if report.known { known_mark(rank) } else { 0 };
        known | if report.inactive { inactive_mark(rank) } else { 0 }
    });
    marks.fold(0, |all, it| all | it)
}

/// Returns the index of a block's type in [`BlockBody::KINDS`].
fn kind_of(shown: &Block) -> Option<u8> {
    let kind = BlockBody::KINDS.iter().position(|it| *it == shown.body.kind());
    kind.and_then(|it| u8::try_from(it).ok())
}

fn known_mark(rank: Rank) -> u8 {
    1 << (2 * rank as u8)
}

fn inactive_mark(rank: Rank) -> u8 {
    2 << (2 * rank as u8)
}

/// Reads the hashes of blocks in order: those of a page at once.
#[derive(Default)]
pub(crate) struct BlockHashes {
    page: Option<(Arc<SpilledConversation>, usize, Vec<u8>)>,
}

impl BlockHashes {
    /// Returns the hash of a block as it is shown.
    pub(crate) fn of(&mut self, entry: &Entry) -> [u8; 32] {
        let SpilledBlock { shared, hash, .. } = match &entry.residence {
            Residence::InMemory(block) => {
                return *block.hash.get_or_init(|| block_hash(&block.shown));
            }
            Residence::Spilled(spilled) => spilled,
        };
        let (page, index) = (*hash as usize / PAGE, *hash as usize % PAGE * HASH);
        let is_held = |held: &(Arc<SpilledConversation>, usize, Vec<u8>)| {
            Arc::ptr_eq(&held.0, shared) && held.1 == page && held.2.len() >= index + HASH
        };
        if !self.page.as_ref().is_some_and(is_held) {
            self.page = Some((shared.clone(), page, shared.page(page)));
        }
        let hash = self.page.as_ref().and_then(|(_, _, hashes)| hashes.get(index..index + HASH));
        // It can only be missing if the store has failed, and then the state is invalid.
        hash.and_then(|it| it.try_into().ok()).unwrap_or_default()
    }
}

/// A block in the form that a snapshot contains.
#[derive(Serialize)]
pub(super) struct BlockText<'a> {
    pub(super) id: &'a BlockId,
    pub(super) facts: &'a Facts,
}

impl Entry {
    /// Returns an entry without a position for a block that is not in memory.
    pub(super) fn of_spilled(spilled: SpilledBlock) -> Self {
        Self { label: 0, residence: Residence::Spilled(spilled) }
    }

    pub(super) fn spilled(&self) -> Option<&SpilledBlock> {
        match &self.residence {
            Residence::InMemory(_) => None,
            Residence::Spilled(spilled) => Some(spilled),
        }
    }

    /// Returns the block in memory, read back if it is spilled.
    pub(super) fn resident(&self) -> Arc<ResidentBlock> {
        match &self.residence {
            Residence::InMemory(block) => block.clone(),
            Residence::Spilled(spilled) => {
                let BlockFacts { id, facts } = spilled.read();
                let shown = spilled
                    .read_shown()
                    .unwrap_or_else(|| facts.show_without_run(&id, &spilled.shared.name));
                Arc::new(ResidentBlock { id, facts, shown, hash: OnceLock::new() })
            }
        }
    }

    /// Spills a block again that was spilled before it changed.
    pub(super) fn spill_again(self, shared: &Arc<SpilledConversation>) -> Entry {
        let mut batch = PendingBatch::default();
        batch.add(0, &self, shared);
        let label = self.label;
        match batch.write(shared).pop() {
            Some((_, spilled)) => Entry { label, residence: Residence::Spilled(spilled) },
            None => self,
        }
    }
}

impl ResidentBlock {
    /// Returns true if the block shows more than its facts alone do, as a subagent's does.
    fn shows_more(&self, conversation: &ConversationId) -> bool {
        if self.facts.call.is_some() {
            return true;
        }
        let again = self.facts.show_without_run(&self.id, conversation);
        !Arc::ptr_eq(&again, &self.shown) && again != self.shown
    }

    /// Returns what an outline has of the block, whose text has `length` bytes.
    pub(super) fn outline_row(&self, length: u32, conversation: &ConversationId) -> OutlineRow {
        OutlineRow {
            length,
            id_hash: hash_of_id(&self.id),
            kind: kind_of(&self.shown),
            marks: marks_of(&self.facts),
            is_eager: self.shown.status.is_open() || self.shows_more(conversation),
        }
    }
}

/// Blocks that are about to be spilled together.
#[derive(Default)]
struct PendingBatch {
    texts: Vec<u8>,
    blocks: Vec<PendingBlock>,
}

struct PendingBlock {
    /// Its position in the conversation.
    position: usize,
    offset: usize,
    length: u32,
    hash: u32,
    marks: u8,
    kind: Option<u8>,
    flags: u8,
}

/// Writes to a list that does not double when a large value is added to it.
struct Tight<'a>(&'a mut Vec<u8>);

/// A value with more bytes is large; so much room is left for what follows it.
const LARGE: usize = 64 << 10;

impl io::Write for Tight<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > LARGE {
            self.0.reserve_exact(bytes.len() + LARGE);
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PendingBatch {
    /// Adds a block, unless it must stay in memory: it grows, or it shows more than its facts. For
    /// one that shows a subagent, what it shows is added after its text, behind its length.
    fn add(&mut self, position: usize, entry: &Entry, shared: &SpilledConversation) {
        let Residence::InMemory(block) = &entry.residence else { return };
        let ResidentBlock { id, facts, shown, hash } = &**block;
        let shows_subagent = facts.call.is_some();
        // A text that grows would be written again and again.
        if shown.status.is_open() && !shows_subagent && !is_waiting_call(shown)
            || !shows_subagent && block.shows_more(&shared.name)
        {
            return;
        }
        // Computed before the facts leave memory, because hashing the state must not read every
        // spilled block, and before their text is there as well: a large block would be there twice.
        let hash = *hash.get_or_init(|| block_hash(shown));
        let offset = self.texts.len();
        let written = serde_json::to_writer(Tight(&mut self.texts), &BlockText { id, facts });
        let length = u32::try_from(self.texts.len() - offset).ok().filter(|_| written.is_ok());
        let Some(length) = length else {
            return self.texts.truncate(offset);
        };
        // With the separator of a JSON list, a run of spilled blocks can be copied into a snapshot
        // as is.
        self.texts.push(b',');
        if shows_subagent && !self.add_shown(shown) {
            return self.texts.truncate(offset);
        }
        let hash = shared.add_hash(&hash);
        let (marks, kind) = (marks_of(facts), kind_of(shown));
        let flags = kind.map_or(0, |_| HAS_KIND) | if shows_subagent { HAS_SHOWN } else { 0 };
        self.blocks.push(PendingBlock { position, offset, length, hash, marks, kind, flags });
    }

    /// Adds what a block shows, behind its length; false if it is too long.
    fn add_shown(&mut self, shown: &Block) -> bool {
        let start = self.texts.len();
        self.texts.extend([0; LENGTH]);
        let written = serde_json::to_writer(Tight(&mut self.texts), shown);
        let length = u32::try_from(self.texts.len() - start - LENGTH).ok();
        let Some(length) = length.filter(|_| written.is_ok()) else { return false };
        self.texts[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
        true
    }

    /// Writes the blocks, and returns them with their positions; none if the store fails.
    fn write(&mut self, shared: &Arc<SpilledConversation>) -> Vec<(usize, SpilledBlock)> {
        let Self { texts, blocks } = std::mem::take(self);
        if blocks.is_empty() {
            return Vec::new();
        }
        let Some(start) = shared.store.put(&texts) else { return Vec::new() };
        let spilled = |block: PendingBlock| {
            let PendingBlock { position, offset, length, hash, marks, kind, flags } = block;
            // A block beyond the first terabyte stays in memory.
            let (place_low, place_high) = split_place(start + offset as u64)?;
            let spilled = SpilledBlock {
                shared: shared.clone(),
                place_low,
                length,
                hash,
                place_high,
                marks,
                kind: kind.unwrap_or_default(),
                flags,
            };
            Some((position, spilled))
        };
        blocks.into_iter().filter_map(spilled).collect()
    }
}

/// Returns whether a block is a call that is complete except for its result.
fn is_waiting_call(block: &Block) -> bool {
    matches!(&block.body, BlockBody::ToolUse(call) if call.input.is_some())
}

impl Conversation {
    /// Returns the positions of the blocks that may be closed and in memory, in order.
    fn fresh_positions(&self) -> Vec<usize> {
        match &self.fresh {
            None => (0..self.len()).collect(),
            Some(fresh) => {
                let mut places: Vec<_> = fresh.iter().filter_map(|id| self.position(id)).collect();
                places.sort_unstable();
                places.dedup();
                places
            }
        }
    }

    /// Spills the closed blocks that are new since the last call.
    pub(super) fn spill(
        &mut self,
        store: &Arc<dyn SpillStore>,
        is_growing: impl Fn(&BlockId) -> bool,
    ) {
        let shared = match &self.spilled {
            Some(shared) if shared.is_of(store, &self.name) => shared.clone(),
            _ => Arc::new(SpilledConversation::new(store.clone(), self.name.clone())),
        };
        self.spilled = Some(shared.clone());
        let mut batch = PendingBatch::default();
        // A call without a result will change soon, unless there are more than any agent waits for.
        let keeps_open = self.open.len() <= MOST_OPEN;
        for position in self.fresh_positions() {
            let entry = &self.entries[position];
            let stays = keeps_open && entry.shown().status.is_open();
            if entry.spilled().is_none() && !stays && !is_growing(&entry.id()) {
                batch.add(position, entry, &shared);
            }
            if batch.texts.len() >= BATCH {
                self.write_batch(&shared, &mut batch);
            }
        }
        self.write_batch(&shared, &mut batch);
        // A block that stays in memory is marked fresh again when it closes.
        self.fresh = Some(imbl::Vector::new());
    }

    /// Returns what the spilled blocks share under its present name; nothing if none was spilled.
    pub(super) fn shared_spill(&mut self) -> Option<Arc<SpilledConversation>> {
        let shared = self.spilled.as_ref()?;
        if shared.name != self.name {
            let store = shared.store.clone();
            self.spilled = Some(Arc::new(SpilledConversation::new(store, self.name.clone())));
        }
        self.spilled.clone()
    }

    fn write_batch(&mut self, shared: &Arc<SpilledConversation>, batch: &mut PendingBatch) {
        for (position, spilled) in batch.write(shared) {
            let label = self.entries[position].label;
            self.entries.set(position, Entry { label, residence: Residence::Spilled(spilled) });
        }
    }

    fn has_fresh(&self) -> bool {
        self.fresh.as_ref().map_or(self.len() > 0, |fresh| !fresh.is_empty())
    }
}

impl ConversationState {
    /// Spills the closed blocks that are new since the last call, and subagents that are quiet.
    ///
    /// The state stays equal: it shows the same, has the same hash, and can be folded further. The
    /// cost is proportional to what is new. A spilled block is written again whenever it changes
    /// later, and so is a spilled subagent.
    pub fn spill(&mut self, store: &Arc<dyn SpillStore>) {
        self.spill_beyond(MOST_RESIDENT, store);
    }

    /// Spills if a step has changed very many subagents, so that not all of them are in memory.
    pub(crate) fn spill_if_crowded(&mut self) {
        if let Some(store) = self.settled.subagents.store_if_crowded() {
            self.spill(&store);
        }
    }

    /// Spills like [`spill`](Self::spill), and leaves about so many of the small subagents in memory.
    pub fn spill_beyond(&mut self, subagents: usize, store: &Arc<dyn SpillStore>) {
        let changed = self.settled.subagents.changed();
        let open = self.open.clone();
        if !self.settled.subagents.is_unchanged() {
            let is_growing = |index| open.first_of(Slot::Subagent(index)).is_some();
            self.settled_mut().subagents.spill(store, subagents, is_growing);
        }
        let in_memory = |index: &usize| self.settled.subagents.is_in_memory(*index);
        let changed: Vec<usize> = changed.into_iter().filter(in_memory).collect();
        for slot in std::iter::once(Slot::Main).chain(changed.into_iter().map(Slot::Subagent)) {
            visit();
            if self.settled.conversation(slot).has_fresh() {
                let is_growing =
                    |id: &BlockId| open.find(id, 0, |text| text.slot == slot).is_some();
                self.settled_mut().conversation_mut(slot).spill(store, is_growing);
            }
        }
        if !self.settled.subagents.is_unchanged() {
            self.settled_mut().subagents.note_spill();
        }
    }
}
