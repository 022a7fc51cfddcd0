//! Emits the events of one record: for which conversation, and in which place.

use std::sync::Arc;

use threadfold_core::{
    Block, BlockDelta, BlockId, BlockRemove, BlockUpsert, Context, ConversationId, EmptyPayload,
    EventSource, Fields, Payload, RemoveReason, SessionEvent, SessionId, TextField, UnknownFields,
};

use super::memory::{Memory, Side};
use super::order::{Key, OpenText};

/// The context in which one record becomes events.
pub(super) struct Emitter<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) source: &'a EventSource,
    pub(super) is_stream: bool,
    pub(super) out: &'a mut Vec<SessionEvent>,
}

impl Emitter<'_> {
    /// Returns the memory of the kind of source that the record came from.
    pub(super) fn side(&mut self) -> &mut Side {
        if self.is_stream { &mut self.memory.stream } else { &mut self.memory.files }
    }

    /// Returns the conversation of a session; nothing if it descends from another root session.
    ///
    /// A bus carries all sessions of a server. If no session was asked for, the root of the first
    /// one becomes the main conversation.
    pub(super) fn conversation_of(&mut self, session: &str) -> Option<ConversationId> {
        let mut top: &str = session;
        // Sessions nest a few levels; the limit ends a cycle in corrupt data.
        for _ in 0..100 {
            match self.memory.parents.get(top) {
                Some(parent) if self.memory.root.as_deref() != Some(top) => top = parent,
                _ => break,
            }
        }
        let root = self.memory.root.get_or_insert_with(|| top.into());
        match () {
            () if **root == *session => Some(ConversationId::main()),
            () if **root == *top => Some(ConversationId::from(session)),
            () => None,
        }
    }

    /// Makes room for exactly so many more events.
    pub(super) fn reserve(&mut self, events: usize) {
        self.out.reserve_exact(events);
    }

    /// Emits an event for a conversation.
    pub(super) fn emit(&mut self, conversation: &ConversationId, payload: Payload) {
        let context = Context {
            session_id: self.memory.root.clone().map(SessionId::from),
            conversation_id: conversation.clone(),
            timestamp: None,
            source: Some(self.source.clone()),
            seq: None,
            v: None,
            extra: Fields::default(),
        };
        self.out.push(SessionEvent { payload, context, unknown_fields: UnknownFields::default() });
    }

    /// Emits `block:upsert` for a whole block, in the place that its key gives.
    pub(super) fn emit_block(&mut self, conversation: &ConversationId, key: Key, block: Block) {
        let upsert = self.upsert(conversation, key, block);
        self.emit(conversation, Payload::BlockUpsert(upsert));
    }

    /// Emits a block whose text is still streaming.
    pub(super) fn emit_preview(&mut self, conversation: &ConversationId, key: Key, block: Block) {
        let upsert = self.upsert(conversation, key, block);
        let preview = BlockUpsert { preview: true, ..upsert };
        self.emit(conversation, Payload::BlockUpsert(preview));
    }

    fn upsert(&mut self, conversation: &ConversationId, key: Key, mut block: Block) -> BlockUpsert {
        block.conversation_id = conversation.clone();
        // The key of a message of version 2 is its place, and not its id.
        block.message_id.get_or_insert_with(|| key.0.clone().into());
        let after = self.side().place(conversation, key, &block.id);
        BlockUpsert { block, after, replaces: None, preview: false }
    }

    pub(super) fn emit_delta(
        &mut self,
        conversation: &ConversationId,
        block_id: BlockId,
        field: TextField,
        offset: u64,
        text: &str,
    ) {
        self.emit(
            conversation,
            Payload::BlockDelta(BlockDelta {
                block_id,
                delta: text.into(),
                field,
                offset: Some(offset),
            }),
        );
    }

    pub(super) fn emit_remove(
        &mut self,
        conversation: &ConversationId,
        block_id: BlockId,
        reason: RemoveReason,
    ) {
        if let Some(order) = self.side().order.get_mut(conversation) {
            order.remove(&block_id);
        }
        self.emit(conversation, Payload::BlockRemove(BlockRemove { block_id, reason }));
    }

    pub(super) fn emit_idle(&mut self, conversation: &ConversationId) {
        self.emit(conversation, Payload::SessionIdle(EmptyPayload {}));
    }

    /// Removes open texts, because the agent will not complete them.
    pub(super) fn abandon_texts(&mut self, texts: Vec<(BlockId, OpenText)>) {
        for (block, text) in texts {
            self.emit_remove(&text.conversation, block, RemoveReason::Abandoned);
        }
    }
}

/// Sorts after all ids of messages and parts.
pub(super) const LAST: &str = "\u{10ffff}";

/// Returns the key of a part's own block.
pub(super) fn key(message: &str, part: &str) -> Key {
    (Arc::from(message), Arc::from(part), 0)
}

/// Returns the key of the block right after a part's own block: its result.
pub(super) fn key_after(message: &str, part: &str) -> Key {
    (Arc::from(message), Arc::from(part), 1)
}
