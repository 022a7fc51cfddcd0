//! Prompts: what a run begins with, made of a typed request.

use std::sync::Arc;

use serde::Serialize;
use threadfold_core::{ConversationMessage, Json, Role};

use crate::output::Output;

/// What a run begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// Where the prompt is kept, in words of whoever keeps it.
    pub namespace: Option<Arc<str>>,
    /// The prompt's name there.
    pub key: Option<Arc<str>>,
    /// The system prompt; the agent's if there is none.
    pub system: Option<Arc<str>>,
    /// What is said.
    pub messages: Vec<ConversationMessage>,
}

impl Rendered {
    /// Returns a prompt that only says something.
    pub fn text(text: &str) -> Self {
        Self { messages: vec![ConversationMessage::text(Role::User, text)], ..Self::default() }
    }
}

/// A prompt: a name, and how a typed request becomes what the model is told.
///
/// A request is known by its content. A run of the same request that is not finished is gone on
/// with; see [`MainLoop`](crate::MainLoop).
pub trait Prompt: Send + Sync {
    /// What it is made of.
    type Request: Serialize + Sync;
    /// What the last answer is read as.
    type Output: Output;

    /// Returns where it is kept.
    fn namespace(&self) -> &str;

    /// Returns its name there.
    fn key(&self) -> &str;

    /// Returns what the model is told.
    fn render(&self, request: &Self::Request) -> Rendered;
}

/// Returns the name of a request's runs: the same for equal requests, and no other's.
pub(crate) fn run_key(namespace: &str, key: &str, request: &Json) -> RunKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"threadfold run 1\n");
    for piece in [namespace, key, &request.canonical()] {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece.as_bytes());
    }
    RunKey(hasher.finalize().to_hex().as_str().into())
}

/// The name of a request's runs: letters and digits, whatever the request holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey(Arc<str>);

impl RunKey {
    /// Returns the name of the runs of a request to a prompt.
    pub fn of<P: Prompt>(prompt: &P, request: &P::Request) -> Self {
        run_key(prompt.namespace(), prompt.key(), &Json::of(request))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
