//! The payloads of our loop's events: turns, tool calls and checkpoints.
//!
//! Each event is durable before the action that it announces: a request before it is sent, an
//! answer before its tools start, a start before the tool runs, a result before the model sees it.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{CallId, CallKey, CheckpointId, ContentHash, EvaluationId};
use crate::json::Json;
use crate::json_object::{Object, RawFields, deserialize_with, objects, value_fields};
use crate::turn::ConversationMessage;

objects! {
    /// A turn started. Carries the part of the request that earlier turns did not send.
    pub struct TurnStarted {
        /// The turn number, from 1.
        turn: u64 = "turn",
        /// The evaluation that the turn belongs to.
        evaluation_id: EvaluationId = "evaluationId",
        /// The provider.
        provider: Arc<str> = "provider",
        /// The model.
        model: Arc<str> = "model",
        /// The namespace of the prompt, chosen by the caller.
        prompt_namespace: Option<Arc<str>> = "promptNamespace",
        /// The key of the prompt within its namespace.
        prompt_key: Option<Arc<str>> = "promptKey",
        /// The system prompt, verbatim; absent if unchanged since the previous turn.
        system: Option<Arc<str>> = "system",
        /// The tools, verbatim; absent if unchanged since the previous turn.
        tools: Option<Json> = "tools",
        /// Other request parameters, verbatim; absent if unchanged since the previous turn.
        parameters: Option<Json> = "parameters",
        /// The messages that were not sent before, without tool results: those are in the ledger.
        messages: Vec<ConversationMessage> = "messages",
        /// The items that the turn appends to the request's list, each verbatim as sent: the
        /// previous turn's answer, the results of its calls, the messages.
        items: Vec<Json> = "items",
        /// Whether `items` replace the request's list instead of extending it.
        restart: bool = "restart",
        /// Withdraws the previous turn's prompt, which got no answer and is not sent again.
        withdraws: bool = "withdraws",
        /// The hash of everything sent and answered before this turn.
        prefix_hash: ContentHash = "prefixHash",
    }

    /// The model answered.
    pub struct TurnAnswered {
        /// The turn.
        turn: u64 = "turn",
        /// The answer, with its tool calls.
        message: ConversationMessage = "message",
        /// The answer, as the provider returned it.
        payload: Json = "payload",
        /// The token usage, as the provider reported it.
        usage: Option<Json> = "usage",
        /// Why the model stopped, as the provider reported it.
        stop_reason: Option<Arc<str>> = "stopReason",
    }

    /// A turn is complete: no call of it is open.
    pub struct TurnCompleted {
        /// The turn.
        turn: u64 = "turn",
    }

    /// The model requested a tool call.
    pub struct ToolRequested {
        /// The turn.
        turn: u64 = "turn",
        /// The call.
        call_id: CallId = "callId",
        /// The call's index within the answer, from 0.
        ordinal: u64 = "ordinal",
        /// The idempotency key that the tool receives.
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
        /// The idempotency key that the tool receives.
        key: CallKey = "key",
        /// The attempt number for this key, from 1.
        attempt: u64 = "attempt",
        /// The effect of running the tool twice.
        effect: Effect = "effect",
        /// The attempt that this one undoes. The tool itself runs again with the next attempt.
        undoes: Option<u64> = "undoes",
    }

    /// A call has its result.
    pub struct ToolFinished {
        /// The call.
        call_id: CallId = "callId",
        /// The attempt that produced the result; 0 if the tool never ran.
        attempt: u64 = "attempt",
        /// The message for the model.
        result: ConversationMessage = "result",
        /// The call failed.
        is_error: bool = "isError",
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
        /// Where the result comes from.
        source: ResultSource = "source",
    }

    /// An attempt failed, as the tool itself reported.
    pub struct ToolFailed {
        /// The call.
        call_id: CallId = "callId",
        /// The attempt.
        attempt: u64 = "attempt",
        /// The error.
        error: Json = "error",
    }

    /// The outcome of an attempt is unknown.
    pub struct ToolUnknown {
        /// The call.
        call_id: CallId = "callId",
        /// The attempt.
        attempt: u64 = "attempt",
        /// The reason.
        reason: Arc<str> = "reason",
    }

    /// A checkpoint was saved.
    pub struct CheckpointSaved {
        /// The checkpoint.
        checkpoint_id: CheckpointId = "checkpointId",
        /// The record that the checkpoint follows.
        seq: Option<u64> = "seq",
    }
}

/// The effect of running a tool twice, from harmless to harmful.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// None: the tool only reads.
    Pure,
    /// None, if both runs use the same key.
    Idempotent,
    /// The tool can report whether an earlier attempt took effect.
    Probe,
    /// The tool can undo an earlier attempt.
    Compensable,
    /// Possibly harmful. The default for unknown tools.
    #[default]
    Unsafe,
}

/// Where a call's result comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultSource {
    /// The tool, when it ran.
    Tool,
    /// A person, in the tool's place.
    Person,
    /// The tool, when it was probed.
    Probe,
    /// No source: the result only states that the outcome is unknown.
    Repair,
}

value_fields! {
    Effect: "an effect: `pure`, `idempotent`, `probe`, `compensable` or `unsafe`",
    ResultSource: "a source: `tool`, `person`, `probe` or `repair`",
}

/// Implements `Serialize` and `Deserialize` for payloads that `TurnState` stores.
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
