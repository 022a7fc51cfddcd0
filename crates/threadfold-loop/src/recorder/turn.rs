//! Turns in the ledger: what is sent, before it is sent, and what was answered.

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

/// Whose items must have ids of their own.
pub(super) const NAMED: &str = "openai";

/// A turn that is about to be sent.
#[derive(Clone, Debug)]
pub struct NewTurn {
    /// The run of the loop that it is part of.
    pub evaluation_id: EvaluationId,
    /// Who is asked.
    pub provider: Arc<str>,
    /// Which model is asked.
    pub model: Arc<str>,
    /// How the provider wants a conversation to be written.
    pub dialect: Dialect,
    /// Where the prompt is kept, in words of whoever keeps it.
    pub prompt_namespace: Option<Arc<str>>,
    /// The prompt's name there.
    pub prompt_key: Option<Arc<str>>,
    /// The system prompt.
    pub system: Option<Arc<str>>,
    /// The tools, as the provider is told of them.
    pub tools: Option<Json>,
    /// What else the request says: a JSON object.
    pub parameters: Option<Json>,
    /// What is new, beside the answer of the turn before and what its calls gave.
    pub messages: Vec<ConversationMessage>,
    /// Begin the request anew: what was sent before is rendered again, with what there is today.
    pub restart: bool,
    /// Take back what was said last, if that found no answer.
    pub withdraws: bool,
}

impl NewTurn {
    /// Returns a turn that only says something.
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

/// What a turn carries beside its own messages.
#[derive(Clone)]
pub(crate) struct Carried {
    pub(crate) messages: Vec<ConversationMessage>,
    /// What it goes on from.
    before: TurnState,
    /// The request's list begins anew.
    restart: bool,
    /// What was said last is taken back.
    withdraws: bool,
}

/// An answer of somebody who keeps nothing beside the message.
impl From<ConversationMessage> for Answer {
    fn from(message: ConversationMessage) -> Self {
        Self { payload: Json::of(&message), message, usage: None, stop_reason: None }
    }
}

impl Recorder {
    /// Says what is about to be sent. When this returns it may be.
    ///
    /// What was sent before is not rendered again. Returns what had to be repaired of what is new.
    pub async fn begin(&mut self, turn: NewTurn) -> Result<Vec<Repair>, LoopError> {
        let (started, repairs) = self.prepare(turn);
        self.say(vec![Payload::TurnStarted(started)]).await?;
        Ok(repairs)
    }

    /// Returns what would be recorded of a turn, and what had to be repaired for it.
    pub(crate) fn prepare(&self, turn: NewTurn) -> (TurnStarted, Vec<Repair>) {
        let carried = self.carried(&turn);
        self.prepare_with(turn, &carried)
    }

    /// Returns what a turn carries beside its own messages: what no request has carried yet, or,
    /// if it is begun anew, all.
    pub(crate) fn carried(&self, turn: &NewTurn) -> Carried {
        let state = self.state();
        let withdraws = turn.withdraws && state.last().is_some_and(|it| it.answer().is_none());
        let before = if withdraws { state.without_withdrawn() } else { state.clone() };
        // Where the list began anew with what is taken back, it begins anew once more.
        let restart =
            turn.restart || state.turns().skip(before.turns().len()).any(|it| it.sent().restart);
        let messages = match restart {
            true => without_bound_content(before.history()),
            false => unsent(&before),
        };
        Carried { messages, before, restart, withdraws }
    }

    /// Returns what would be recorded of a turn that carries this.
    pub(crate) fn prepare_with(
        &self,
        turn: NewTurn,
        carried: &Carried,
    ) -> (TurnStarted, Vec<Repair>) {
        let state = self.state();
        let number = state.turns().len() as u64 + 1;
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
            // They are told by places in the whole conversation.
            let sent = carried.before.history().len() - carried.messages.len();
            repairs.iter_mut().for_each(|repair| repair.move_by(sent));
        }
        (started, repairs)
    }

    /// Says what the model answered, with the names of its calls. When this returns its tools may
    /// run.
    ///
    /// A call that has the name of an earlier one gets one of its own.
    pub async fn answer(&mut self, answer: Answer) -> Result<(), LoopError> {
        self.answer_instead_of(answer, Vec::new()).await
    }

    /// Says what the model answered, and takes back what was shown of it before.
    pub(crate) async fn answer_instead_of(
        &mut self,
        mut answer: Answer,
        shown: Vec<Payload>,
    ) -> Result<(), LoopError> {
        let turn = self.state().turns().len() as u64;
        name_calls(self.state(), &mut answer.message);
        self.name_items(turn, &mut answer.message);
        // Some servers give every answer the same name; blocks go by it.
        if answer.message.message_id.as_ref().is_some_and(|id| self.answers.contains(id)) {
            answer.message.message_id = None;
        }
        self.answers.extend(answer.message.message_id.clone());
        let calls = answer.message.tool_calls.clone();
        let cursor = self.cursor();
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
        let said = [Payload::TurnAnswered(answered)].into_iter().chain(requested).chain(shown);
        self.say(said.collect()).await
    }

    /// Gives each item that its provider named an id that no other has: some servers give every
    /// answer the same ones, and a request with two of one id is refused.
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

    /// Returns a call's name towards its tool.
    pub(super) fn key_of(&self, record: &ToolCallRecord) -> Result<CallKey, LoopError> {
        if let Some(key) = &record.key {
            return Ok(key.clone());
        }
        let seq = self.state().last().and_then(|turn| turn.answer_seq());
        let seq = seq.ok_or_else(|| LoopError::OutOfOrder("there is no answer".to_owned()))?;
        Ok(call_key(self.cursor().log.as_str(), seq, record.ordinal))
    }

    /// Checks that a loop which is run with `today` can go on with what was recorded.
    pub fn check(&self, today: &Setup<'_>) -> Result<(), LoopError> {
        Ok(self.state().check(&today.fingerprint())?)
    }
}

/// Returns what no request has carried yet: the last answer, and what its calls gave.
fn unsent(state: &TurnState) -> Vec<ConversationMessage> {
    let Some(last) = state.last() else { return Vec::new() };
    match last.assistant_message() {
        Some(answer) => [answer.clone()].into_iter().chain(last.tool_messages()).collect(),
        // A turn that was given up without an answer: what it sent is in the request.
        None => Vec::new(),
    }
}

/// Gives each call a name that no other has.
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
