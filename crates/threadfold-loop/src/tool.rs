//! Tools: what the model may ask for, and what running one twice would do.

mod typed;

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;
use threadfold_core::{CallId, CallKey, Effect, Json, MessagePart, SessionId};
use threadfold_store::Epoch;
use tokio_util::sync::CancellationToken;

pub use typed::{TypedTool, tool};

/// What the model is told of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Json,
}

/// One call of a tool, as the tool sees it.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The call, as the model named it.
    pub call_id: CallId,
    /// The call's name towards the outside: the same in every attempt, and no other call's.
    pub key: CallKey,
    /// How often it was tried with this one, from 1.
    pub attempt: u64,
    /// The loop went on after it had stopped, and this call was begun before.
    pub is_resume: bool,
    /// The session that the call is part of.
    pub session: SessionId,
    /// The lease under which it runs: with a later one given out, somebody else has taken over.
    pub epoch: Epoch,
    /// When it must be done.
    pub deadline: Option<Instant>,
    /// Says when it should stop.
    pub cancel: CancellationToken,
}

/// What a tool gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// What the model is told.
    pub content: Vec<MessagePart>,
    /// It tells of a failure.
    pub is_error: bool,
}

/// Why a tool gave nothing.
///
/// With `?` words become an error that is [`Failed`](ErrorOutcome::Failed), for they are what the
/// tool itself says. An [`io::Error`](std::io::Error) becomes one that is
/// [`Unknown`](ErrorOutcome::Unknown): a connection that breaks off, a disk that is full say
/// nothing of what was done before. A tool that knows better says [`ToolError::failed`].
///
/// ```
/// use threadfold_loop::{ErrorOutcome, ToolError};
///
/// assert_eq!(ToolError::from("no such bill").outcome, ErrorOutcome::Failed);
/// let broken_off = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
/// assert_eq!(ToolError::from(broken_off).outcome, ErrorOutcome::Unknown);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// What the model is told.
    pub message: String,
    /// Whether it may have done something.
    pub outcome: ErrorOutcome,
}

/// What became of an attempt that gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOutcome {
    /// It failed, and says so itself: the model may make the call again.
    Failed,
    /// Nobody knows: it may have been done, as a whole or in part.
    Unknown,
}

/// What a tool answers when it is asked whether a call happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// It did, and gave this.
    Happened(ToolOutput),
    /// It did not: it may run.
    DidNot,
    /// It cannot tell: a person decides.
    CannotTell,
}

/// Something that the model may ask for.
///
/// What running it twice would do is [`effect`](Self::effect). After a crash only that decides
/// what becomes of a call that was begun and of which no result was kept.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns what the model is told of it.
    fn definition(&self) -> ToolDefinition;

    /// Returns what running it twice would do.
    fn effect(&self) -> Effect {
        Effect::Unsafe
    }

    /// Runs it. `arguments` are exactly what the model wrote, and need not be JSON.
    async fn call(&self, arguments: &str, context: &ToolContext) -> Result<ToolOutput, ToolError>;

    /// Says whether the call of this key happened. Asked of tools that are [`Effect::Probe`].
    async fn probe(&self, arguments: &str, context: &ToolContext) -> Result<Probe, ToolError> {
        let (_, _) = (arguments, context);
        Ok(Probe::CannotTell)
    }

    /// Takes back whatever the call of this key did, if it did anything. It may be asked again.
    /// Asked of tools that are [`Effect::Compensable`].
    async fn undo(&self, arguments: &str, context: &ToolContext) -> Result<(), ToolError> {
        let (_, _) = (arguments, context);
        Err(ToolError::unknown("the tool does not know how to undo a call"))
    }
}

impl ToolOutput {
    /// Returns an output of words.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self { content: vec![MessagePart::text(text.as_ref())], is_error: false }
    }

    /// Returns its words.
    pub fn to_text(&self) -> String {
        self.content.iter().filter_map(MessagePart::to_text).collect()
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl ToolError {
    /// Returns the error of a tool that failed and knows it.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), outcome: ErrorOutcome::Failed }
    }

    /// Returns the error of a tool that cannot say what it did.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self { message: message.into(), outcome: ErrorOutcome::Unknown }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self::failed(message)
    }
}

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self::failed(message)
    }
}

impl From<std::io::Error> for ToolError {
    fn from(error: std::io::Error) -> Self {
        Self::unknown(format!("{error}; what was done before that is not known"))
    }
}
