//! A snapshot as text, part after part: a large one is never in memory as a whole.

use std::collections::VecDeque;
use std::iter::once;
use std::sync::Arc;

use serde::Serialize;

use super::super::conversation::Conversation;
use super::super::entry::is_false;
use super::super::shelf::{BlockText, Shelf};
use super::super::subagent::{Names, RankSet, Run, Subagent};
use super::super::{ConversationState, Entry};
use super::{VERSION, sorted};
use crate::event::Rank;
use crate::id::{BlockId, ToolUseId};

/// As much text is gathered before it is handed out.
const BATCH: usize = 64 << 10;

/// A part of a snapshot's JSON.
#[derive(Clone)]
pub enum SnapshotPart {
    /// Text.
    Text(String),
    /// Text that was put away.
    Away {
        /// Where it was put.
        shelf: Arc<dyn Shelf>,
        /// Where it begins there.
        place: u64,
        /// How many bytes it has.
        length: u64,
    },
}

impl ConversationState {
    /// Returns the JSON of the state's [`snapshot`](Self::snapshot), part after part. Blocks that
    /// were put away one after another are one part, and are not fetched.
    pub fn snapshot_parts(&self) -> impl Iterator<Item = SnapshotPart> + Send + use<> {
        let settled = self.without_open_texts().settled;
        let subagents = settled.subagents.clone().into_iter().enumerate();
        let items = once(Item::Text(format!("{{\"version\":{VERSION},\"main\":")))
            .chain(conversation(&settled.main))
            .chain(once(Item::Text(",\"subagents\":[".to_owned())))
            .chain(subagents.flat_map(|(index, it)| subagent(index, &it)))
            .chain(once(Item::Text("]}".to_owned())));
        Parts { items, ready: VecDeque::new(), text: String::new(), away: None }
    }
}

/// What a snapshot is made of, in order.
enum Item {
    Text(String),
    /// A block, and whether it is the first of its conversation.
    Block(Arc<Entry>, bool),
}

#[derive(Serialize)]
struct SubagentHead<'a> {
    names: &'a Names,
    runs: &'a [Run],
    idle: RankSet,
    #[serde(skip_serializing_if = "is_false")]
    united: bool,
}

fn subagent(index: usize, subagent: &Subagent) -> impl Iterator<Item = Item> + Send + use<> {
    let head = json(&SubagentHead {
        names: &subagent.names,
        runs: &subagent.runs,
        idle: subagent.idle,
        united: subagent.united,
    });
    let comma = if index > 0 { "," } else { "" };
    // The conversation is one more field of that object.
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken_out: Vec<(BlockId, Rank)>,
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
        taken_out: sorted(&rare.taken_out),
        calls: sorted(&rare.calls),
        results: sorted(&rare.results),
        compacted: &rare.compacted,
    });
    let name = json(&conversation.name);
    let entries = conversation.entries.clone().into_iter().enumerate();
    once(Item::Text(format!("{{\"name\":{name},\"blocks\":[")))
        .chain(entries.map(|(index, entry)| Item::Block(entry, index == 0)))
        // The fields of the tail are fields of the object that was begun above.
        .chain(once(Item::Text(format!("],{}", &tail[1..]))))
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data has a form in JSON")
}

/// Gathers items to parts.
struct Parts<I> {
    items: I,
    ready: VecDeque<SnapshotPart>,
    /// What comes next: either text or what was put away, up to where that goes.
    text: String,
    away: Option<(Arc<dyn Shelf>, u64, u64)>,
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
            Item::Block(entry, is_first) => (entry, if is_first { "" } else { "," }),
        };
        let Some(away) = entry.away() else {
            self.gather_text(comma);
            return self.gather_text(&json(&BlockText { id: &entry.id, facts: &entry.facts() }));
        };
        match &mut self.away {
            Some((shelf, _, end)) if away.follows(*end, shelf) => *end = away.end(),
            _ => {
                self.gather_text(comma);
                self.flush();
                self.away = Some((away.shelf().clone(), away.place, away.end()));
            }
        }
    }

    fn gather_text(&mut self, text: &str) {
        if self.away.is_some() || self.text.len() >= BATCH {
            self.flush();
        }
        self.text.push_str(text);
    }

    fn flush(&mut self) {
        if let Some((shelf, place, end)) = self.away.take() {
            self.ready.push_back(SnapshotPart::Away { shelf, place, length: end - place });
        }
        if !self.text.is_empty() {
            self.ready.push_back(SnapshotPart::Text(std::mem::take(&mut self.text)));
        }
    }
}
