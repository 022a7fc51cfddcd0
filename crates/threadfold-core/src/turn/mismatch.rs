//! Detects whether the prompt, the tools or the model changed between a run and its resume.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ContentHash;
use crate::json::Json;
use crate::turn::content_hash::of_text;

/// The prompt, tools and model that a loop runs with.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The namespace of the prompt.
    pub namespace: Option<&'a str>,
    /// The key of the prompt within its namespace.
    pub key: Option<&'a str>,
    /// The system prompt.
    pub system: Option<&'a str>,
    /// The tools, in the form sent to the model.
    pub tools: Option<&'a Json>,
    /// The provider.
    pub provider: &'a str,
    /// The model.
    pub model: &'a str,
}

/// The hashes of what a loop runs with.
///
/// White space and key order in the tools are ignored, and an absent tool list equals an empty one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    /// The hash of the prompt's namespace.
    pub namespace: ContentHash,
    /// The hash of the prompt's key.
    pub key: ContentHash,
    /// The hash of the system prompt.
    pub system: ContentHash,
    /// The hash of the tools.
    pub tools: ContentHash,
    /// The hash of the provider and model.
    pub model: ContentHash,
}

impl Setup<'_> {
    /// Returns the hashes.
    pub fn fingerprint(&self) -> Fingerprint {
        let tools = self.tools.filter(|it| !it.is_empty_list());
        Fingerprint {
            namespace: of_text(self.namespace),
            key: of_text(self.key),
            system: of_text(self.system.filter(|it| !it.is_empty())),
            tools: of_text(tools.map(Json::canonical).as_deref()),
            model: of_text(Some(&format!("{}\n{}", self.provider, self.model))),
        }
    }
}

/// A loop cannot resume as is: the setup has changed since the conversation started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} changed since the conversation started", list(.changed))]
pub struct ConversationStateMismatch {
    /// The changes; never empty.
    pub changed: Vec<Mismatch>,
}

/// One change to the setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The part that changed.
    pub part: SetupPart,
    /// Its hash in the conversation.
    pub kept: ContentHash,
    /// Its current hash.
    pub found: ContentHash,
}

/// A part of what a loop runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupPart {
    /// The namespace of the prompt.
    PromptNamespace,
    /// The key of the prompt.
    PromptKey,
    /// The system prompt.
    SystemPrompt,
    /// The tools.
    Tools,
    /// The provider and model.
    Model,
}

impl fmt::Display for SetupPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PromptNamespace => "the prompt's namespace",
            Self::PromptKey => "the prompt's key",
            Self::SystemPrompt => "the system prompt",
            Self::Tools => "the tools",
            Self::Model => "the model",
        })
    }
}

fn list(changed: &[Mismatch]) -> String {
    let parts: Vec<_> = changed.iter().map(|it| it.part.to_string()).collect();
    parts.join(" and ")
}

impl Fingerprint {
    /// Compares the stored fingerprint with the current one.
    pub fn compare(&self, today: &Self) -> Result<(), ConversationStateMismatch> {
        let parts = [
            (SetupPart::PromptNamespace, &self.namespace, &today.namespace),
            (SetupPart::PromptKey, &self.key, &today.key),
            (SetupPart::SystemPrompt, &self.system, &today.system),
            (SetupPart::Tools, &self.tools, &today.tools),
            (SetupPart::Model, &self.model, &today.model),
        ];
        let changed: Vec<_> = parts
            .into_iter()
            .filter(|(_, kept, found)| kept != found)
            .map(|(part, kept, found)| Mismatch { part, kept: kept.clone(), found: found.clone() })
            .collect();
        if changed.is_empty() { Ok(()) } else { Err(ConversationStateMismatch { changed }) }
    }
}
