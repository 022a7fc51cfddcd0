//! What a server reports about itself.

use serde::Serialize;
use utoipa::ToSchema;

/// What a server reports about the sources of its sessions.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The store.
    pub store: String,
    /// The places that are searched for sessions.
    pub sources: Vec<String>,
    /// What was found and cannot be read.
    pub unread: Vec<UnreadReport>,
    /// How far the import of the sessions has got.
    pub import: ImportProgress,
}

/// Something that was found and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadReport {
    /// The agent, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where it is.
    pub path: String,
    /// What it is, and why it cannot be read.
    pub what: String,
}

/// How far an import has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportProgress {
    /// How many sessions are to be imported.
    pub total: usize,
    /// How many were, or were in the store already.
    pub done: usize,
    /// How many could not be read; they are among what is unread.
    pub failed: usize,
    /// Nothing is left to import.
    pub is_complete: bool,
}
