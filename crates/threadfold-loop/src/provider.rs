//! Providers: who is asked, and what comes back.

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
pub use scripted::{Script, ScriptCall, ScriptStep, Scripted};
pub use usage::{Usage, usage_of};

/// The variables in which people keep their keys. No tool is handed them.
pub const KEY_VARIABLES: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

/// A model's whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What it said, with its tool calls.
    pub message: ConversationMessage,
    /// The same as the provider gave it.
    pub payload: Json,
    /// What it used, in the provider's words.
    pub usage: Option<Json>,
    /// Why the model stopped, in the provider's words.
    pub stop_reason: Option<Arc<str>>,
}

/// A piece of an answer that is still being made. Nothing depends on it: it is for whoever looks
/// on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// An answer begins.
    Begun {
        /// Its name, if the provider gives it one.
        message: Option<MessageId>,
    },
    /// More words.
    Text {
        /// Their part of the message, from 0.
        part: usize,
        /// The words.
        text: String,
    },
    /// More of what the model thinks.
    Thinking {
        /// Its part of the message, from 0.
        part: usize,
        /// The words.
        text: String,
    },
    /// More of a call's arguments.
    Call {
        /// The call.
        call: CallId,
        /// The tool.
        name: Arc<str>,
        /// More of the arguments; empty when the call begins.
        arguments: String,
    },
}

/// Where pieces of an answer go.
#[derive(Clone, Debug)]
pub struct Deltas(mpsc::Sender<Delta>);

impl Deltas {
    /// Returns a place for pieces, and where they come out.
    pub fn channel() -> (Self, mpsc::Receiver<Delta>) {
        let (sender, receiver) = mpsc::channel(64);
        (Self(sender), receiver)
    }

    /// Hands a piece on. It waits for whoever looks on, and goes on alone if nobody does.
    pub async fn send(&self, delta: Delta) {
        if self.0.send(delta).await.is_err() {
            // Whoever looked on is gone; the answer comes all the same.
        }
    }
}

/// Somebody who can be asked.
///
/// A provider is given a request as the bytes that are sent, and never makes any of its own: what
/// was recorded is what is sent.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns its name. A conversation that was begun with one is not gone on with by another.
    fn name(&self) -> &str;

    /// Returns how it wants a conversation to be written.
    fn dialect(&self) -> Dialect;

    /// Returns what a request says beside the conversation, if nothing else is said: a JSON
    /// object.
    fn parameters(&self) -> Json;

    /// Asks once. An answer that broke off is an error, and so is one that cannot be read.
    async fn ask(&self, request: Bytes, deltas: &Deltas) -> Result<Answer, ProviderError>;
}
