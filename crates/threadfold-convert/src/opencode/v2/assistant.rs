//! The answer of the model while it is streamed: steps, texts, thoughts and calls.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{Block, BlockId, BlockStatus, ConversationId, Json, TextField};

use super::blocks::{self, item_id};
use super::calls::{Call, CallOutcome, call_id};
use super::places::Place;
use super::wire::{Delta, EventData, EventHead, Model, Time};
use crate::opencode::emitter::Emitter;
use crate::opencode::memory::{Message, OpenItem};
use crate::opencode::messages::emit_usage;
use crate::opencode::order::OpenText;
use crate::opencode::time::iso;

/// Emits text that is appended to an open text or thought; other deltas are ignored.
pub(in crate::opencode) fn convert_delta(emitter: &mut Emitter<'_>, kind: &str, delta: &Delta<'_>) {
    let (Some(message), Some(text)) = (delta.message.as_deref(), delta.delta.as_deref()) else {
        return;
    };
    let id = BlockId::from(item_id(message, kind, delta.ordinal));
    let Some(open) = emitter.side().open.get_mut(&id) else { return };
    let (conversation, offset) = (open.conversation.clone(), open.length);
    open.length += text.len() as u64;
    if !text.is_empty() {
        emitter.emit_delta(&conversation, id, TextField::Content, offset, text);
    }
}

/// An event of a step, with the place of its message.
pub(super) struct StepEvent<'a> {
    pub(super) head: &'a EventHead<'a>,
    pub(super) data: &'a EventData<'a>,
    pub(super) place: Place,
}

impl<'a> StepEvent<'a> {
    /// Returns an event with its message; nothing if it names none.
    ///
    /// A client that connects late has missed the message's beginning: it then stands where the
    /// event was read.
    pub(super) fn new(
        emitter: &mut Emitter<'_>,
        head: &'a EventHead<'a>,
        data: &'a EventData<'a>,
        conversation: &ConversationId,
    ) -> Option<Self> {
        let message = data.message.as_deref()?;
        let place = emitter.place(conversation, message, head.seq());
        Some(Self { head, data, place })
    }

    /// Begins a step. If its message is known, an attempt failed before any output, and the message
    /// begins again.
    pub(super) fn start(&self, emitter: &mut Emitter<'_>) {
        emitter.remove_blocks(&self.place);
        let model: Option<Model<'_>> = self.data.model.and_then(read);
        let started = self.data.started.or(self.head.created());
        let known = Message {
            session: self.data.session.as_deref().unwrap_or_default().into(),
            model: model.and_then(|model| model.id).map(|id| (&*id).into()),
            created: started.and_then(iso),
            ..Message::default()
        };
        emitter.memory.messages.insert(self.place.message.clone(), known);
    }

    /// Ends a step; an error follows everything that its message has.
    pub(super) fn end(&self, emitter: &mut Emitter<'_>) {
        let message = &self.place.message;
        if let Some(tokens) = self.data.tokens {
            let known = emitter.memory.messages.get(message);
            let model = known.and_then(|it| it.model.clone());
            emit_usage(emitter, &self.place.conversation, message, model.as_deref(), tokens);
        }
        if let Some(error) = self.data.error {
            let abandoned = emitter.side().open.take_message(message);
            emitter.abandon_texts(abandoned);
            let mut block = blocks::error(message, error, None);
            block.timestamp = self.begun(emitter);
            emitter.emit_at(&self.place, self.place.last(), block);
        }
    }

    /// Returns when the message began.
    fn begun(&self, emitter: &Emitter<'_>) -> Option<Arc<str>> {
        emitter.memory.messages.get(&self.place.message)?.created.clone()
    }

    fn text_block(&self, emitter: &Emitter<'_>, kind: &str, id: &str, text: &str) -> Block {
        if kind == "reasoning" {
            return blocks::thought(id, text, self.data.state, self.head.created());
        }
        let known = emitter.memory.messages.get(&self.place.message);
        let mut block = blocks::text(id, text, known.and_then(|it| it.model.clone()), None);
        block.timestamp = self.begun(emitter);
        block
    }

    pub(super) fn start_text(&self, emitter: &mut Emitter<'_>, kind: &str) {
        let id = item_id(&self.place.message, kind, self.data.ordinal);
        let number = emitter.number_of(&self.place, &id);
        let mut block = self.text_block(emitter, kind, &id, "");
        block.status = BlockStatus::Pending;
        self.open(emitter, &id);
        if kind == "reasoning"
            && let Some(created) = self.head.created()
        {
            // The end of a thought does not repeat when it began.
            let thought = OpenItem { created: Some(created), ..OpenItem::default() };
            emitter.side().items.insert(BlockId::from(id.as_str()), thought);
        }
        emitter.emit_preview_at(&self.place, self.place.numbered(number), block);
    }

