//! The outline of a snapshot: where the text of each block is, and the little that is needed before
//! anybody looks at the block.
//!
//! A state that is restored from it has its blocks in the snapshot's text, as if they had been
//! spilled there, so opening a session does not read what nobody looks at.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use imbl::Vector;
use serde::{Deserialize, Serialize};

use super::super::block_index::{BlockIndex, MOST_LABELS, RestoredBlocks, hash_of_id};
use super::super::conversation::Conversation;
use super::super::entry::{Entry, Residence};
use super::super::order::{Label, MOST_RESTORED, restored_label};
use super::super::sequence::{PageSource, Sequence};
use super::super::spill::{BlockHashes, BlockText, SpillStore, SpilledConversation};
use super::super::stored_index::{StoredIndex, index_size, write_index};
use super::super::{ConversationState, SettledState, Slot};
use super::parts::{Item, items};
use super::restore::{bring_in, restore};
use super::row_pages::{OutlineRow, RowPages, rows_size};
use super::{
    BlockFacts, ConversationFacts, SnapshotError, SubagentFacts, VERSION, conversation_facts,
    subagent_facts,
};
use crate::id::ToolUseId;

/// The outline of a state's snapshot, beside the rows, the hashes and the index of its blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOutline {
    version: u32,
    main: ConversationFacts<BlockTexts>,
    subagents: Vec<SubagentFacts<BlockTexts>>,
    /// The calls in subagents' conversations, which are otherwise found in the blocks.
    callers: Vec<(ToolUseId, Vec<Slot>)>,
}

/// The texts of a conversation's blocks: one after another, with a comma between them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockTexts {
    count: usize,
    /// The blocks that are read when the state is restored, by position: they may change soon, or
    /// show more than their texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    eager: Vec<usize>,
    /// The blocks that the index has no room for, by position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beyond_index: Vec<usize>,
}

/// Where the parts of an outline are written to.
pub struct OutlineWriters<'a> {
    /// The rows: where the text of each block is, and its flags.
    pub rows: &'a mut dyn Write,
    /// The hashes of the blocks.
    pub hashes: &'a mut dyn Write,
    /// The index by which a block is found by its id.
    pub index: &'a mut dyn Write,
}

/// Where the parts of an outline are in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlinePlaces {
    /// Where the JSON of the state's snapshot begins.
    pub state: u64,
    /// The rows.
    pub rows: Range<u64>,
    /// The hashes.
    pub hashes: Range<u64>,
    /// The index.
    pub index: Range<u64>,
}

/// How many subagents an outline has at most: each is in memory while it is written.
const MOST_SUBAGENTS: usize = 4096;

impl ConversationState {
    /// Returns whether the state's snapshot has an outline.
    pub fn has_outline(&self) -> bool {
        self.settled.subagents.len() <= MOST_SUBAGENTS
    }

    /// Returns the outline of the state's snapshot, and writes the rows, the hashes and the index of
    /// its blocks; nothing if there are so many subagents that the outline would be as large as the
    /// snapshot.
    ///
    /// Places are counted from the beginning of the text of
    /// [`snapshot_parts`](Self::snapshot_parts).
    pub fn write_outline(&self, out: OutlineWriters<'_>) -> io::Result<Option<StateOutline>> {
        if !self.has_outline() {
            return Ok(None);
        }
        let settled = self.without_open_texts().settled;
        let mut slots = (0..settled.subagents.len()).map(Slot::Subagent);
        let mut slots = std::iter::once(Slot::Main).chain(&mut slots);
        let (mut place, mut texts) = (0, Vec::with_capacity(1 + settled.subagents.len()));
        let mut shown = BlockHashes::default();
        let mut current: Option<OutlinedConversation<'_>> = None;
        for item in items(&settled) {
            match item {
                Item::Text(text) => place += text.len() as u64,
                Item::Blocks => {
                    if let Some(done) = current.take() {
                        texts.push(done.finish(out.index)?);
                    }
                    let slot = slots.next().expect("there is a slot for each conversation");
                    current = Some(OutlinedConversation::new(settled.conversation(slot)));
                }
                Item::Block(entry, is_first) => {
                    place += u64::from(!is_first);
                    let conversation = current.as_mut().expect("blocks are in a conversation");
                    let (position, row) = conversation.row_of(&entry)?;
                    row.write(position, place, out.rows)?;
                    out.hashes.write_all(&shown.of(&entry))?;
                    place += u64::from(row.length);
                }
            }
        }
        if let Some(done) = current {
            texts.push(done.finish(out.index)?);
        }
        Ok(Some(outline(&settled, texts)))
    }

