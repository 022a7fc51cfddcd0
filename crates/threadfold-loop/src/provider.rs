//! Providers: send requests to a model, and read its answers.

mod access;
mod anthropic;
mod assembly;
mod chat;
mod error;
mod failure;
mod http;
mod json;
mod key;
mod openai;
mod remote;
mod responses;
mod retry_after;
mod scripted;
mod sse;
mod usage;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::{CallId, ConversationMessage, Dialect, Json, MessageId};
use tokio::sync::mpsc;

pub use access::AccessError;
pub use error::ProviderError;
pub use http::Timeouts;
pub use key::Key;
pub use remote::{Anthropic, OpenAiChat, OpenAiResponses};
pub use scripted::{ProviderScript, ScriptCall, ScriptStep, ScriptedProvider};
pub use usage::{AnswerUsage, usage_of};

/// The environment variables that usually hold API keys. They are removed from the environment of
/// tools.
pub(crate) const KEY_VARIABLES: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

/// A complete answer of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The message, with its tool calls.
    pub message: ConversationMessage,
    /// The answer, as the provider returned it.
    pub payload: Json,
    /// The token usage, as the provider reported it.
    pub usage: Option<Json>,
    /// Why the model stopped, as the provider reported it.
    pub stop_reason: Option<Arc<str>>,
}

/// A part of an incomplete answer. Informational: the recorded answer does not depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// The answer started.
    Started {
        /// The message id, if the provider assigns one.
        message: Option<MessageId>,
    },
    /// More text.
    Text {
        /// The index of the message part, from 0.
        part: usize,
        /// The text.
        text: String,
    },
    /// More reasoning.
    Thinking {
        /// The index of the message part, from 0.
        part: usize,
        /// The text.
        text: String,
    },
    /// More of a call's arguments.
    Call {
        /// The call.
        call: CallId,
        /// The tool.
        name: Arc<str>,
        /// The additional arguments; empty when the call starts.
        arguments: String,
    },
}

impl Delta {
    /// Returns how many bytes of content it has.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Started { .. } => 0,
            Self::Text { text, .. } | Self::Thinking { text, .. } => text.len(),
            Self::Call { arguments, .. } => arguments.len(),
        }
    }
}

/// A channel for the parts of an answer.
#[derive(Clone, Debug)]
pub struct Deltas(mpsc::Sender<Delta>);

impl Deltas {
    /// Returns the two ends of a channel.
    pub fn channel() -> (Self, mpsc::Receiver<Delta>) {
        let (sender, receiver) = mpsc::channel(64);
        (Self(sender), receiver)
    }

    /// Sends a delta. Waits for the receiver, and does nothing if there is none.
    pub async fn send(&self, delta: Delta) {
        if self.0.send(delta).await.is_err() {
            // The receiver is gone. The answer does not depend on it.
        }
    }
}

/// A provider of a model.
///
/// A provider sends the request exactly as given and never renders one itself, so that what was
/// recorded is what is sent.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns its name. A conversation must be resumed with the same provider.
    fn name(&self) -> &str;

    /// Returns its request format.
    fn dialect(&self) -> Dialect;

    /// Returns the default request parameters besides the conversation: a JSON object.
    fn parameters(&self) -> Json;

    /// Sends a request once. A truncated or malformed answer is an error.
    async fn ask(&self, request: Bytes, deltas: &Deltas) -> Result<Answer, ProviderError>;
}
