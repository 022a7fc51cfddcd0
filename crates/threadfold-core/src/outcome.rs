//! The result of a step, and anomalies in the input.

use std::fmt;
use std::sync::Arc;

use crate::event::{Rank, TextField};
use crate::id::{AgentId, BlockId, CallId, ConversationId, RequestId, ToolUseId};
use crate::turn::Role;

/// What a step did to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an ignored event is an anomaly that someone should see"]
pub enum Outcome {
    /// The state changed.
    Applied,
    /// The state changed, but something about the event was odd.
    Noted(Anomaly),
    /// The event is valid and changes nothing: it is a duplicate, or concerns another state.
    Unchanged,
    /// The event does not fit. The state is unchanged.
    Ignored(Anomaly),
}

impl Outcome {
    /// Returns the anomaly, if there is one.
    pub fn anomaly(&self) -> Option<&Anomaly> {
        match self {
            Self::Noted(anomaly) | Self::Ignored(anomaly) => Some(anomaly),
            Self::Applied | Self::Unchanged => None,
        }
    }
}

/// Why an event does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anomaly {
    /// The event type is unknown.
    UnknownEvent {
        /// The type's wire name.
        kind: Arc<str>,
    },
    /// The conversation does not exist.
    UnknownConversation {
        /// The conversation.
        conversation: ConversationId,
    },
    /// The block does not exist.
    UnknownBlock {
        /// The block.
        block: BlockId,
    },
    /// The question does not exist.
    UnknownRequest {
        /// The question.
        request: RequestId,
    },
    /// The block to insert after does not exist. The block was appended at the end.
    UnknownAnchor {
        /// The inserted block.
        block: BlockId,
        /// The missing block.
        after: BlockId,
    },
    /// The block has no such text field that can grow.
    UnknownText {
        /// The block.
        block: BlockId,
        /// The text field.
        field: TextField,
    },
    /// Text before this delta is missing.
    Gap {
        /// The block.
        block: BlockId,
        /// The number of bytes in the block's text.
        have: u64,
        /// The number of bytes before the delta.
        offset: u64,
    },
    /// The delta's offset is not on a character boundary.
    BadOffset {
        /// The block.
        block: BlockId,
        /// The offset.
        offset: u64,
    },
    /// The delta overlaps existing text, and the two differ.
    TextMismatch {
        /// The block.
        block: BlockId,
        /// The offset.
        offset: u64,
    },
    /// The block's type changed.
    TypeChanged {
        /// The block.
        block: BlockId,
        /// The old type.
        from: Arc<str>,
        /// The new type.
        to: Arc<str>,
    },
    /// A source of another rank removed the block. It stays removed until a source of that rank
    /// reports it again.
    Removed {
        /// The block.
        block: BlockId,
        /// The rank that removed it.
        by: Rank,
    },
    /// A call of one subagent was attributed to another.
    NameConflict {
        /// The call.
        call: ToolUseId,
        /// The subagent that it was attributed to.
        agent: AgentId,
    },
    /// The turn never started.
    UnknownTurn {
        /// The turn number.
        turn: u64,
    },
    /// The turn is out of order.
    TurnOutOfOrder {
        /// The turn received.
        turn: u64,
        /// The turn expected.
        expected: u64,
    },
    /// The turn was already reported, with different content.
    TurnMismatch {
        /// The turn number.
        turn: u64,
    },
    /// The turn has no answer, or a call has no result.
    TurnOpen {
        /// The turn number.
        turn: u64,
    },
    /// The turn's prefix hash does not match the turns stored here.
    PrefixMismatch {
        /// The turn number.
        turn: u64,
    },
    /// A message has the wrong role for its position.
    WrongRole {
        /// The role found.
        found: Role,
        /// The role expected.
        wanted: Role,
    },
    /// The call does not exist.
    UnknownCall {
        /// The call.
        call: CallId,
    },
    /// An answer contains two calls with the same id. Only the first can have a result.
    DuplicateCall {
        /// The call.
        call: CallId,
    },
    /// The call was already reported, with different content.
    CallMismatch {
        /// The call.
        call: CallId,
    },
    /// The call already has a result, which is kept.
    CallFinished {
        /// The call.
        call: CallId,
    },
    /// The attempt never started.
    UnknownAttempt {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u64,
    },
    /// A later attempt was started since.
    StaleAttempt {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u64,
        /// The latest attempt.
        last: u64,
    },
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownEvent { kind } => write!(f, "unknown event type `{kind}`"),
            Self::UnknownConversation { conversation } => {
                write!(f, "conversation `{conversation}` does not exist")
            }
            Self::UnknownBlock { block } => write!(f, "block `{block}` does not exist"),
            Self::UnknownRequest { request } => write!(f, "request `{request}` does not exist"),
            Self::UnknownAnchor { block, after } => write!(
                f,
                "block `{block}` should follow `{after}`, which does not exist; it was appended at the end"
            ),
            Self::UnknownText { block, field } => {
                let field = match field {
                    TextField::Content => "content",
                    TextField::Input => "input",
                };
                write!(f, "block `{block}` has no text field `{field}` to append to")
            }
            Self::Gap { block, have, offset } => write!(
                f,
                "block `{block}` has {have} bytes of text, but the delta starts at offset {offset}"
            ),
            Self::BadOffset { block, offset } => {
                write!(f, "offset {offset} of block `{block}` is not on a character boundary")
            }
            Self::TextMismatch { block, offset } => {
                write!(
                    f,
                    "the delta at offset {offset} differs from the text that block `{block}` already has"
                )
            }
            Self::TypeChanged { block, from, to } => {
                write!(f, "block `{block}` changed its type from `{from}` to `{to}`")
            }
            Self::Removed { block, by } => {
                let by = match by {
                    Rank::Stream => "stream",
                    Rank::Transcript => "transcript",
                };
                write!(f, "block `{block}` was removed by the {by}")
            }
            Self::NameConflict { call, agent } => {
                write!(f, "call `{call}` belongs to another agent, not to `{agent}`")
            }
            Self::UnknownTurn { turn } => write!(f, "turn {turn} never started"),
            Self::TurnOutOfOrder { turn, expected } => {
                write!(f, "received turn {turn}, expected turn {expected}")
            }
            Self::TurnMismatch { turn } => {
                write!(f, "turn {turn} was already reported differently")
            }
            Self::TurnOpen { turn } => {
                write!(f, "turn {turn} has no answer, or a call without a result")
            }
            Self::PrefixMismatch { turn } => {
                write!(f, "the prefix hash of turn {turn} does not match the stored turns")
            }
            Self::WrongRole { found, wanted } => {
                write!(f, "found a message with role `{found}`, expected `{wanted}`")
            }
            Self::UnknownCall { call } => write!(f, "call `{call}` does not exist"),
            Self::DuplicateCall { call } => write!(f, "the answer contains call `{call}` twice"),
            Self::CallMismatch { call } => {
                write!(f, "call `{call}` was already reported differently")
            }
            Self::CallFinished { call } => write!(f, "call `{call}` already has a result"),
            Self::UnknownAttempt { call, attempt } => {
                write!(f, "attempt {attempt} of call `{call}` never started")
            }
            Self::StaleAttempt { call, attempt, last } => {
                write!(f, "attempt {attempt} of call `{call}` is older than attempt {last}")
            }
        }
    }
}
