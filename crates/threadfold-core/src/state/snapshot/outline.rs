//! The outline of a snapshot: where the text of each block is, and the little that is needed before
//! anybody looks at the block.
//!
//! A state that is restored from it has its blocks in the snapshot's text, as if they had been
//! spilled there, so opening a session does not read what nobody looks at.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use super::super::block_index::hash_of_id;
use super::super::conversation::Conversation;
use super::super::entry::{Entry, Residence};
use super::super::order::Label;
use super::super::spill::{BlockHashes, BlockText, SpillStore, SpilledBlock, SpilledConversation};
use super::super::{ConversationState, SettledState, Slot};
use super::parts::{Item, items};
use super::restore::{insert, restore};
use super::{ConversationFacts, SnapshotError, SubagentFacts, VERSION, conversation_facts};
use crate::id::ToolUseId;

/// The outline of a state's snapshot, beside one row and one hash for each block.
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct BlockTexts {
    /// Where the first begins in the JSON of the state's snapshot.
    place: u64,
    count: usize,
}

/// What the outline has of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct OutlineRow {
    /// The length of its text.
    pub(in super::super) length: u32,
    /// The hash by which its id is found.
    pub(in super::super) id_hash: u64,
    /// The index of its type.
    pub(in super::super) kind: Option<u8>,
    /// Two bits for each rank.
    pub(in super::super) marks: u8,
    /// It is read when the state is restored: it may change soon, or shows more than its text.
    pub(in super::super) is_eager: bool,
}

/// How many subagents an outline has at most: each is in memory while it is written.
const MOST_SUBAGENTS: usize = 4096;
const EAGER: u8 = 0x80;
const NO_KIND: u8 = 0xff;

impl OutlineRow {
    /// How many bytes a row has.
    const SIZE: usize = 14;

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.id_hash.to_le_bytes());
        bytes[12] = self.kind.unwrap_or(NO_KIND);
        bytes[13] = self.marks | if self.is_eager { EAGER } else { 0 };
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let [a, b, c, d, hash @ .., kind, marks] = *bytes;
        Self {
            length: u32::from_le_bytes([a, b, c, d]),
            id_hash: u64::from_le_bytes(hash),
            kind: (kind != NO_KIND).then_some(kind),
            marks: marks & !EAGER,
            is_eager: marks & EAGER != 0,
        }
    }
}

impl ConversationState {
    /// Returns the outline of the state's snapshot, and writes the rows and the hashes of its
    /// blocks; nothing if there are so many subagents that the outline would be as large as the
    /// snapshot.
    ///
    /// Places are counted from the beginning of the text of
    /// [`snapshot_parts`](Self::snapshot_parts).
    pub fn write_outline(
        &self,
        rows: &mut dyn Write,
        hashes: &mut dyn Write,
    ) -> io::Result<Option<StateOutline>> {
        let settled = self.without_open_texts().settled;
        if settled.subagents.len() > MOST_SUBAGENTS {
            return Ok(None);
        }
        let mut slots = (0..settled.subagents.len()).map(Slot::Subagent);
        let mut slots = std::iter::once(Slot::Main).chain(&mut slots);
        let (mut place, mut texts) = (0, Vec::with_capacity(1 + settled.subagents.len()));
        let mut shown = BlockHashes::default();
        let mut current: Option<OutlinedConversation<'_>> = None;
        for item in items(&settled) {
            match item {
                Item::Text(text) => place += text.len() as u64,
                Item::Blocks => {
                    let slot = slots.next().expect("there is a slot for each conversation");
                    texts.push(BlockTexts { place, count: 0 });
                    current = Some(OutlinedConversation::new(settled.conversation(slot)));
                }
                Item::Block(entry, is_first) => {
                    place += u64::from(!is_first);
                    let conversation = current.as_mut().expect("blocks are in a conversation");
                    let row = conversation.row_of(&entry)?;
                    rows.write_all(&row.to_bytes())?;
                    hashes.write_all(&shown.of(&entry))?;
                    place += u64::from(row.length);
                    if let Some(texts) = texts.last_mut() {
                        texts.count += 1;
                    }
                }
            }
        }
        Ok(Some(outline(&settled, &texts)))
    }

