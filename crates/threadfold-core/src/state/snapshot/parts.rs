//! A snapshot as text, part after part: a large one is never in memory as a whole.

use std::sync::Arc;

use serde::Serialize;

use super::super::conversation::Conversation;
use super::super::shelf::{BlockText, Shelf};
use super::super::subagent::{Names, RankSet, Run};
use super::super::{ConversationState, Entry};
use super::{VERSION, sorted};
use crate::event::Rank;
use crate::id::{BlockId, ToolUseId};

/// As much text is gathered before it is handed on.
const BATCH: usize = 64 << 10;

/// A part of a snapshot's JSON.
#[derive(Clone, Copy)]
pub enum SnapshotPart<'a> {
    /// Text.
    Text(&'a str),
    /// Text that was put away.
    Away {
        /// Where it was put.
        shelf: &'a Arc<dyn Shelf>,
        /// Where it begins there.
        place: u64,
        /// How many bytes it has.
        length: u64,
    },
}

impl ConversationState {
    /// Hands out the JSON of the state's [`snapshot`](Self::snapshot), part after part. Blocks
    /// that were put away one after another are one part, and are not fetched.
    pub fn snapshot_parts<E>(
        &self,
        hand_on: impl FnMut(SnapshotPart<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let state = self.without_open_texts();
        let mut out = Parts { hand_on, text: String::new(), away: None };
        out.text.push_str("{\"version\":");
        out.json(&VERSION);
        out.text.push_str(",\"main\":");
        out.conversation(&state.settled.main)?;
        out.text.push_str(",\"subagents\":[");
        for (index, subagent) in state.settled.subagents.iter().enumerate() {
            if index > 0 {
                out.text.push(',');
            }
            out.json(&SubagentHead {
                names: &subagent.names,
                runs: &subagent.runs,
                idle: subagent.idle,
                united: subagent.united,
            });
            // The conversation is one more field of the object that was just written.
            out.text.pop();
            out.text.push_str(",\"conversation\":");
            out.conversation(&subagent.conversation)?;
            out.text.push('}');
        }
        out.text.push_str("]}");
        out.flush()
    }
}

#[derive(Serialize)]
struct SubagentHead<'a> {
    names: &'a Names,
    runs: &'a [Run],
    idle: RankSet,
    #[serde(skip_serializing_if = "super::super::entry::is_false")]
    united: bool,
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

/// Text on its way out; either `text` or `away` waits, never both.
struct Parts<F> {
    hand_on: F,
    text: String,
    away: Option<(Arc<dyn Shelf>, u64, u64)>,
}

impl<E, F: FnMut(SnapshotPart<'_>) -> Result<(), E>> Parts<F> {
    fn conversation(&mut self, conversation: &Conversation) -> Result<(), E> {
        self.text.push_str("{\"name\":");
        self.json(&conversation.name);
        self.text.push_str(",\"blocks\":[");
        for (index, entry) in conversation.entries().enumerate() {
            self.block(entry, index == 0)?;
        }
        self.flush_away()?;
        let rare = &conversation.rare;
        let tail = ConversationTail {
            aliases: sorted(&rare.aliases),
            taken_out: sorted(&rare.taken_out),
            calls: sorted(&rare.calls),
            results: sorted(&rare.results),
            compacted: &rare.compacted,
        };
        let start = self.text.len();
        self.json(&tail);
        // The fields of the tail are fields of the object that was begun above.
        self.text.replace_range(start..=start, "],");
        Ok(())
    }

    fn block(&mut self, entry: &Entry, is_first: bool) -> Result<(), E> {
        let Some(away) = entry.away() else {
            self.flush_away()?;
            if !is_first {
                self.text.push(',');
            }
            self.json(&BlockText { id: &entry.id, facts: &entry.facts() });
            return if self.text.len() < BATCH { Ok(()) } else { self.flush_text() };
        };
        if let Some((shelf, _, end)) = &mut self.away
            && away.follows(*end, shelf)
        {
            *end = away.end();
            return Ok(());
        }
        self.flush_away()?;
        if !is_first {
            self.text.push(',');
        }
        self.flush_text()?;
        self.away = Some((away.shelf().clone(), away.place, away.end()));
        Ok(())
    }

    fn json<T: Serialize>(&mut self, value: &T) {
        let text = serde_json::to_string(value).expect("plain data has a form in JSON");
        self.text.push_str(&text);
    }

    fn flush_away(&mut self) -> Result<(), E> {
        match self.away.take() {
            Some((shelf, place, end)) => {
                let length = end - place;
                (self.hand_on)(SnapshotPart::Away { shelf: &shelf, place, length })
            }
            None => Ok(()),
        }
    }

    fn flush_text(&mut self) -> Result<(), E> {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() { Ok(()) } else { (self.hand_on)(SnapshotPart::Text(&text)) }
    }

    fn flush(&mut self) -> Result<(), E> {
        self.flush_away()?;
        self.flush_text()
    }
}
