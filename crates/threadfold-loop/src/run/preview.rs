//! An answer that is still being made, as blocks for whoever looks on.
//!
//! They are taken back when the whole answer is there. Of an answer that broke off they stay, as
//! far as it came.

use std::collections::BTreeMap;

use threadfold_core::{
    AssistantTextBlock, Block, BlockBody, BlockDelta, BlockId, BlockRemove, BlockStatus,
    BlockUpsert, CallId, Payload, Placement, RemoveReason, TextField, ThinkingBlock, ToolUseBlock,
};

use crate::provider::Delta;

/// The blocks of one attempt to get an answer.
pub(super) struct Preview {
    name: String,
    pieces: BTreeMap<Piece, Growing>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Part(usize),
    Call(CallId),
}

struct Growing {
    body: BlockBody,
    text: String,
    /// How much of the text others were shown; nothing if they do not know the block.
    shown: Option<usize>,
}

impl Preview {
    /// Returns the preview of an attempt that begins behind this record.
    pub(super) fn new(turn: u64, seq: u64) -> Self {
        Self { name: format!("preview:{turn}:{seq}"), pieces: BTreeMap::new() }
    }

    pub(super) fn hear(&mut self, delta: &Delta) {
        let (piece, body, text) = match delta {
            Delta::Begun { .. } => return,
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
        let new = || Growing { body, text: String::new(), shown: None };
        self.pieces.entry(piece).or_insert_with(new).text.push_str(text);
    }

    /// Says whether words came.
    pub(super) fn has_words(&self) -> bool {
        self.pieces.values().any(|it| matches!(it.body, BlockBody::AssistantText(_)))
    }

    /// Says whether there is something that others were not shown.
    pub(super) fn has_news(&self) -> bool {
        self.pieces.values().any(|it| it.shown != Some(it.text.len()))
    }

    /// Returns what others were not shown yet.
    pub(super) fn news(&mut self) -> Vec<Payload> {
        let mut said = Vec::new();
        for (piece, growing) in &mut self.pieces {
            let id = id(&self.name, piece);
            if growing.shown.is_none() {
                let mut block = Block::new(id.clone(), growing.body.clone());
                block.status = BlockStatus::Pending;
                said.push(upsert(block));
            }
            let from = growing.shown.unwrap_or_default();
            if from < growing.text.len() {
                said.push(Payload::BlockDelta(BlockDelta {
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
        said
    }

    /// Takes back all that others were shown.
    pub(super) fn take_back(self) -> Vec<Payload> {
        let shown = self.pieces.iter().filter(|(_, growing)| growing.shown.is_some());
        let removed = shown.map(|(piece, _)| {
            let (block_id, reason) = (id(&self.name, piece), RemoveReason::Superseded);
            Payload::BlockRemove(BlockRemove { block_id, reason })
        });
        removed.collect()
    }

    /// Returns what is said of an answer that broke off: what came stays, and nothing more comes.
    pub(super) fn break_off(mut self) -> Vec<Payload> {
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
