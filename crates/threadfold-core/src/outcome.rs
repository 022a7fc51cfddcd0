//! What a step did, and what was odd about it.

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
    /// A turn that never began.
    UnknownTurn {
        /// Its number.
        turn: u64,
    },
    /// Another turn should come next.
    TurnOutOfOrder {
        /// The turn that came.
        turn: u64,
        /// The one that should.
        expected: u64,
    },
    /// The turn was told before, and otherwise.
    OtherTurn {
        /// Its number.
        turn: u64,
    },
    /// A turn lacks its answer or the result of a call.
    TurnOpen {
        /// Its number.
        turn: u64,
    },
    /// What was sent before the turn is not what is kept here.
    OtherPrefix {
        /// Its number.
        turn: u64,
    },
    /// A message of another role than its place wants.
    WrongRole {
        /// The role it has.
        found: Role,
        /// The role it should have.
        wanted: Role,
    },
    /// A call that nobody made.
    UnknownCall {
        /// The call.
        call: CallId,
    },
    /// An answer has two calls of one name; only the first can be answered.
    CallTwice {
        /// The call.
        call: CallId,
    },
    /// The call was told before, and otherwise.
    OtherCall {
        /// The call.
        call: CallId,
    },
    /// The call has its result, which stays.
    CallFinished {
        /// The call.
        call: CallId,
    },
    /// An attempt that was never started.
    NeverStarted {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u64,
    },
    /// Another attempt was started since.
    StaleAttempt {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u64,
        /// The last one.
        last: u64,
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
            Self::UnknownTurn { turn } => write!(f, "turn {turn} never began"),
            Self::TurnOutOfOrder { turn, expected } => {
                write!(f, "turn {turn} came where turn {expected} should")
            }
            Self::OtherTurn { turn } => write!(f, "turn {turn} was told otherwise before"),
            Self::TurnOpen { turn } => {
                write!(f, "turn {turn} lacks its answer or the result of a call")
            }
            Self::OtherPrefix { turn } => {
                write!(f, "what was sent before turn {turn} is not what is kept here")
            }
            Self::WrongRole { found, wanted } => {
                write!(f, "a message of the role `{found}` stands where `{wanted}` should speak")
            }
            Self::UnknownCall { call } => write!(f, "call `{call}` was never made"),
            Self::CallTwice { call } => write!(f, "an answer has two calls `{call}`"),
            Self::OtherCall { call } => write!(f, "call `{call}` was told otherwise before"),
            Self::CallFinished { call } => write!(f, "call `{call}` has its result already"),
            Self::NeverStarted { call, attempt } => {
                write!(f, "attempt {attempt} of call `{call}` was never started")
            }
            Self::StaleAttempt { call, attempt, last } => {
                write!(f, "attempt {attempt} of call `{call}` came after attempt {last}")
            }
        }
    }
}