    pub(super) fn end_text(&self, emitter: &mut Emitter<'_>, kind: &str) {
        let id = item_id(&self.place.message, kind, self.data.ordinal);
        let number = emitter.number_of(&self.place, &id);
        let open = emitter.side().open.remove(&BlockId::from(id.as_str()));
        let begun = emitter.side().items.remove(&BlockId::from(id.as_str()));
        let text = self.data.text.as_deref().unwrap_or("");
        if text.is_empty() {
            // A stored text is empty while it is streamed, so an empty one is never shown.
            emitter.abandon_texts(open.map(|open| (id.into(), open)).into_iter().collect());
            return;
        }
        let mut block = self.text_block(emitter, kind, &id, text);
        if let Some(created) = begun.and_then(|it| it.created) {
            block = blocks::at(block, Some(created));
        }
        emitter.emit_at(&self.place, self.place.numbered(number), block);
    }

    /// Remembers that a block is being streamed.
    fn open(&self, emitter: &mut Emitter<'_>, id: &str) {
        let open = OpenText {
            conversation: self.place.conversation.clone(),
            message: self.place.message.clone(),
            length: 0,
        };
        emitter.side().open.insert(BlockId::from(id), open);
    }

    /// Shows a call whose input is being streamed. It is stored from now on, so it stays.
    pub(super) fn start_call(&self, emitter: &mut Emitter<'_>) {
        let Some(call) = self.data.id.as_deref() else { return };
        let id = BlockId::from(call_id(&self.place.message, call));
        let known = OpenItem {
            name: self.data.name.as_deref().unwrap_or_default().into(),
            created: self.head.created(),
            ..OpenItem::default()
        };
        emitter.side().items.insert(id, known);
        self.emit_call(emitter, None, |_| {});
    }

    /// Shows the input of a call before it begins.
    pub(super) fn end_input(&self, emitter: &mut Emitter<'_>) {
        self.emit_call(emitter, None, |_| {});
    }

    pub(super) fn begin_call(&self, emitter: &mut Emitter<'_>) {
        let (input, ran) = (self.data.input.map(Json::from), self.head.created());
        self.emit_call(emitter, None, |known| {
            known.input = input;
            known.ran = ran;
        });
    }

    /// Reports progress: what matters of it is the session of a subagent.
    pub(super) fn advance_call(&self, emitter: &mut Emitter<'_>) {
        let Some(call) = self.data.id.as_deref() else { return };
        let id = BlockId::from(call_id(&self.place.message, call));
        let known = emitter.side().items.get(&id);
        let is_subagent = known.is_some_and(|it| matches!(&*it.name, "subagent" | "task"));
        if is_subagent {
            self.emit_call(emitter, None, |_| {});
        }
    }

    pub(super) fn end_call(&self, emitter: &mut Emitter<'_>, outcome: CallOutcome<'_>) {
        self.emit_call(emitter, Some(outcome), |known| {
            // A call whose input was cut off is stored with an empty one.
            known.input.get_or_insert_with(|| Json::parse("{}").expect("it is JSON"));
        });
    }

    fn emit_call(
        &self,
        emitter: &mut Emitter<'_>,
        outcome: Option<CallOutcome<'_>>,
        change: impl FnOnce(&mut OpenItem),
    ) {
        let Some(call) = self.data.id.as_deref() else { return };
        let id = BlockId::from(call_id(&self.place.message, call));
        let mut known = emitter.side().items.remove(&id).unwrap_or_default();
        change(&mut known);
        let completed = outcome.and(self.head.created());
        let shown = Call {
            id: call,
            name: &known.name,
            input: known.input.clone(),
            // The whole text of the input is repeated, parsed, when the call begins.
            input_text: self.data.text.as_deref().filter(|it| !it.is_empty()),
            metadata: self.data.metadata,
            executed: self.data.executed,
            time: Time { created: known.created, ran: known.ran, completed },
            outcome,
        };
        let number = emitter.number_of(&self.place, id.as_str());
        shown.emit(emitter, &self.place, number);
        if outcome.is_none() {
            emitter.side().items.insert(id, known);
        }
    }
}

fn read<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}
