//! Writes a snapshot as text in parts, so that a large one is never in memory as a whole.

use std::collections::VecDeque;
use std::iter::once;
use std::sync::Arc;

use serde::Serialize;

use super::super::conversation::Conversation;
use super::super::entry::is_false;
use super::super::spill::{BlockText, SpillStore};
use super::super::subagent::{Names, RankSet, Run, Subagent};
use super::super::{ConversationState, Entry, SettledState};
use super::{VERSION, sorted};
use crate::event::Rank;
use crate::id::{BlockId, ToolUseId};

/// How much text is collected into one part.
const BATCH: usize = 64 << 10;

/// A part of a snapshot's JSON.
#[derive(Clone)]
pub enum SnapshotPart {
    /// Text.
    Text(String),
    /// Spilled text.
    Spilled {
        /// The store that holds it.
        store: Arc<dyn SpillStore>,
        /// The offset at which it begins.
        place: u64,
        /// The number of bytes.
        length: u64,
    },
}

impl ConversationState {
    /// Returns the JSON of the state's [`snapshot`](Self::snapshot) in parts. A run of blocks that
    /// were spilled one after another is one part, and is not read back.
    pub fn snapshot_parts(&self) -> impl Iterator<Item = SnapshotPart> + Send + use<> {
        let items = items(&self.without_open_texts().settled);
        Parts { items, ready: VecDeque::new(), text: String::new(), spilled: None }
    }
}

/// Returns the elements of a snapshot, in order.
pub(super) fn items(settled: &SettledState) -> impl Iterator<Item = Item> + Send + use<> {
    let subagents = settled.subagents.clone();
    once(Item::Text(format!("{{\"version\":{VERSION},\"main\":")))
        .chain(conversation(&settled.main))
        .chain(once(Item::Text(",\"subagents\":[".to_owned())))
        .chain((0..subagents.len()).flat_map(move |at| subagent(at, &subagents.view(at))))
        .chain(once(Item::Text("]}".to_owned())))
}

/// An element of a snapshot.
pub(super) enum Item {
    Text(String),
    /// The blocks of the next conversation begin.
    Blocks,
    /// A block, and whether it is the first of its conversation.
    Block(Entry, bool),
}

#[derive(Serialize)]
struct SubagentHead<'a> {
    names: &'a Names,
    runs: &'a [Run],
    active: RankSet,
    idle: RankSet,
    #[serde(skip_serializing_if = "is_false")]
    united: bool,
    #[serde(skip_serializing_if = "is_false")]
    internal: bool,
}

fn subagent(index: usize, subagent: &Subagent) -> impl Iterator<Item = Item> + Send + use<> {
    let head = json(&SubagentHead {
        names: &subagent.names,
        runs: &subagent.runs,
        active: subagent.active,
        idle: subagent.idle,
        united: subagent.united,
        internal: subagent.internal,
    });
    let comma = if index > 0 { "," } else { "" };
    // Omits the closing brace, so that the conversation becomes one more field of the object.
    let fields = &head[..head.len() - 1];
    once(Item::Text(format!("{comma}{fields},\"conversation\":")))
        .chain(conversation(&subagent.conversation))
        .chain(once(Item::Text("}".to_owned())))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversationTail<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<(BlockId, BlockId)>,
    #[serde(rename = "takenOut", skip_serializing_if = "Vec::is_empty")]
    removed: Vec<(BlockId, Rank)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<(ToolUseId, BlockId)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<(ToolUseId, BlockId)>,
    compacted: &'a [Option<BlockId>; 2],
}

fn conversation(conversation: &Conversation) -> impl Iterator<Item = Item> + Send + use<> {
    let rare = &conversation.rare;
    let tail = json(&ConversationTail {
        aliases: sorted(&rare.aliases),
        removed: sorted(&rare.removed),
        calls: sorted(&rare.calls),
        results: sorted(&rare.results),
        compacted: &rare.compacted,
    });
    let name = json(&conversation.name);
    let entries = conversation.entries.clone().into_iter().enumerate();
    once(Item::Text(format!("{{\"name\":{name},\"blocks\":[")))
        .chain(once(Item::Blocks))
        .chain(entries.map(|(index, entry)| Item::Block(entry, index == 0)))
        // Omits the opening brace, because the tail's fields belong to the object opened above.
        .chain(once(Item::Text(format!("],{}", &tail[1..]))))
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data has a form in JSON")
}

/// Collects items into parts.
struct Parts<I> {
    items: I,
    ready: VecDeque<SnapshotPart>,
    /// The pending part: either text, or a range of spilled text.
    text: String,
    spilled: Option<(Arc<dyn SpillStore>, u64, u64)>,
}

impl<I: Iterator<Item = Item>> Iterator for Parts<I> {
    type Item = SnapshotPart;

    fn next(&mut self) -> Option<SnapshotPart> {
        while self.ready.is_empty() {
            let Some(item) = self.items.next() else {
                self.flush();
                break;
            };
            self.gather(item);
        }
        self.ready.pop_front()
    }
}

impl<I> Parts<I> {
    fn gather(&mut self, item: Item) {
        let (entry, comma) = match item {
            Item::Text(text) => return self.gather_text(&text),
            Item::Blocks => return,
            Item::Block(entry, is_first) => (entry, if is_first { "" } else { "," }),
        };
        let Some(spilled) = entry.spilled() else {
            self.gather_text(comma);
            return self.gather_text(&json(&BlockText { id: &entry.id(), facts: &entry.facts() }));
        };
        match &mut self.spilled {
            Some((store, _, end)) if spilled.follows(*end, store) => *end = spilled.end(),
            _ => {
                self.gather_text(comma);
                self.flush();
                self.spilled = Some((spilled.store().clone(), spilled.place(), spilled.end()));
            }
        }
    }

    fn gather_text(&mut self, text: &str) {
        if self.spilled.is_some() || self.text.len() >= BATCH {
            self.flush();
        }
        self.text.push_str(text);
    }

    fn flush(&mut self) {
        if let Some((store, place, end)) = self.spilled.take() {
            self.ready.push_back(SnapshotPart::Spilled { store, place, length: end - place });
        }
        if !self.text.is_empty() {
            self.ready.push_back(SnapshotPart::Text(std::mem::take(&mut self.text)));
        }
    }
}
