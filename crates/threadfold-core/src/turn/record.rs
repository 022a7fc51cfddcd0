//! One turn in the ledger: what was sent, the answer, and the state of its calls.

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::event::{Effect, ResultSource, TurnAnswered, TurnStarted};
use crate::id::{CallId, CallKey, EvaluationId};
use crate::json::Json;
use crate::turn::message::{ConversationMessage, Role};

/// One turn: what was sent, what was answered, and the state of each call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationTurn {
    pub(crate) sent: Arc<TurnStarted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Arc<TurnAnswered>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer_seq: Option<u64>,
    pub(crate) calls: Vector<Arc<ToolCallRecord>>,
    pub(crate) is_completed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<Arc<str>>,
}

/// A ledger entry: a call and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallRecord {
    /// The call's id, as the model chose it.
    pub call_id: CallId,
    /// The call's index within the answer, from 0.
    pub ordinal: u64,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments, exactly as the model wrote them.
    pub arguments: Arc<str>,
    /// The idempotency key that the tool receives, once recorded.
    pub key: Option<CallKey>,
    /// The latest attempt, from 1; 0 before the first.
    pub attempt: u64,
    /// The effect of running it twice, as recorded at its start.
    pub effect: Option<Effect>,
    /// The call's progress.
    pub state: CallState,
}

/// The progress of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallState {
    /// The model requested the call.
    Requested,
    /// The tool was about to run, or ran.
    Started,
    /// The call has its result, which the model may have seen.
    Finished(CallResult),
    /// The latest attempt failed, and the model has not seen the failure yet.
    Failed {
        /// The error.
        error: Json,
    },
    /// The outcome of the latest attempt is unknown.
    Unknown {
        /// The reason.
        reason: Arc<str>,
    },
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallResult {
    /// The message for the model.
    pub message: ConversationMessage,
    /// The call failed.
    pub is_error: bool,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// Where the result comes from.
    pub source: ResultSource,
}

impl ConversationTurn {
    pub(crate) fn new(sent: TurnStarted, created_at: Option<Arc<str>>) -> Self {
        Self {
            sent: Arc::new(sent),
            answer: None,
            answer_seq: None,
            calls: Vector::new(),
            is_completed: false,
            created_at,
        }
    }

    /// Returns the turn number, from 1.
    pub fn number(&self) -> u64 {
        self.sent.turn
    }

    /// Returns the evaluation that the turn belongs to.
    pub fn evaluation_id(&self) -> &EvaluationId {
        &self.sent.evaluation_id
    }

    /// Returns what the turn sent, beyond what earlier turns sent.
    pub fn sent(&self) -> &TurnStarted {
        &self.sent
    }

    /// Returns the answer, once recorded.
    pub fn answer(&self) -> Option<&TurnAnswered> {
        self.answer.as_deref()
    }

    /// Returns the log record of the answer, from which [`call_key`](crate::call_key) derives the
    /// keys of its calls.
    pub fn answer_seq(&self) -> Option<u64> {
        self.answer_seq
    }

    /// Returns the model's message, once recorded.
    pub fn assistant_message(&self) -> Option<&ConversationMessage> {
        self.answer().map(|answer| &answer.message)
    }

    /// Returns the answer as the provider returned it.
    pub fn provider_payload(&self) -> Option<&Json> {
        self.answer().map(|answer| &answer.payload)
    }

    /// Returns the calls in the order in which the model made them.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = &Arc<ToolCallRecord>> {
        self.calls.iter()
    }

    /// Returns the tool messages for the model, in the order in which it made the calls.
    pub fn tool_messages(&self) -> impl Iterator<Item = ConversationMessage> {
        self.calls.iter().filter_map(|call| call.tool_message())
    }

    /// Returns true if the turn is complete.
    pub fn is_completed(&self) -> bool {
        self.is_completed
    }

    /// Returns when the turn started, by the clock of the process that ran the loop.
    pub fn created_at(&self) -> Option<&str> {
        self.created_at.as_deref()
    }

    /// Returns the turn's messages in the order in which the model sees them.
    pub(crate) fn messages(&self, is_kept: impl Fn(&CallId) -> bool) -> Vec<ConversationMessage> {
        let sent = self.own_messages(is_kept);
        sent.chain(self.assistant_message()).cloned().chain(self.tool_messages()).collect()
    }

    /// Returns how many messages the model sees of this turn.
    pub(crate) fn message_count(&self, is_kept: impl Fn(&CallId) -> bool) -> usize {
        let results = self.calls.iter().filter(|call| call.result().is_some()).count();
        self.own_messages(is_kept).count() + usize::from(self.answer.is_some()) + results
    }

    /// Returns the sent messages. A tool result among them is skipped if the ledger has it, so that
    /// it appears once.
    fn own_messages(
        &self,
        is_kept: impl Fn(&CallId) -> bool,
    ) -> impl Iterator<Item = &ConversationMessage> {
        self.sent.messages.iter().filter(move |message| {
            let answers = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool);
            !answers.is_some_and(&is_kept)
        })
    }
}

impl ToolCallRecord {
    /// Returns the result, once recorded.
    pub fn result(&self) -> Option<&CallResult> {
        match &self.state {
            CallState::Finished(result) => Some(result),
            _ => None,
        }
    }

    /// Returns the tool message for the model, once there is a result.
    pub fn tool_message(&self) -> Option<ConversationMessage> {
        let result = self.result()?;
        let mut message = result.message.clone();
        message.tool_call_id = Some(self.call_id.clone());
        message.is_error |= result.is_error;
        Some(message)
    }
}
