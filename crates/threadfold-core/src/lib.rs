//! The pure heart of Threadfold: what an agent says becomes one conversation state.
//!
//! ```text
//! source ─► record ─► store ─► converter ─► events ─► reduce ─► state ─► bus ─► client
//!                                           └────── this crate ──────┘
//! ```
//!
//! An agent's live stream and the transcript it leaves on disk are turned into the same
//! [`SessionEvent`]s. [`reduce`] folds them into one [`ConversationState`]: the blocks of the
//! main conversation, and the subagents with theirs. However the two are interleaved, the state
//! ends up the same.
//!
//! ```
//! use threadfold_core::{ConversationState, Outcome, SessionEvent};
//!
//! let lines = [
//!     r#"{"type":"block:upsert","payload":{"block":{"id":"b1","type":"assistant_text",
//!         "status":"pending","content":""}},"context":{"conversationId":"main"}}"#,
//!     r#"{"type":"block:delta","payload":{"blockId":"b1","delta":"Hello"},
//!         "context":{"conversationId":"main"}}"#,
//!     r#"{"type":"session:idle","payload":{},"context":{"conversationId":"main"}}"#,
//! ];
//! let mut state = ConversationState::default();
//! let mut changes = Vec::new();
//! for line in lines {
//!     let event = SessionEvent::from_json(line)?;
//!     assert_eq!(state.apply_with(&event, &mut changes), Outcome::Applied);
//! }
//! let json = serde_json::to_value(&state)?;
//! assert_eq!(json["blocks"][0]["content"], "Hello");
//! assert_eq!(json["blocks"][0]["interrupted"], true, "its source never closed it");
//! assert_eq!(changes.len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A loop of our own is heard as events, too. [`TurnState`] keeps what it takes to go on with one
//! after a crash, [`resume_plan`] says how, and [`repair`] makes its history one that every
//! provider takes.
//!
//! # What it does not do
//!
//! It touches nothing: no files, network, clock, randomness, threads. Times, positions and names
//! arrive inside events. It does not know any agent's format, and it keeps nothing on disk.

mod block;
mod change;
mod event;
mod hash;
mod id;
mod json;
mod metadata;
mod object;
mod outcome;
mod reduce;
mod rules;
mod state;
mod text;
mod turn;

pub use block::{
    AssistantText, Block, BlockBody, BlockStatus, Content, Error, FilePart, ImagePart, Part,
    PartBody, Permission, SkillLoad, Subagent, System, TextPart, Thinking, ToolResult, ToolUse,
    Unknown, UserMessage,
};
pub use change::{Change, apply_changes};
pub use event::*;
pub use hash::StateHash;
pub use id::{
    AgentId, BlockId, CallId, CallKey, CheckpointId, ContentHash, ConversationId, EvaluationId,
    MessageId, RequestId, SessionId, SourceId, StateId, ToolUseId,
};
pub use json::{Fields, Json};
pub use metadata::{SessionMetadata, TokenUsage};
pub use object::DecodeError;
pub use outcome::{Anomaly, Outcome};
pub use reduce::{fold, reduce};
pub use rules::{
    Dialect, INTERRUPTED, Repair, Repaired, Rule, Violation, check_anthropic,
    check_anthropic_continuation, check_chat, check_responses, render_anthropic, render_chat,
    render_responses, repair, unbound, without_lone_surrogates,
};
pub use state::{
    Blocks, ConversationState, RunHeader, Shelf, Snapshot, SnapshotError, SnapshotPart,
    SubagentHeader, SubagentRef,
};
pub use text::Text;
pub use turn::{
    CallAction, CallResult, CallState, ConversationMessage, ConversationStateMismatch,
    ConversationTurn, Fingerprint, MessagePart, MessagePartBody, Mismatch, NativePart, NextStep,
    PlannedCall, ResumePlan, Role, Setup, SetupPart, SnapshotRestoreError, ThinkingPart, ToolCall,
    ToolCallRecord, ToolIdempotencyError, TurnState, WayOut, call_key, resume_plan,
};
