//! Turns of a loop of ours: what was sent, what was answered, and what became of each call.
//!
//! A fold of its own beside the conversation's. What it holds is enough to go on after a crash:
//! see [`TurnState`].

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
pub use restore::SnapshotRestoreError;
pub use resume::{
    CallAction, NextStep, PlannedCall, ResumePlan, ToolIdempotencyError, WayOut, resume_plan,
};
pub use state::TurnState;