    /// Restores a state from the outline of a snapshot, whose parts are in `text`. It reads the
    /// blocks that may change soon; all others when they are looked at, with their part of the
    /// outline.
    ///
    /// If the text fails later, the state is invalid: its owner must check it.
    pub fn restore_outline(
        outline: &StateOutline,
        text: &Arc<dyn SpillStore>,
        places: &OutlinePlaces,
    ) -> Result<Self, SnapshotError> {
        let mut rest = places.clone();
        let StateOutline { version, main, subagents, callers } = outline;
        let mut state = restore(*version, main, subagents, |settled, slot, facts| {
            let BlockTexts { count, eager, beyond_index } = &facts.blocks;
            let count = *count;
            if count > MOST_RESTORED {
                return Err(corrupt("too many blocks"));
            }
            let conversation = settled.conversation_mut(slot);
            conversation.fresh = Some(Vector::new());
            let name = conversation.name.clone();
            let rows_at = take(&mut rest.rows, rows_size(count), "a row")?;
            let hashes_at = take(&mut rest.hashes, HASH_SIZE * count as u64, "a hash")?;
            let index_at = take(&mut rest.index, index_size(count), "an index")?;
            if count == 0 {
                return Ok(());
            }
            let shared = SpilledConversation::restored(text.clone(), name, hashes_at, count);
            let rows = Arc::new(RowPages {
                shared: Arc::new(shared),
                rows_at,
                state_at: places.state,
                count,
                latest: Mutex::default(),
            });
            let index = StoredIndex::new(text.clone(), index_at, count);
            let source: Arc<dyn PageSource<Entry>> = rows.clone();
            conversation.index = BlockIndex::of_restored(RestoredBlocks { index, rows });
            conversation.entries = Sequence::stored(&source);
            conversation.newest = restored_label(count - 1);
            for &position in beyond_index {
                let (label, block) = read_at(conversation, position)?;
                conversation.index.insert_exception(block.id, label);
            }
            for &position in eager {
                let (_, block) = read_at(settled.conversation(slot), position)?;
                bring_in(settled, slot, position, block);
            }
            Ok(())
        })?;
        if !(rest.rows.is_empty() && rest.hashes.is_empty() && rest.index.is_empty()) {
            return Err(corrupt("there is more in it than blocks"));
        }
        let pairs = |(call, slots): &(ToolUseId, Vec<Slot>)| {
            slots.iter().map(|&slot| (call.clone(), slot)).collect::<Vec<_>>()
        };
        state.settled_mut().callers = callers.iter().flat_map(pairs).collect();
        Ok(state)
    }
}

/// Reads the block at `position` of a restored conversation.
fn read_at(
    conversation: &Conversation,
    position: usize,
) -> Result<(Label, BlockFacts), SnapshotError> {
    let missing = || corrupt("a block is missing");
    let entry = conversation.entries.get(position).ok_or_else(missing)?;
    let spilled = entry.spilled().ok_or_else(|| corrupt("a block is named twice"))?;
    Ok((entry.label, spilled.try_read().ok_or_else(missing)?))
}

/// Takes the first bytes of a range, and returns where they begin.
fn take(range: &mut Range<u64>, length: u64, what: &str) -> Result<u64, SnapshotError> {
    let start = range.start;
    let end = start.checked_add(length).filter(|end| *end <= range.end);
    range.start = end.ok_or_else(|| corrupt(&format!("{what} is missing")))?;
    Ok(start)
}

