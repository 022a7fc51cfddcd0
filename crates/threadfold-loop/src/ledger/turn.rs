//! Turns in the ledger: a request before it is sent, and its answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use threadfold_core::{
    CallId, CallKey, ConversationMessage, Dialect, EvaluationId, Json, Payload, Repair, Setup,
    ToolCallRecord, ToolRequested, TurnAnswered, TurnStarted, TurnState, call_key, repair,
    without_bound_content,
};

use super::Recorder;
use crate::error::LoopError;
use crate::provider::Answer;

/// The provider whose items must have unique ids.
pub(super) const NAMED: &str = "openai";

/// A turn that is about to be sent.
#[derive(Clone, Debug)]
pub struct NewTurn {
    /// The evaluation that the turn belongs to.
    pub evaluation_id: EvaluationId,
    /// The provider.
    pub provider: Arc<str>,
    /// The model.
    pub model: Arc<str>,
    /// The provider's request format.
    pub dialect: Dialect,
    /// The namespace of the prompt, chosen by the caller.
    pub prompt_namespace: Option<Arc<str>>,
    /// The key of the prompt within its namespace.
    pub prompt_key: Option<Arc<str>>,
    /// The system prompt.
    pub system: Option<Arc<str>>,
    /// The tools, rendered for the provider.
    pub tools: Option<Json>,
    /// Other request parameters: a JSON object.
    pub parameters: Option<Json>,
    /// The new messages, besides the previous turn's answer and the results of its calls.
    pub messages: Vec<ConversationMessage>,
    /// Start the request's list over: what was sent before is rendered again with the current
    /// setup.
    pub restart: bool,
    /// Withdraw the last prompt if it got no answer.
    pub withdraws: bool,
}

impl NewTurn {
    /// Returns a turn with only messages.
    pub fn new(provider: &str, model: &str, messages: Vec<ConversationMessage>) -> Self {
        Self {
            evaluation_id: "1".into(),
            provider: provider.into(),
            model: model.into(),
            dialect: Dialect::Anthropic,
            prompt_namespace: None,
            prompt_key: None,
            system: None,
            tools: None,
            parameters: None,
            messages,
            restart: false,
            withdraws: false,
        }
    }
}

/// What a turn sends besides its own messages.
#[derive(Clone)]
pub(crate) struct CarriedMessages {
    pub(crate) messages: Vec<ConversationMessage>,
    /// The state that the turn continues from.
    before: TurnState,
    /// The request's list starts over.
    restart: bool,
    /// The last prompt is withdrawn.
    withdraws: bool,
}

/// An answer of which only the message is known.
impl From<ConversationMessage> for Answer {
    fn from(message: ConversationMessage) -> Self {
        Self { payload: Json::of(&message), message, usage: None, stop_reason: None }
    }
}

impl Recorder {
    /// Records what is about to be sent. The request may be sent when this returns.
    ///
    /// What was sent before is not rendered again. Returns the repairs to the new messages.
    pub async fn begin(&mut self, turn: NewTurn) -> Result<Vec<Repair>, LoopError> {
        let (started, repairs) = self.prepare(turn);
        self.append(vec![Payload::TurnStarted(started)]).await?;
        Ok(repairs)
    }

    /// Returns the event for a turn, and the repairs that it needed.
    pub(crate) fn prepare(&self, turn: NewTurn) -> (TurnStarted, Vec<Repair>) {
        let carried = self.carried_messages(&turn);
        self.prepare_with(turn, &carried)
    }

    /// Returns what a turn sends besides its own messages: whatever no request has sent yet, or
    /// everything if the list starts over.
    pub(crate) fn carried_messages(&self, turn: &NewTurn) -> CarriedMessages {
        let state = self.state();
        let withdraws = turn.withdraws && state.last().is_some_and(|it| it.answer().is_none());
        let before = if withdraws { state.without_withdrawn() } else { state.clone() };
        // If the withdrawn turn started the list over, this turn must do so as well.
        let has_restart = || state.turns().skip(before.turns().len()).any(|it| it.sent().restart);
        let restart = turn.restart || (withdraws && has_restart());
        let messages = match restart {
            true => without_bound_content(before.history()),
            false => unsent(&before),
        };
        CarriedMessages { messages, before, restart, withdraws }
    }

    /// Returns the event for a turn that carries these messages.
    pub(crate) fn prepare_with(
        &self,
        turn: NewTurn,
        carried: &CarriedMessages,
    ) -> (TurnStarted, Vec<Repair>) {
        let state = self.state();
        let number = state.turns().len() as u64 + 1;
        let mut turn = turn;
        for (index, message) in turn.messages.iter_mut().enumerate() {
            identify(message, || format!("turn:{number}:{index}"));
        }
        let repaired = repair(&[&*carried.messages, &*turn.messages].concat());
        let items = turn.dialect.items(&repaired.messages);
        let same = |kept: Option<&str>, new: Option<&str>| kept == new;
        let is_new = |kept: Option<&Json>, new: Option<&Json>| {
            !same(kept.map(Json::as_str), new.map(Json::as_str))
        };
        let started = TurnStarted {
            turn: number,
            evaluation_id: turn.evaluation_id,
            provider: turn.provider,
            model: turn.model,
            prompt_namespace: turn.prompt_namespace,
            prompt_key: turn.prompt_key,
            system: match same(state.system(), turn.system.as_deref()) {
                true => None,
                false => Some(turn.system.unwrap_or_default()),
            },
            tools: match is_new(state.tools(), turn.tools.as_ref()) {
                true => Some(turn.tools.unwrap_or_else(|| Json::of(&[(); 0]))),
                false => None,
            },
            parameters: match is_new(state.parameters(), turn.parameters.as_ref()) {
                true => Some(turn.parameters.unwrap_or_else(|| Json::of(&serde_json::Map::new()))),
                false => None,
            },
            messages: turn.messages,
            items,
            restart: carried.restart && number > 1,
            withdraws: carried.withdraws,
            prefix_hash: state.prefix_hash(),
        };
        let mut repairs = repaired.repairs;
        if !repairs.is_empty() {
            // Repairs are reported with indexes into the whole conversation.
            let sent = carried.before.history_length() - carried.messages.len();
            repairs.iter_mut().for_each(|repair| repair.move_by(sent));
        }
        (started, repairs)
    }

