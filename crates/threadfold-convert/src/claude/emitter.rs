//! Emits the events of one record, with the context that they share.

use std::sync::Arc;

use threadfold_core::{
    Block, BlockDelta, BlockId, BlockRemove, BlockUpsert, Context, ConversationId, EmptyPayload,
    EventSource, Fields, Payload, Placement, RemoveReason, SessionEvent, SessionId, TextField,
    UnknownFields,
};

use super::memory::{Memory, Side};
use crate::corrupt_lines;

/// The context in which one record becomes events.
pub(super) struct Emitter<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) source: &'a EventSource,
    pub(super) is_stream: bool,
    /// The main conversation, unless the record names another one.
    pub(super) conversation: ConversationId,
    pub(super) timestamp: Option<Arc<str>>,
    pub(super) session: Option<SessionId>,
    pub(super) line: u64,
    /// Another part or copy of the file already contained this line.
    pub(super) is_repeated: bool,
    /// The telling that the line begins, if it begins one.
    pub(super) telling: Option<u32>,
    /// The line contains what another record of the file contained before.
    pub(super) is_retold: bool,
    /// The index in `out` of this record's first event.
    pub(super) from: usize,
    pub(super) out: &'a mut Vec<SessionEvent>,
}

impl Emitter<'_> {
    /// Returns the memory of the kind of source that the record came from.
    pub(super) fn side(&mut self) -> &mut Side {
        if self.is_stream { &mut self.memory.stream } else { &mut self.memory.files }
    }

    fn context(&self, conversation: &ConversationId) -> Context {
        Context {
            session_id: self.session.clone(),
            conversation_id: conversation.clone(),
            timestamp: self.timestamp.clone(),
            source: Some(self.source.clone()),
            seq: None,
            v: None,
            extra: Fields::default(),
        }
    }

    /// Emits an event for the record's conversation.
    pub(super) fn emit(&mut self, payload: Payload) {
        let context = self.context(&self.conversation);
        self.out.push(SessionEvent { payload, context, unknown_fields: UnknownFields::default() });
    }

    /// Makes room for exactly so many more events.
    pub(super) fn reserve(&mut self, events: usize) {
        self.out.reserve_exact(events);
    }

    /// Emits an event for another conversation.
    pub(super) fn emit_in(&mut self, conversation: &ConversationId, payload: Payload) {
        let context = self.context(conversation);
        self.out.push(SessionEvent { payload, context, unknown_fields: UnknownFields::default() });
    }

    /// Emits `block:upsert` for a whole block, placed after the source's previous block.
    pub(super) fn emit_block(&mut self, block: Block) {
        let conversation = self.conversation.clone();
        let place = self.side().place(&conversation);
        self.emit_block_at(block, place);
    }

    fn emit_block_at(&mut self, mut block: Block, after: Placement) {
        let conversation = self.conversation.clone();
        block.conversation_id = conversation.clone();
        if block.timestamp.is_none() {
            block.timestamp = self.timestamp.clone();
        }
        // A repeated block keeps its place: a block cannot follow itself, and a copy of the
        // file must not move blocks that the original already ordered.
        let keeps_place = self.is_repeated || after == Placement::After(block.id.clone());
        let after = if keeps_place { Placement::Unspecified } else { after };
        if !self.is_repeated {
            self.side().last.insert(conversation, block.id.clone());
        }
        self.emit(Payload::BlockUpsert(BlockUpsert {
            block,
            after,
            replaces: None,
            preview: false,
        }));
    }

    /// Emits a block directly after another one; the conversation continues where it ended.
    pub(super) fn emit_block_beside(&mut self, mut block: Block, after: BlockId) {
        block.conversation_id = self.conversation.clone();
        block.timestamp = block.timestamp.take().or_else(|| self.timestamp.clone());
        self.emit(Payload::BlockUpsert(BlockUpsert {
            block,
            after: Placement::After(after),
            replaces: None,
            preview: false,
        }));
    }

    /// Emits a block that the agent has not confirmed yet.
    pub(super) fn emit_preview(&mut self, mut block: Block) {
        let conversation = self.conversation.clone();
        block.conversation_id = conversation.clone();
        // `last` holds confirmed blocks only, so a preview follows the preview before it.
        let after = match self.memory.stream.previews.last() {
            Some(preview) if preview.conversation == conversation => {
                Placement::After(preview.block.clone())
            }
            _ => self.memory.stream.place(&conversation),
        };
        self.emit(Payload::BlockUpsert(BlockUpsert {
            block,
            after,
            replaces: None,
            preview: true,
        }));
    }

    /// Emits text that is appended to a block.
    pub(super) fn emit_delta(
        &mut self,
        block_id: BlockId,
        field: TextField,
        offset: u64,
        text: &str,
    ) {
        self.emit(Payload::BlockDelta(BlockDelta {
            block_id,
            delta: text.into(),
            field,
            offset: Some(offset),
        }));
    }

    pub(super) fn emit_remove_in(
        &mut self,
        conversation: &ConversationId,
        block_id: BlockId,
        reason: RemoveReason,
    ) {
        self.emit_in(conversation, Payload::BlockRemove(BlockRemove { block_id, reason }));
    }

    pub(super) fn emit_idle_in(&mut self, conversation: &ConversationId) {
        self.emit_in(conversation, Payload::SessionIdle(EmptyPayload {}));
    }

    /// Returns the name of a line without an id: its source and its number.
    pub(super) fn line_name(&self) -> String {
        let source = self.source.id.as_ref().map_or("", |id| id.as_str());
        format!("line:{source}:{}", self.line)
    }

    /// Emits a warning: part of the record could not be used.
    pub(super) fn report_loss(&mut self, what: &str) {
        let context = self.context(&self.conversation.clone());
        self.out.push(corrupt_lines::loss_event(context, self.source, self.line, what));
    }

    /// Emits a remark: the record was used, but is not shown where it stands.
    pub(super) fn report_remark(&mut self, what: &str) {
        let context = self.context(&self.conversation.clone());
        self.out.push(corrupt_lines::remark_event(context, self.source, self.line, what));
    }
}
