//! Whether a loop that goes on is the loop that stopped: prompt, tools and model, by content.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ContentHash;
use crate::json::Json;
use crate::turn::content_hash::of_text;

/// What a loop is run with.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The system prompt.
    pub system: Option<&'a str>,
    /// The tools, as they are told to the model.
    pub tools: Option<&'a Json>,
    /// Who is asked.
    pub provider: &'a str,
    /// Which model is asked.
    pub model: &'a str,
}

/// The hashes of what a loop is run with.
///
/// Of the tools neither white space nor the order of keys counts, and no tools are as an empty
/// list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    /// Of the system prompt.
    pub system: ContentHash,
    /// Of the tools.
    pub tools: ContentHash,
    /// Of the provider and its model.
    pub model: ContentHash,
}

impl Setup<'_> {
    /// Returns the hashes of all of it.
    pub fn fingerprint(&self) -> Fingerprint {
        let tools = self.tools.filter(|it| !it.is_empty_list());
        Fingerprint {
            system: of_text(self.system.filter(|it| !it.is_empty())),
            tools: of_text(tools.map(Json::canonical).as_deref()),
            model: of_text(Some(&format!("{}\n{}", self.provider, self.model))),
        }
    }
}

/// A loop cannot simply go on: what it is run with has changed since.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} changed since the conversation was kept", listed(.changed))]
pub struct ConversationStateMismatch {
    /// What changed; never empty.
    pub changed: Vec<Mismatch>,
}

/// One thing that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What.
    pub part: SetupPart,
    /// Its hash in the conversation.
    pub kept: ContentHash,
    /// Its hash today.
    pub found: ContentHash,
}

/// A part of what a loop is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupPart {
    /// The system prompt.
    SystemPrompt,
    /// The tools.
    Tools,
    /// The provider and its model.
    Model,
}

impl fmt::Display for SetupPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SystemPrompt => "the system prompt",
            Self::Tools => "the tools",
            Self::Model => "the model",
        })
    }
}

fn listed(changed: &[Mismatch]) -> String {
    let parts: Vec<_> = changed.iter().map(|it| it.part.to_string()).collect();
    parts.join(" and ")
}

impl Fingerprint {
    /// Compares what was kept with what there is today.
    pub fn compare(&self, today: &Self) -> Result<(), ConversationStateMismatch> {
        let parts = [
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
