//! What a step did, and what was odd about it.

use std::fmt;
use std::sync::Arc;

use crate::event::{Rank, TextField};
use crate::id::{AgentId, BlockId, ConversationId, RequestId, ToolUseId};

/// What a step did to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an ignored event is an anomaly that someone should see"]
pub enum Outcome {
    /// The state changed.
    Applied,
    /// The state changed, and something was odd about it.
    Noted(Anomaly),
    /// The event is in order and changes nothing here: it was known, or it belongs elsewhere.
    Unchanged,
    /// The event does not fit; the state is as it was.
    Ignored(Anomaly),
}

impl Outcome {
    /// Returns what was odd.
    pub fn anomaly(&self) -> Option<&Anomaly> {
        match self {
            Self::Noted(anomaly) | Self::Ignored(anomaly) => Some(anomaly),
            Self::Applied | Self::Unchanged => None,
        }
    }
}

/// What does not fit about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anomaly {
    /// A type that this version does not know.
    UnknownEvent {
        /// The type's name.
        kind: Arc<str>,
    },
    /// A conversation that nothing was said of yet.
    UnknownConversation {
        /// Its name.
        conversation: ConversationId,
    },
    /// A block that is not there.
    UnknownBlock {
        /// Its name.
        block: BlockId,
    },
    /// A question that was never asked.
    UnknownRequest {
        /// Its name.
        request: RequestId,
    },
    /// The block that another should stand behind is not there; it went to the end.
    UnknownPlace {
        /// The block that was placed.
        block: BlockId,
        /// The one that is not there.
        after: BlockId,
    },
    /// The block has no text of that name that can grow.
    NoSuchText {
        /// The block.
        block: BlockId,
        /// The text.
        field: TextField,
    },
    /// Text is missing before this delta.
    Gap {
        /// The block.
        block: BlockId,
        /// How many bytes there are.
        have: u64,
        /// How many bytes stand before the delta.
        offset: u64,
    },
    /// The delta's offset lies within a letter.
    BadOffset {
        /// The block.
        block: BlockId,
        /// The offset.
        offset: u64,
    },
    /// The delta repeats text that is there, and it is not the same.
    OtherText {
        /// The block.
        block: BlockId,
        /// The offset.
        offset: u64,
    },
    /// A block became one of another type.
    TypeChanged {
        /// The block.
        block: BlockId,
        /// What it was.
        from: Arc<str>,
        /// What it is.
        to: Arc<str>,
    },
    /// Another source took this block out; it stays out until that source says it again.
    TakenOut {
        /// The block.
        block: BlockId,
        /// Who took it out.
        by: Rank,
    },
    /// A call that belongs to one subagent was said to be another's.
    NameTaken {
        /// The call.
        call: ToolUseId,
        /// The subagent it was said to be.
        agent: AgentId,
    },
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownEvent { kind } => write!(f, "event of the unknown type `{kind}`"),
            Self::UnknownConversation { conversation } => {
                write!(f, "nothing was said in conversation `{conversation}`")
            }
            Self::UnknownBlock { block } => write!(f, "block `{block}` is not there"),
            Self::UnknownRequest { request } => write!(f, "request `{request}` was never made"),
            Self::UnknownPlace { block, after } => write!(
                f,
                "block `{block}` should stand behind `{after}`, which is not there; it went to the end"
            ),
            Self::NoSuchText { block, field } => {
                let field = match field {
                    TextField::Content => "content",
                    TextField::Input => "input",
                };
                write!(f, "block `{block}` has no text `{field}` that can grow")
            }
            Self::Gap { block, have, offset } => write!(
                f,
                "block `{block}` has {have} bytes of text, and the delta stands behind {offset}"
            ),
            Self::BadOffset { block, offset } => {
                write!(f, "offset {offset} of block `{block}` lies within a letter")
            }
            Self::OtherText { block, offset } => {
                write!(
                    f,
                    "block `{block}` has other text at offset {offset} than the delta repeats"
                )
            }
            Self::TypeChanged { block, from, to } => {
                write!(f, "block `{block}` was `{from}` and became `{to}`")
            }
            Self::TakenOut { block, by } => {
                let by = match by {
                    Rank::Stream => "stream",
                    Rank::Transcript => "transcript",
                };
                write!(f, "block `{block}` was taken out by the {by}")
            }
            Self::NameTaken { call, agent } => {
                write!(f, "call `{call}` belongs to another agent than `{agent}`")
            }
        }
    }
}
