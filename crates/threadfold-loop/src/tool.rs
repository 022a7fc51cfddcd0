//! Tools: what the model can call, and the effect of running each one twice.

mod typed;

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;
use threadfold_core::{CallId, CallKey, Effect, Json, MessagePart, SessionId};
use threadfold_store::Epoch;
use tokio_util::sync::CancellationToken;

pub use typed::{TypedTool, tool};

/// The description of a tool for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Json,
}

/// The context of one tool call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The call's id, as the model chose it.
    pub call_id: CallId,
    /// The idempotency key: the same in every attempt, and unique to this call.
    pub key: CallKey,
    /// The attempt number for this key, from 1.
    pub attempt: u64,
    /// The loop was resumed, and the call had already been started.
    pub is_resume: bool,
    /// The session of the call.
    pub session: SessionId,
    /// The epoch of the lease that it runs under. A later epoch means that another process took
    /// over.
    pub epoch: Epoch,
    /// When the tool must be done.
    pub deadline: Option<Instant>,
    /// Cancelled when the tool should stop.
    pub cancel: CancellationToken,
}

/// The output of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The content for the model.
    pub content: Vec<MessagePart>,
    /// The output reports a failure.
    pub is_error: bool,
}

/// Why a tool returned no output.
///
/// With `?`, a string becomes a [`Failed`](ErrorOutcome::Failed) error, because it is the tool's
/// own report. An [`io::Error`](std::io::Error) becomes an [`Unknown`](ErrorOutcome::Unknown)
/// error, because a broken connection or a full disk leaves open what was done before. A tool that
/// knows better returns [`ToolError::failed`].
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
    /// The message for the model.
    pub message: String,
    /// Whether the call may have taken effect.
    pub outcome: ErrorOutcome,
}

/// The outcome of an attempt that returned an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOutcome {
    /// It failed without an effect, as the tool itself reports. The model may call it again.
    Failed,
    /// Unknown: it may have taken effect, completely or in part.
    Unknown,
}

/// A tool's answer to whether a call took effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// It did, with this output.
    Happened(ToolOutput),
    /// It did not: the tool may run.
    DidNotHappen,
    /// The tool does not know: a person decides.
    Unknown,
}

/// A tool that the model can call.
///
/// [`effect`](Self::effect) is the effect of running it twice. After a crash, only that decides
/// what happens to a started call without a recorded result.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the description for the model.
    fn definition(&self) -> ToolDefinition;

    /// Returns the effect of running the tool twice.
    fn effect(&self) -> Effect {
        Effect::Unsafe
    }

    /// Runs the tool. `arguments` are exactly what the model wrote, and need not be valid JSON.
    async fn call(&self, arguments: &str, context: &ToolContext) -> Result<ToolOutput, ToolError>;

    /// Returns whether the call with this key took effect. Called for tools with [`Effect::Probe`].
    async fn probe(&self, arguments: &str, context: &ToolContext) -> Result<Probe, ToolError> {
        let (_, _) = (arguments, context);
        Ok(Probe::Unknown)
    }

    /// Undoes whatever the call with this key did, if anything. Must be idempotent. Called for
    /// tools with [`Effect::Compensable`].
    async fn undo(&self, arguments: &str, context: &ToolContext) -> Result<(), ToolError> {
        let (_, _) = (arguments, context);
        Err(ToolError::unknown("the tool cannot undo a call"))
    }
}

impl ToolOutput {
    /// Returns a text output.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self { content: vec![MessagePart::text(text.as_ref())], is_error: false }
    }

    /// Returns a text output that reports a failure.
    pub(crate) fn error(text: impl AsRef<str>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Returns the text.
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
    /// Returns the error of a tool that failed without an effect.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), outcome: ErrorOutcome::Failed }
    }

    /// Returns the error of a tool whose effect is unknown.
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
        Self::unknown(format!("{error}; the effects before that are unknown"))
    }
}