    /// Records the model's answer, with the keys of its calls. Its tools may run when this returns.
    ///
    /// A call with the id of an earlier one is renamed.
    pub async fn answer(&mut self, answer: Answer) -> Result<(), LoopError> {
        self.answer_replacing(answer, Vec::new()).await
    }

    /// Records the model's answer, and removes its preview in the same write.
    pub(crate) async fn answer_replacing(
        &mut self,
        mut answer: Answer,
        shown: Vec<Payload>,
    ) -> Result<(), LoopError> {
        let turn = self.state().turns().len() as u64;
        name_calls(self.state(), &mut answer.message);
        self.name_items(turn, &mut answer.message);
        // Some servers reuse one message id for every answer, but block ids are derived from it.
        if answer.message.message_id.as_ref().is_some_and(|id| self.answers.contains(id)) {
            answer.message.message_id = None;
        }
        identify(&mut answer.message, || format!("turn:{turn}:answer"));
        self.answers.extend(answer.message.message_id.clone());
        let calls = answer.message.tool_calls.clone();
        let cursor = self.cursor();
        // The answer is the next record, so the keys can be derived before it is written.
        let seq = cursor.seq + 1;
        let answered = TurnAnswered {
            turn,
            message: answer.message,
            payload: answer.payload,
            usage: answer.usage,
            stop_reason: answer.stop_reason,
        };
        let requested = (0..).zip(calls).map(|(ordinal, call)| {
            Payload::ToolRequested(ToolRequested {
                turn,
                key: call_key(cursor.log.as_str(), seq, ordinal),
                call_id: call.call_id,
                ordinal,
                name: call.name,
                arguments: call.arguments,
            })
        });
        let payloads = [Payload::TurnAnswered(answered)].into_iter().chain(requested).chain(shown);
        self.append(payloads.collect()).await
    }

    /// Makes the ids of native items unique: some servers reuse them for every answer, and a
    /// request with duplicates is refused.
    fn name_items(&mut self, turn: u64, message: &mut ConversationMessage) {
        for part in &mut message.content {
            let Some(from) = part.item_id(NAMED) else { continue };
            let (mut to, mut count) = (from.clone(), turn);
            while !self.items.insert(to.clone()) {
                to = format!("{from}-{count}");
                count += 1;
            }
            if from != to {
                part.rename_item(NAMED, &to);
            }
        }
    }

    /// Returns the idempotency key of a call.
    pub(super) fn key_of(&self, record: &ToolCallRecord) -> Result<CallKey, LoopError> {
        if let Some(key) = &record.key {
            return Ok(key.clone());
        }
        let seq = self.state().last().and_then(|turn| turn.answer_seq());
        let seq = seq.ok_or_else(|| LoopError::OutOfOrder("there is no answer".to_owned()))?;
        Ok(call_key(self.cursor().log.as_str(), seq, record.ordinal))
    }

    /// Checks that a loop with this setup can resume the conversation.
    pub fn check(&self, today: &Setup<'_>) -> Result<(), LoopError> {
        Ok(self.state().check(&today.fingerprint())?)
    }
}

/// Gives a message an id and a time, unless its author did. The id is the one that its block has.
pub(super) fn identify(message: &mut ConversationMessage, id: impl FnOnce() -> String) {
    message.message_id.get_or_insert_with(|| id().into());
    message.created_at.get_or_insert_with(|| jiff::Timestamp::now().to_string().into());
}

/// Returns what no request has sent yet: the last answer, and the results of its calls.
fn unsent(state: &TurnState) -> Vec<ConversationMessage> {
    let Some(last) = state.last() else { return Vec::new() };
    match last.assistant_message() {
        Some(answer) => [answer.clone()].into_iter().chain(last.tool_messages()).collect(),
        // The turn was abandoned without an answer; its messages are already in the request.
        None => Vec::new(),
    }
}

/// Makes the ids of calls unique.
fn name_calls(state: &TurnState, message: &mut ConversationMessage) {
    let mut names: BTreeSet<CallId> = BTreeSet::new();
    for ordinal in 0..message.tool_calls.len() {
        let from = message.tool_calls[ordinal].call_id.clone();
        let is_taken = |name: &CallId| {
            name.as_str().is_empty() || state.call(name).is_some() || names.contains(name)
        };
        let (mut to, mut count) = (from.clone(), state.turns().len());
        while is_taken(&to) {
            to = format!("{from}-{count}-{ordinal}").into();
            count += 1;
        }
        names.insert(to.clone());
        if from != to {
            message.rename_call(ordinal, to);
        }
    }
}
