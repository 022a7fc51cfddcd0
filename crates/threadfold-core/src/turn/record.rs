//! One turn as it is kept: what was sent, the answer, and the ledger of its calls.

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::event::{Effect, ResultSource, TurnAnswered, TurnStarted};
use crate::id::{CallId, CallKey, EvaluationId};
use crate::json::Json;
use crate::turn::message::{ConversationMessage, Role};

/// One turn: what was sent, what was answered, and what became of each call.
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

/// An entry of the ledger: a call and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallRecord {
    /// The call, as the model named it.
    pub call_id: CallId,
    /// Its place among the answer's calls, from 0.
    pub ordinal: u64,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments, exactly as the model wrote them.
    pub arguments: Arc<str>,
    /// Its name towards the tool, once it was said.
    pub key: Option<CallKey>,
    /// The last attempt, from 1; 0 if there was none.
    pub attempt: u64,
    /// What running it twice would do, as was said when it was started.
    pub effect: Option<Effect>,
    /// How far it has come.
    pub state: CallState,
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallState {
    /// The model asked for it.
    Requested,
    /// The tool was about to run, or ran.
    Started,
    /// It has its result, and the model may have seen it.
    Finished(CallResult),
    /// The last attempt failed, and the model was not told yet.
    Failed {
        /// Why.
        error: Json,
    },
    /// What became of the last attempt is not known.
    Unknown {
        /// Why not.
        reason: Arc<str>,
    },
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallResult {
    /// What the model is told.
    pub message: ConversationMessage,
    /// The call failed.
    pub is_error: bool,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// Who says so.
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

    /// Returns the turn's number, from 1.
    pub fn number(&self) -> u64 {
        self.sent.turn
    }

    /// Returns the run of the loop that it is part of.
    pub fn evaluation_id(&self) -> &EvaluationId {
        &self.sent.evaluation_id
    }

    /// Returns what was sent, as far as it was not sent before.
    pub fn sent(&self) -> &TurnStarted {
        &self.sent
    }

    /// Returns the answer, once it is there.
    pub fn answer(&self) -> Option<&TurnAnswered> {
        self.answer.as_deref()
    }

    /// Returns the record of the answer in the log, which names its calls; see
    /// [`call_key`](crate::call_key).
    pub fn answer_seq(&self) -> Option<u64> {
        self.answer_seq
    }

    /// Returns the model's message, once it is there.
    pub fn assistant_message(&self) -> Option<&ConversationMessage> {
        self.answer().map(|answer| &answer.message)
    }

    /// Returns the answer as the provider gave it.
    pub fn provider_payload(&self) -> Option<&Json> {
        self.answer().map(|answer| &answer.payload)
    }

    /// Returns the calls in the order that the model made them.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = &Arc<ToolCallRecord>> {
        self.calls.iter()
    }

    /// Returns what the model is told of its calls, in the order that it made them.
    pub fn tool_messages(&self) -> impl Iterator<Item = ConversationMessage> {
        self.calls.iter().filter_map(|call| call.tool_message())
    }

    /// Says whether nothing more will come of it.
    pub fn is_completed(&self) -> bool {
        self.is_completed
    }

    /// Returns when it began, by the clock of whoever ran the loop.
    pub fn created_at(&self) -> Option<&str> {
        self.created_at.as_deref()
    }

    /// Returns all that was said in it, in the order that a model is told it.
    ///
    /// A result among the messages sent is left out if the ledger has it: it is told once.
    pub(crate) fn messages(&self, is_kept: impl Fn(&CallId) -> bool) -> Vec<ConversationMessage> {
        let sent = self.sent.messages.iter().filter(|message| {
            let answers = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool);
            !answers.is_some_and(&is_kept)
        });
        sent.chain(self.assistant_message()).cloned().chain(self.tool_messages()).collect()
    }
}

impl ToolCallRecord {
    /// Returns what it gave, once that is there.
    pub fn result(&self) -> Option<&CallResult> {
        match &self.state {
            CallState::Finished(result) => Some(result),
            _ => None,
        }
    }

    /// Returns what the model is told, once that is there.
    pub fn tool_message(&self) -> Option<ConversationMessage> {
        let result = self.result()?;
        let mut message = result.message.clone();
        message.tool_call_id = Some(self.call_id.clone());
        message.is_error |= result.is_error;
        Some(message)
    }
}
