//! Joins short lines that no converter understands, so that many of them take little memory.
//!
//! A block takes some sixty bytes of memory even when it is spilled, many times a line of one byte.
//! The first such lines of a source are blocks of their own; of the later ones, those that follow
//! one another are joined in one block, which grows with each of them. Where one ends depends on
//! the source alone, so every way to read it gives the same blocks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use threadfold_convert::lines::is_named_by_line;
use threadfold_core::{
    BlockBody, BlockId, BlockUpsert, ConversationId, Json, Payload, Placement, SessionEvent,
    UnknownBlock,
};

/// A line with fewer bytes is short: four times a longer one is more than a block takes.
const SHORT: usize = 32;
/// How many short lines of a source have blocks of their own.
const SINGLE: u64 = 4096;
/// How many lines are joined in one block. Each of them is written again with every one that is
/// added, so the number must be small.
const JOINED: usize = 64;

/// The short lines of a source that were not understood.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShortLines {
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<JoinedLines>,
    /// By conversation, the id that the converter gave to the last line that was joined, and the id
    /// of its block. The converter places its next block after the former.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    anchors: BTreeMap<ConversationId, (BlockId, BlockId)>,
}

/// Lines that are one block.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct JoinedLines {
    conversation: ConversationId,
    id: BlockId,
    records: Vec<Json>,
}

impl ShortLines {
    /// Looks at the events of a line with `length` bytes, and joins its blocks to the one before.
    pub(crate) fn join(lines: &mut Option<Box<Self>>, length: usize, events: &mut [SessionEvent]) {
        if length < SHORT && is_unknown(events) {
            let lines = lines.get_or_insert_default();
            lines.count += 1;
            if lines.count > SINGLE {
                events.iter_mut().for_each(|event| lines.add(event));
                return;
            }
        } else if let Some(lines) = lines
            && !events.is_empty()
        {
            // A line that shows nothing does not separate those around it.
            lines.last = None;
        }
        Self::move_anchors(lines.as_deref(), events);
    }

    /// Places blocks after the joined block, where the converter names the last line in it.
    pub(crate) fn move_anchors(lines: Option<&Self>, events: &mut [SessionEvent]) {
        let Some(lines) = lines.filter(|it| !it.anchors.is_empty()) else { return };
        for event in events {
            if let Payload::BlockUpsert(upsert) = &mut event.payload
                && let Placement::After(after) = &mut upsert.after
                && let Some((given, id)) = lines.anchors.get(&event.context.conversation_id)
                && after == given
            {
                *after = id.clone();
            }
        }
    }

    /// Joins the block of an event, if it is one, to the last one.
    fn add(&mut self, event: &mut SessionEvent) {
        let conversation = event.context.conversation_id.clone();
        Self::move_anchors(Some(self), std::slice::from_mut(event));
        let Payload::BlockUpsert(BlockUpsert { block, after, .. }) = &mut event.payload else {
            return;
        };
        let BlockBody::Unknown(UnknownBlock { record }) = &mut block.body else { return };
        let is_open =
            |it: &&mut JoinedLines| it.conversation == conversation && it.records.len() < JOINED;
        let Some(joined) = self.last.as_mut().filter(is_open) else {
            let (id, records) = (block.id.clone(), vec![record.clone()]);
            self.last = Some(JoinedLines { conversation, id, records });
            return;
        };
        joined.records.push(record.clone());
        *record = Json::of(&joined.records);
        block.metadata.insert("records", Json::of(&joined.records.len()));
        // It stays where its first line stood.
        *after = Placement::Unspecified;
        let given = std::mem::replace(&mut block.id, joined.id.clone());
        self.anchors.insert(conversation, (given, joined.id.clone()));
    }
}

/// Returns whether the events only show, and report, a line that was not understood.
fn is_unknown(events: &[SessionEvent]) -> bool {
    let is_log = |event: &SessionEvent| matches!(event.payload, Payload::Log(_));
    events.iter().any(is_unknown_line)
        && events.iter().all(|event| is_log(event) || is_unknown_line(event))
}

/// Returns whether an event shows a line that names nothing: no later line can change its block.
fn is_unknown_line(event: &SessionEvent) -> bool {
    match &event.payload {
        Payload::BlockUpsert(BlockUpsert { block, replaces: None, preview: false, .. }) => {
            matches!(block.body, BlockBody::Unknown(_)) && is_named_by_line(&block.id)
        }
        _ => false,
    }
}
