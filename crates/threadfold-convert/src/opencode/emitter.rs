//! Turning one record into events: which session, which conversation, which place.

use std::sync::Arc;

use threadfold_core::{
    Block, BlockDelta, BlockId, BlockRemove, BlockUpsert, Context, ConversationId, Empty, Payload,
    RemoveReason, SessionEvent, SessionId, Source, TextField,
};

use super::memory::{Key, Memory, Side};

/// One record in the making: its source and the events so far.
pub(super) struct Emitter<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) source: &'a Source,
    pub(super) is_stream: bool,
    pub(super) out: &'a mut Vec<SessionEvent>,
}

impl Emitter<'_> {
    pub(super) fn side(&mut self) -> &mut Side {
        if self.is_stream { &mut self.memory.stream } else { &mut self.memory.files }
    }

    /// Returns the conversation of a session; nothing if it belongs to another root.
    ///
    /// The first session that is heard of is the root, or the one that it descends from.
    pub(super) fn conversation_of(&mut self, session: &str) -> Option<ConversationId> {
        let mut top: &str = session;
        // Sessions nest a few deep; a circle would be the source's error.
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

    pub(super) fn emit(&mut self, conversation: &ConversationId, payload: Payload) {
        let context = Context {
            session_id: self.memory.root.clone().map(SessionId::from),
            conversation_id: conversation.clone(),
            source: Some(self.source.clone()),
            ..Context::default()
        };
        self.out.push(SessionEvent { context, ..SessionEvent::new(payload) });
    }

    /// Says a whole block in its place.
    pub(super) fn emit_block(&mut self, conversation: &ConversationId, key: Key, block: Block) {
        self.upsert(conversation, key, block, false);
    }

    /// Shows a block whose text is not at its end.
    pub(super) fn emit_preview(&mut self, conversation: &ConversationId, key: Key, block: Block) {
        self.upsert(conversation, key, block, true);
    }

    fn upsert(&mut self, conversation: &ConversationId, key: Key, mut block: Block, preview: bool) {
        block.conversation_id = conversation.clone();
        block.message_id = Some(key.0.clone().into());
        let after = self.side().place(conversation, key, &block.id);
        self.emit(
            conversation,
            Payload::BlockUpsert(BlockUpsert { block, after, replaces: None, preview }),
        );
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
            order.retain(|_, id| *id != block_id);
        }
        self.emit(conversation, Payload::BlockRemove(BlockRemove { block_id, reason }));
    }

    pub(super) fn emit_idle(&mut self, conversation: &ConversationId) {
        self.emit(conversation, Payload::SessionIdle(Empty {}));
    }

    /// Takes back the texts that `which` names: they were begun and not ended.
    pub(super) fn abandon(&mut self, which: impl Fn(&super::memory::OpenText) -> bool) {
        let open = std::mem::take(&mut self.side().open);
        let (gone, kept): (Vec<_>, Vec<_>) = open.into_iter().partition(|(_, text)| which(text));
        self.side().open = kept.into_iter().collect();
        for (block, text) in gone {
            self.emit_remove(&text.conversation, block, RemoveReason::Abandoned);
        }
    }
}

/// Returns the key of a part's own block.
pub(super) fn key(message: &str, part: &str) -> Key {
    (Arc::from(message), Arc::from(part), 0)
}

/// Returns the key of what stands right behind a part's block.
pub(super) fn key_behind(message: &str, part: &str) -> Key {
    (Arc::from(message), Arc::from(part), 1)
}