/// How many bytes the hash of a block has.
const HASH_SIZE: u64 = 32;

fn corrupt(reason: &str) -> SnapshotError {
    SnapshotError::Unreadable { reason: reason.to_owned() }
}

/// Returns the outline of a state whose blocks have these texts, conversation by conversation.
fn outline(settled: &SettledState, texts: Vec<BlockTexts>) -> StateOutline {
    let mut texts = texts.into_iter();
    let main = conversation_facts(&settled.main, texts.next().unwrap_or_default());
    let subagents = settled.subagents.iter().zip(texts);
    let subagents = subagents.map(|(it, texts)| subagent_facts(&it, texts));
    StateOutline {
        version: VERSION,
        main,
        subagents: subagents.collect(),
        callers: settled.callers_by_call(),
    }
}

/// A conversation whose blocks are outlined, in order.
struct OutlinedConversation<'a> {
    conversation: &'a Conversation,
    texts: BlockTexts,
    /// The positions of blocks that are open or show subagents: the sets of these are restored from
    /// the blocks themselves.
    eager: BTreeSet<usize>,
    /// The hashes of ids, in order.
    id_hashes: Vec<u64>,
    /// The hashes of ids in memory, by label, and how many of them are used.
    by_label: Vec<(Label, u64)>,
    used: usize,
    /// The rows of a restored conversation that were read last.
    held: Option<(usize, Vec<OutlineRow>)>,
}

impl<'a> OutlinedConversation<'a> {
    fn new(conversation: &'a Conversation) -> Self {
        let edges = conversation.edges.iter().map(|(_, id)| id);
        let eager = conversation.open.iter().chain(edges);
        let eager = eager.filter_map(|id| conversation.find(id)).collect();
        let by_label = conversation.index.by_label();
        let (texts, id_hashes, used, held) = Default::default();
        Self { conversation, texts, eager, id_hashes, by_label, used, held }
    }

    /// Writes the index, and returns what the outline has of the conversation.
    fn finish(mut self, index: &mut dyn Write) -> io::Result<BlockTexts> {
        self.texts.beyond_index = write_index(&self.id_hashes, MOST_LABELS, index)?;
        Ok(self.texts)
    }

    /// Returns the position and the row of the next block.
    fn row_of(&mut self, entry: &Entry) -> io::Result<(usize, OutlineRow)> {
        let row = match &entry.residence {
            Residence::InMemory(block) => {
                let mut counter = ByteCounter(0);
                let text = BlockText { id: &block.id, facts: &block.facts };
                serde_json::to_writer(&mut counter, &text)?;
                let length = u32::try_from(counter.0).map_err(io::Error::other)?;
                block.outline_row(length, &self.conversation.name)
            }
            Residence::Spilled(spilled) => {
                let hash = self.hash_at(entry.label);
                spilled.outline_row(hash.unwrap_or_else(|| hash_of_id(&entry.id())))
            }
        };
        let position = self.texts.count;
        self.texts.count += 1;
        self.id_hashes.push(row.id_hash);
        if row.is_eager || self.eager.contains(&position) {
            self.texts.eager.push(position);
        }
        Ok((position, row))
    }

    /// Returns the hash of the id of the block with this label; nothing if the index has none or
    /// several, because other states share it.
    fn hash_at(&mut self, label: Label) -> Option<u64> {
        let rest = &self.by_label[self.used..];
        let before = rest.partition_point(|it| it.0 < label);
        self.used += before;
        let restored = self.conversation.index.restored_rows().filter(|it| it.has_label(label));
        match (&self.by_label[self.used..], restored) {
            ([(first, hash), rest @ ..], None) if *first == label => {
                rest.first().is_none_or(|next| next.0 != label).then_some(*hash)
            }
            // Whatever was put there later is in memory.
            ([(first, _), ..], Some(_)) if *first == label => None,
            (_, Some(rows)) => rows.id_hash(label, &mut self.held),
            (_, None) => None,
        }
    }
}

/// Counts the bytes that are written to it.
struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
