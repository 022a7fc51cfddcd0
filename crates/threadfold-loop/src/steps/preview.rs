//! The preview of an incomplete answer, as blocks for other readers of the session.
//!
//! The preview is removed when the complete answer is recorded. If the answer is interrupted, the
//! blocks stay with the text received so far.

use std::collections::BTreeMap;

use threadfold_core::{
    AssistantTextBlock, Block, BlockBody, BlockDelta, BlockId, BlockRemove, BlockStatus,
    BlockUpsert, CallId, Payload, Placement, RemoveReason, TextField, ThinkingBlock, ToolUseBlock,
};

use crate::provider::Delta;

/// The blocks of one attempt to get an answer.
pub(super) struct Preview {
    name: String,
    pieces: BTreeMap<Piece, PreviewBlock>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Part(usize),
    Call(CallId),
}

struct PreviewBlock {
    body: BlockBody,
    text: String,
    /// How much of the text was emitted; `None` if the block was not emitted yet.
    shown: Option<usize>,
}

impl Preview {
    /// Returns the preview of an attempt that starts after record `seq`. The sequence number makes
    /// the ids of each attempt unique.
    pub(super) fn new(turn: u64, seq: u64) -> Self {
        Self { name: format!("preview:{turn}:{seq}"), pieces: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, delta: &Delta) {
        let (piece, body, text) = match delta {
            Delta::Started { .. } => return,
            Delta::Text { part, text } => {
                let body = AssistantTextBlock { content: "".into(), model: None };
                (Piece::Part(*part), BlockBody::from(body), text)
            }
            Delta::Thinking { part, text } => {
                let body = ThinkingBlock { content: "".into(), signature: None, redacted: false };
                (Piece::Part(*part), body.into(), text)
            }
            Delta::Call { call, name, arguments } => {
                let body = ToolUseBlock {
                    tool_name: name.clone(),
                    tool_use_id: format!("{}:{call}", self.name).into(),
                    input: None,
                    input_text: Some("".into()),
                    display_name: None,
                    description: None,
                };
                (Piece::Call(call.clone()), body.into(), arguments)
            }
        };
        let new = || PreviewBlock { body, text: String::new(), shown: None };
        self.pieces.entry(piece).or_insert_with(new).text.push_str(text);
    }

    /// Returns true if text was received.
    pub(super) fn has_text(&self) -> bool {
        self.pieces.values().any(|it| matches!(it.body, BlockBody::AssistantText(_)))
    }

    /// Returns true if there is text that was not emitted yet.
    pub(super) fn has_updates(&self) -> bool {
        self.pieces.values().any(|it| it.shown != Some(it.text.len()))
    }

    /// Returns the events for what was not emitted yet.
    pub(super) fn updates(&mut self) -> Vec<Payload> {
        let mut events = Vec::new();
        for (piece, growing) in &mut self.pieces {
            let id = id(&self.name, piece);
            if growing.shown.is_none() {
                let mut block = Block::new(id.clone(), growing.body.clone());
                block.status = BlockStatus::Pending;
                events.push(upsert(block));
            }
            let from = growing.shown.unwrap_or_default();
            if from < growing.text.len() {
                events.push(Payload::BlockDelta(BlockDelta {
                    block_id: id,
                    delta: growing.text[from..].into(),
                    field: match piece {
                        Piece::Part(_) => TextField::Content,
                        Piece::Call(_) => TextField::Input,
                    },
                    offset: Some(from as u64),
                }));
            }
            growing.shown = Some(growing.text.len());
        }
        events
    }

    /// Returns the events that remove everything that was emitted.
    pub(super) fn removals(self) -> Vec<Payload> {
        let shown = self.pieces.iter().filter(|(_, growing)| growing.shown.is_some());
        let removed = shown.map(|(piece, _)| {
            let (block_id, reason) = (id(&self.name, piece), RemoveReason::Superseded);
            Payload::BlockRemove(BlockRemove { block_id, reason })
        });
        removed.collect()
    }

    /// Returns the events for an interrupted answer: its blocks are closed with the text received
    /// so far.
    pub(super) fn interrupt(mut self) -> Vec<Payload> {
        self.pieces.retain(|_, growing| !growing.text.is_empty() || growing.shown.is_some());
        let pieces = self.pieces.iter();
        let closed = pieces.map(|(piece, growing)| {
            let body = match &growing.body {
                BlockBody::AssistantText(body) => {
                    AssistantTextBlock { content: growing.text.as_str().into(), ..body.clone() }
                        .into()
                }
                BlockBody::Thinking(body) => {
                    ThinkingBlock { content: growing.text.as_str().into(), ..body.clone() }.into()
                }
                BlockBody::ToolUse(body) => {
                    let input_text = Some(growing.text.as_str().into());
                    ToolUseBlock { input_text, ..body.clone() }.into()
                }
                other => other.clone(),
            };
            let mut block = Block::new(id(&self.name, piece), body);
            block.interrupted = true;
            upsert(block)
        });
        closed.collect()
    }
}

fn id(name: &str, piece: &Piece) -> BlockId {
    match piece {
        Piece::Part(part) => format!("{name}:{part}").into(),
        Piece::Call(call) => format!("{name}:{call}").into(),
    }
}

fn upsert(block: Block) -> Payload {
    let (after, replaces, preview) = (Placement::Unspecified, None, false);
    Payload::BlockUpsert(BlockUpsert { block, after, replaces, preview })
}
