//! The payloads of a loop's own events: turns, tool calls, checkpoints.
//!
//! Each is durable before what it tells has an effect: what is sent before it is sent, an answer
//! before its tools start, a start before the tool runs, a result before the model sees it.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{CallId, CallKey, CheckpointId, ContentHash, EvaluationId};
use crate::json::Json;
use crate::object::{Object, RawFields, deserialize_with, objects, value_fields};
use crate::turn::ConversationMessage;

objects! {
    /// A turn began: all that is sent to the model, as far as it was not sent before.
    pub struct TurnStarted {
        /// The turn, counted from 1.
        turn: u64 = "turn",
        /// The run of the loop that it is part of.
        evaluation_id: EvaluationId = "evaluationId",
        /// Who is asked.
        provider: Arc<str> = "provider",
        /// Which model is asked.
        model: Arc<str> = "model",
        /// Where the prompt is kept, in words of whoever keeps it.
        prompt_namespace: Option<Arc<str>> = "promptNamespace",
        /// The prompt's name there.
        prompt_key: Option<Arc<str>> = "promptKey",
        /// The system prompt, exactly; absent if it is the one of the turn before.
        system: Option<Arc<str>> = "system",
        /// The tools, exactly; absent if they are those of the turn before.
        tools: Option<Json> = "tools",
        /// What else the request says, exactly; absent if it is as in the turn before.
        parameters: Option<Json> = "parameters",
        /// The messages that were not sent before. Results of calls are not among them: the
        /// ledger has those.
        messages: Vec<ConversationMessage> = "messages",
        /// What is added to the list that the request carries, each item exactly as it is sent:
        /// the answer of the turn before, the results of its calls, the messages.
        items: Vec<Json> = "items",
        /// The request's list begins anew with these items: what was sent before is not sent.
        restart: bool = "restart",
        /// What the turn before said is taken back: it found no answer, and is not sent again.
        withdraws: bool = "withdraws",
        /// The hash of all that was sent and answered before.
        prefix_hash: ContentHash = "prefixHash",
    }

    /// The model answered.
    pub struct TurnAnswered {
        /// The turn.
        turn: u64 = "turn",
        /// The answer, with its tool calls.
        message: ConversationMessage = "message",
        /// The answer as the provider gave it.
        payload: Json = "payload",
        /// What it used, in the provider's words.
        usage: Option<Json> = "usage",
        /// Why the model stopped, in the provider's words.
        stop_reason: Option<Arc<str>> = "stopReason",
    }

    /// A turn is closed: nothing of it is open.
    pub struct TurnCompleted {
        /// The turn.
        turn: u64 = "turn",
    }

    /// The model asked for a tool.
    pub struct ToolRequested {
        /// The turn.
        turn: u64 = "turn",
        /// The call.
        call_id: CallId = "callId",
        /// Its place among the answer's calls, counted from 0.
        ordinal: u64 = "ordinal",
        /// Its name towards the tool.
        key: CallKey = "key",
        /// The tool.
        name: Arc<str> = "name",
        /// The arguments, exactly as the model wrote them.
        arguments: Arc<str> = "arguments",
    }

    /// A tool is about to run.
    pub struct ToolStarted {
        /// The call.
        call_id: CallId = "callId",
        /// Its name towards the tool.
        key: CallKey = "key",
        /// How often it was tried with this, counted from 1.
        attempt: u64 = "attempt",
        /// What running it twice would do.
        effect: Effect = "effect",
        /// The attempt that this one takes back; the tool itself runs with the next.
        undoes: Option<u64> = "undoes",
    }

    /// A call has its result.
    pub struct ToolFinished {
        /// The call.
        call_id: CallId = "callId",
        /// The attempt that gave it; 0 if the tool never ran.
        attempt: u64 = "attempt",
        /// What the model is told.
        result: ConversationMessage = "result",
        /// The call failed.
        is_error: bool = "isError",
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
        /// Who says so.
        source: ResultSource = "source",
    }

    /// An attempt failed; the tool says so itself.
    pub struct ToolFailed {
        /// The call.
        call_id: CallId = "callId",
        /// The attempt.
        attempt: u64 = "attempt",
        /// Why.
        error: Json = "error",
    }

    /// What became of an attempt is not known.
    pub struct ToolUnknown {
        /// The call.
        call_id: CallId = "callId",
        /// The attempt.
        attempt: u64 = "attempt",
        /// Why it is not known.
        reason: Arc<str> = "reason",
    }

    /// There is a place to resume from.
    pub struct CheckpointSaved {
        /// The place.
        checkpoint_id: CheckpointId = "checkpointId",
        /// The record that it stands behind.
        seq: Option<u64> = "seq",
    }
}

/// What running a tool twice would do, from harmless to harmful.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: it only looks.
    Pure,
    /// Nothing, if it is given the same key.
    Idempotent,
    /// It can be asked whether it happened.
    Probe,
    /// It can be undone.
    Compensable,
    /// Harm, for all that is known.
    #[default]
    Unsafe,
}

/// Who says what a call gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultSource {
    /// The tool, when it ran.
    Tool,
    /// A person, in its place.
    Person,
    /// The tool, when it was asked whether it happened.
    Probe,
    /// Nobody: the result only says that the outcome is not known.
    Repair,
}

value_fields! {
    Effect: "an effect: `pure`, `idempotent`, `probe`, `compensable` or `unsafe`",
    ResultSource: "a source: `tool`, `person`, `probe` or `repair`",
}

/// Makes payloads data of their own, for a loop's state keeps them.
macro_rules! kept {
    ($($type:ident),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                self.write_into(&mut map)?;
                map.end()
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize_with(deserializer, |raw| Self::take(&mut RawFields::parse(raw)?))
            }
        }
    )*};
}

kept!(TurnStarted, TurnAnswered, CheckpointSaved);
