//! Turns of our loop: what was sent, what was answered, and the state of each call.
//!
//! A separate fold beside the conversation's. [`TurnState`] holds enough to resume after a crash.

mod content_hash;
mod message;
mod mismatch;
mod part;
mod record;
mod reduce;
mod restore;
mod resume;
mod state;

pub use content_hash::call_key;
pub use message::{ConversationMessage, Role, ToolCall};
pub use mismatch::{ConversationStateMismatch, Fingerprint, Mismatch, Setup, SetupPart};
pub use part::{MessagePart, MessagePartBody, NativePart, ThinkingPart};
pub use record::{CallResult, CallState, ConversationTurn, ToolCallRecord};
pub use restore::TurnRestoreError;
pub use resume::{
    CallAction, DecisionOption, NextStep, PlannedCall, ResumePlan, ToolIdempotencyError,
    resume_plan,
};
pub use state::TurnState;
