//! Emits the events of one record: for which conversation, and in which place.

use std::sync::Arc;

use threadfold_core::{
    Block, BlockDelta, BlockId, BlockRemove, BlockUpsert, Context, ConversationId, EmptyPayload,
    EventSource, Fields, Json, MetadataUpdate, Payload, Placement, RemoveReason, SessionEvent,
    SessionId, TextField, UnknownFields,
};

use super::memory::{Memory, OpenText, Thread};

/// The context in which one record becomes events.
pub(super) struct Emitter<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) source: &'a EventSource,
    pub(super) is_stream: bool,
    /// The record's own time.
    pub(super) timestamp: Option<Arc<str>>,
    /// The thread that the record is about.
    pub(super) thread: Arc<str>,
    pub(super) conversation: ConversationId,
    pub(super) out: &'a mut Vec<SessionEvent>,
}

impl Emitter<'_> {
    /// Returns what this kind of source has reported of the thread.
    pub(super) fn thread(&mut self) -> &mut Thread {
        let threads = if self.is_stream { &mut self.memory.stream } else { &mut self.memory.files };
        threads.entry(self.thread.clone()).or_default()
    }

    /// Lets the following events be about another thread.
    pub(super) fn turn_to(&mut self, thread: &str) {
        if *self.thread != *thread {
            self.thread = thread.into();
            self.conversation = conversation_of(self.memory, thread);
        }
    }

    /// Emits an event for the thread's conversation.
    pub(super) fn emit(&mut self, payload: Payload) {
        let conversation = self.conversation.clone();
        self.emit_to(&conversation, payload);
    }

    /// Emits an event for a conversation.
    pub(super) fn emit_to(&mut self, conversation: &ConversationId, payload: Payload) {
        let context = Context {
            session_id: self.memory.root.clone().map(SessionId::from),
            conversation_id: conversation.clone(),
            timestamp: self.timestamp.clone(),
            source: Some(self.source.clone()),
            seq: None,
            v: None,
            extra: Fields::default(),
        };
        self.out.push(SessionEvent { payload, context, unknown_fields: UnknownFields::default() });
    }

    /// Emits a new block at the end of the conversation.
    pub(super) fn emit_block(&mut self, block: Block) {
        let after = self.end();
        self.thread().tail = Some(block.id.clone());
        self.upsert(block, after, None);
    }

    /// Emits a block under a name that replaces the one that the stream gave it.
    pub(super) fn emit_renamed(&mut self, block: Block, replaces: Option<BlockId>) {
        let after = self.end();
        self.thread().tail = Some(block.id.clone());
        self.upsert(block, after, replaces);
    }

    /// Emits a block again; it keeps its place.
    pub(super) fn emit_again(&mut self, block: Block) {
        self.upsert(block, Placement::Unspecified, None);
    }

    /// Emits a block again, under a name that also replaces another one that the stream gave it.
    pub(super) fn emit_again_as(&mut self, block: Block, replaces: BlockId) {
        self.upsert(block, Placement::Unspecified, Some(replaces));
    }

    /// Emits a block right after another one, such as a result after its call: calls run in
    /// parallel, and the order in which they end is not that of any file.
    pub(super) fn emit_after(&mut self, before: &BlockId, block: Block, replaces: Option<BlockId>) {
        let thread = self.thread();
        if thread.tail.as_ref() == Some(before) {
            thread.tail = Some(block.id.clone());
        }
        self.upsert(block, Placement::After(before.clone()), replaces);
    }

    /// Emits a block whose text is still streaming.
    pub(super) fn emit_preview(&mut self, mut block: Block) {
        let after = self.end();
        self.thread().tail = Some(block.id.clone());
        block.conversation_id = self.conversation.clone();
        self.emit(Payload::BlockUpsert(BlockUpsert {
            block,
            after,
            replaces: None,
            preview: true,
        }));
    }

    /// Emits a block in a given place.
    pub(super) fn emit_at(&mut self, block: Block, after: Placement) {
        self.upsert(block, after, None);
    }

    fn end(&mut self) -> Placement {
        let thread = self.thread();
        let mut tail = thread.tail.clone();
        // A text that still streams gets its place when it ends.
        for open in thread.open.iter().rev() {
            if tail.as_ref() == Some(&open.block) {
                tail = open.before.clone();
            }
        }
        tail.map_or(Placement::First, Placement::After)
    }

    /// Emits a text that has ended, in the place where it ended.
    pub(super) fn emit_ended(&mut self, block: Block, before: Option<BlockId>) {
        if self.thread().tail.as_ref() == Some(&block.id) {
            let after = before.map_or(Placement::First, Placement::After);
            return self.upsert(block, after, None);
        }
        self.emit_block(block);
    }

    fn upsert(&mut self, mut block: Block, after: Placement, replaces: Option<BlockId>) {
        block.conversation_id = self.conversation.clone();
        if !self.is_stream {
            block.timestamp = self.timestamp.clone();
        }
        self.emit(Payload::BlockUpsert(BlockUpsert { block, after, replaces, preview: false }));
    }

    pub(super) fn emit_delta(&mut self, block_id: BlockId, offset: u64, text: &str) {
        self.emit(Payload::BlockDelta(BlockDelta {
            block_id,
            delta: text.into(),
            field: TextField::Content,
            offset: Some(offset),
        }));
    }

    /// Emits that the turn ended; texts that are still open will not be completed.
    pub(super) fn emit_idle(&mut self) {
        self.abandon_texts();
        self.thread().is_open = false;
        self.emit(Payload::SessionIdle(EmptyPayload {}));
    }

    /// Removes open texts, because the agent will not complete them.
    pub(super) fn abandon_texts(&mut self) {
        let texts = std::mem::take(&mut self.thread().open);
        for OpenText { block, before, .. } in texts.into_iter().rev() {
            let thread = self.thread();
            if thread.tail.as_ref() == Some(&block) {
                thread.tail = before;
            }
            let reason = RemoveReason::Abandoned;
            self.emit(Payload::BlockRemove(BlockRemove { block_id: block, reason }));
        }
    }

    /// Emits one fact about the session.
    pub(super) fn emit_metadata(&mut self, name: &str, value: Json) {
        let mut metadata = Fields::default();
        metadata.insert(name, value);
        self.emit(Payload::MetadataUpdate(MetadataUpdate { metadata }));
    }

    /// Emits a fact that is a text, unless it was the last one.
    pub(super) fn emit_setting(&mut self, name: &str, value: &str) {
        let settings = &mut self.thread().settings;
        if settings.get(name).is_none_or(|known| **known != *value) {
            settings.insert(name.into(), value.into());
            self.emit_metadata(name, Json::string(value));
        }
    }
}

/// Returns the conversation of a thread: the main one, or that of a subagent.
pub(super) fn conversation_of(memory: &Memory, thread: &str) -> ConversationId {
    match memory.root.as_deref() == Some(thread) {
        true => ConversationId::main(),
        false => ConversationId::from(thread),
    }
}
