//! The pure core of Threadfold: folds an agent's events into one conversation state.
//!
//! ```text
//! source ─► record ─► store ─► converter ─► events ─► reduce ─► state ─► bus ─► client
//!                                           └────── this crate ──────┘
//! ```
//!
//! Converters turn an agent's live stream and its transcript on disk into the same
//! [`SessionEvent`]s. [`reduce`] folds them into one [`ConversationState`]: the blocks of the main
//! conversation, and each subagent with its own. The final state does not depend on how the two
//! sources are interleaved.
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
//! Our own agent loop emits events too. [`TurnState`] holds what a loop needs to resume after a
//! crash, [`resume_plan`] decides the next step, and [`repair`] turns its history into one that
//! every provider accepts.
//!
//! # What it does not do
//!
//! It performs no I/O: no files, network, clock, randomness or threads. Times, positions and names
//! arrive inside events. It knows no agent's format and stores nothing on disk.

mod block;
mod change;
mod event;
mod hash;
mod id;
mod json;
mod json_object;
mod metadata;
mod outcome;
mod provider_rules;
mod reduce;
mod state;
mod text;
mod turn;
#[doc(hidden)]
pub mod work;

pub use block::{
    AssistantTextBlock, Block, BlockBody, BlockStatus, Content, ErrorBlock, FilePart, ImagePart,
    Part, PartBody, PermissionBlock, SkillLoadBlock, SubagentBlock, SystemBlock, TextPart,
    ThinkingBlock, ToolResultBlock, ToolUseBlock, UnknownBlock, UserMessageBlock,
};
pub use change::{Change, apply_changes};
pub use event::*;
pub use hash::StateHash;
pub use id::{
    AgentId, BlockId, CallId, CallKey, CheckpointId, ContentHash, ConversationId, EvaluationId,
    MessageId, RequestId, SessionId, SourceId, StateId, ToolUseId,
};
pub use json::{Fields, Json, JsonError};
pub use json_object::DecodeError;
pub use metadata::{SessionMetadata, TokenUsage};
pub use outcome::{Anomaly, Outcome};
pub use provider_rules::{
    Dialect, ProviderRule, Repair, RepairedHistory, RequestCheck, Violation, check_anthropic,
    check_anthropic_continuation, check_chat, check_responses, render_anthropic, render_chat,
    render_responses, repair, without_bound_content, without_lone_surrogates,
};
pub use reduce::{fold, reduce};
pub use state::{
    Blocks, ConversationState, OutlinePlaces, OutlineWriters, RunHeader, SnapshotError,
    SnapshotPart, SpillStore, StateOutline, StateSnapshot, SubagentHeader, SubagentRef,
};
pub use text::Text;
pub use turn::{
    CallAction, CallResult, CallState, ConversationMessage, ConversationStateMismatch,
    ConversationTurn, DecisionOption, Fingerprint, MessagePart, MessagePartBody, Mismatch,
    NativePart, NextStep, PlannedCall, ResumePlan, Role, Setup, SetupPart, ThinkingPart, ToolCall,
    ToolCallRecord, ToolIdempotencyError, TurnRestoreError, TurnState, call_key, resume_plan,
};
