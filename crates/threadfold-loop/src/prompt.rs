//! Prompts: the initial messages of a run, rendered from a typed request.

use std::sync::Arc;

use serde::Serialize;
use threadfold_core::{ConversationMessage, Json, Role};

use crate::output::Output;

/// A rendered prompt: the initial messages of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderedPrompt {
    /// The namespace of the prompt, chosen by the caller.
    pub namespace: Option<Arc<str>>,
    /// The key of the prompt within its namespace.
    pub key: Option<Arc<str>>,
    /// The system prompt; defaults to the loop's.
    pub system: Option<Arc<str>>,
    /// The messages.
    pub messages: Vec<ConversationMessage>,
}

impl RenderedPrompt {
    /// Returns a prompt with one user message.
    pub fn text(text: &str) -> Self {
        Self { messages: vec![ConversationMessage::text(Role::User, text)], ..Self::default() }
    }
}

/// A prompt: a name, and how to render a typed request.
///
/// A request is identified by its content: running an equal request resumes its unfinished run. See
/// [`MainLoop`](crate::MainLoop).
pub trait Prompt: Send + Sync {
    /// The request that the prompt is rendered from.
    type Request: Serialize + Sync;
    /// The type of the last answer.
    type Output: Output;

    /// Returns the namespace of the prompt.
    fn namespace(&self) -> &str;

    /// Returns the key of the prompt within its namespace.
    fn key(&self) -> &str;

    /// Renders the prompt for a request.
    fn render(&self, request: &Self::Request) -> RenderedPrompt;
}

/// Returns the key of a request's runs: equal for equal requests, different otherwise.
pub(crate) fn run_key(namespace: &str, key: &str, request: &Json) -> RunKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"threadfold run 1\n");
    for piece in [namespace, key, &request.canonical()] {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece.as_bytes());
    }
    RunKey(hasher.finalize().to_hex().as_str().into())
}

/// The key of a request's runs. Contains only letters and digits, so that it can be part of a file
/// name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey(Arc<str>);

impl RunKey {
    /// Returns the key of the runs of a request to a prompt.
    pub fn of<P: Prompt>(prompt: &P, request: &P::Request) -> Self {
        run_key(prompt.namespace(), prompt.key(), &Json::of(request))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
