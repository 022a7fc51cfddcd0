//! A strict provider: it accepts a request only if it violates none of the provider's rules.
//!
//! It validates like a provider, from the request and from its own earlier answers: it parses JSON
//! itself, walks through the messages once, and records the prefix of each of its thinking blocks.
//! It shares no code with the validators of the core, so that each can detect errors of the
//! other. The rules are documented in `docs/reference/provider-rules.md`.

mod answer;
mod anthropic;
mod chat;
mod http;
mod json;
mod memory;
mod responses;

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub use self::http::StrictServer;
use self::memory::Memory;

/// The endpoint of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Chat Completions.
    ChatCompletions,
    /// OpenAI's Responses.
    Responses,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Messages, Self::ChatCompletions, Self::Responses];

    /// Returns the path of its address.
    pub fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule, such as `A1`; `shape` for a field that is missing or has another type.
    pub rule: &'static str,
    /// What was found, and where.
    pub found: String,
}

impl Refusal {
    fn new(rule: &'static str, found: impl Into<String>) -> Self {
        Self { rule, found: found.into() }
    }

    fn shape(found: impl Into<String>) -> Self {
        Self::new("shape", found)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.rule, self.found)
    }
}

/// A provider's validation, and its record of earlier answers.
#[derive(Default)]
pub struct StrictProvider {
    memory: Mutex<Memory>,
}

impl StrictProvider {
    /// Returns all violations of a request.
    pub fn judge(&self, endpoint: Endpoint, body: &[u8]) -> Vec<Refusal> {
        let request = match json::read(body) {
            Ok(request) => request,
            Err(error) => return vec![Refusal::new("A7", error)],
        };
        let memory = self.memory();
        match endpoint {
            Endpoint::Messages => anthropic::judge(&request, &memory),
            Endpoint::ChatCompletions => chat::judge(&request),
            Endpoint::Responses => responses::judge(&request, &memory),
        }
    }

    /// Records `answer` as the response to `request` of Anthropic's Messages; an object
    /// whose `content` is the blocks.
    ///
    /// # Panics
    ///
    /// If one of them is not JSON.
    pub fn gave_message(&self, request: &[u8], answer: &[u8]) {
        let request = json::read(request).expect("a request that was answered is JSON");
        let answer = json::read(answer).expect("an answer is JSON");
        self.memory().gave_message(&request, &answer);
    }

    /// Records `response` as given, an object of OpenAI's Responses with `id` and
    /// `output`.
    ///
    /// # Panics
    ///
    /// If it is not JSON.
    pub fn gave_response(&self, response: &[u8], keeping: ResponseStorage) {
        let response = json::read(response).expect("a response is JSON");
        self.memory().gave_response(&response, keeping);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // The record only grows, so a panic elsewhere cannot leave it inconsistent.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether later requests can refer to a response by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseStorage {
    /// It was stored.
    Stored,
    /// It was not.
    NotStored,
}