    /// Restores a state from the outline of a snapshot.
    ///
    /// `text` holds the snapshot's JSON, in which the state begins at `state_at`, and the hashes at
    /// `hashes_at`. If it fails later, the state is invalid: its owner must check it.
    pub fn restore_outline(
        outline: &StateOutline,
        rows: &[u8],
        text: &Arc<dyn SpillStore>,
        state_at: u64,
        hashes_at: u64,
    ) -> Result<Self, SnapshotError> {
        let (rows, rest) = rows.as_chunks::<{ OutlineRow::SIZE }>();
        let mut rows = rows.iter().map(OutlineRow::from_bytes);
        let mut hashes_at = hashes_at;
        let StateOutline { version, main, subagents, callers } = outline;
        let mut state = restore(*version, main, subagents, |settled, slot, facts| {
            let BlockTexts { place, count } = facts.blocks;
            // A count from elsewhere must not decide how much is allocated.
            if count > rows.len() {
                return Err(corrupt("a row is missing"));
            }
            let mut place = state_at.saturating_add(place);
            let conversation = settled.conversation_mut(slot);
            conversation.fresh = Some(Vector::new());
            let name = conversation.name.clone();
            let shared =
                Arc::new(SpilledConversation::restored(text.clone(), name, hashes_at, count));
            for number in 0..count {
                let row = rows.next().ok_or_else(|| corrupt("a row is missing"))?;
                let number = u32::try_from(number).map_err(|_| corrupt("too many blocks"))?;
                let spilled = SpilledBlock::restored(shared.clone(), place, &row, number)
                    .ok_or_else(|| corrupt("a block is beyond the first terabyte"))?;
                if row.is_eager {
                    let facts = spilled.try_read().ok_or_else(|| corrupt("a block is missing"))?;
                    insert(settled, slot, facts)?;
                } else {
                    settled.conversation_mut(slot).append_spilled(row.id_hash, spilled);
                }
                place = place.saturating_add(u64::from(row.length) + 1);
            }
            hashes_at = hashes_at.saturating_add(HASH_SIZE * count as u64);
            Ok(())
        })?;
        if rows.next().is_some() || !rest.is_empty() {
            return Err(corrupt("there are more rows than blocks"));
        }
        state.settled_mut().callers = callers.iter().cloned().collect();
        Ok(state)
    }
}

/// How many bytes the hash of a block has.
const HASH_SIZE: u64 = 32;

fn corrupt(reason: &str) -> SnapshotError {
    SnapshotError::Unreadable { reason: reason.to_owned() }
}

/// Returns the outline of a state whose blocks have these texts, conversation by conversation.
fn outline(settled: &SettledState, texts: &[BlockTexts]) -> StateOutline {
    let subagents =
        settled.subagents.iter().zip(&texts[1..]).map(|(subagent, texts)| SubagentFacts {
            names: subagent.names.clone(),
            runs: subagent.runs.clone(),
            active: subagent.active,
            idle: subagent.idle,
            united: subagent.united,
            internal: subagent.internal,
            conversation: conversation_facts(&subagent.conversation, *texts),
        });
    StateOutline {
        version: VERSION,
        main: conversation_facts(&settled.main, texts[0]),
        subagents: subagents.collect(),
        callers: super::sorted(&settled.callers),
    }
}

/// A conversation whose blocks are outlined, in order.
struct OutlinedConversation<'a> {
    conversation: &'a Conversation,
    position: usize,
    /// The positions of blocks that are open or show subagents: the sets of these are restored from
    /// the blocks themselves.
    eager: BTreeSet<usize>,
    /// The hashes of ids, by label, and how many of them are used.
    by_label: Vec<(Label, u64)>,
    used: usize,
}

impl<'a> OutlinedConversation<'a> {
    fn new(conversation: &'a Conversation) -> Self {
        let edges = conversation.edges.iter().map(|(_, id)| id);
        let eager = conversation.open.iter().chain(edges);
        let eager = eager.filter_map(|id| conversation.find(id)).collect();
        let by_label = conversation.index.by_label();
        Self { conversation, position: 0, eager, by_label, used: 0 }
    }

    /// Returns the row of the next block.
    fn row_of(&mut self, entry: &Entry) -> io::Result<OutlineRow> {
        let mut row = match &entry.residence {
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
        row.is_eager |= self.eager.contains(&self.position);
        self.position += 1;
        Ok(row)
    }

    /// Returns the hash of the id of the block with this label; nothing if the index has none or
    /// several, because other states share it.
    fn hash_at(&mut self, label: Label) -> Option<u64> {
        let rest = &self.by_label[self.used..];
        let before = rest.partition_point(|it| it.0 < label);
        self.used += before;
        match &self.by_label[self.used..] {
            [(first, hash), rest @ ..] if *first == label => {
                rest.first().is_none_or(|next| next.0 != label).then_some(*hash)
            }
            _ => None,
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
