//! Changes of files, as events: the same form for every agent.

use std::sync::Arc;

use threadfold_core::{Fields, FilePayload, Json, Payload};

/// What a call of a tool did to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    Created,
    Modified,
    Deleted,
}

impl FileChange {
    /// Returns the event of a change by a call. Its content is the call: the call's block has the
    /// text or the difference, so no event repeats it.
    pub(crate) fn payload(self, path: &str, call: &str, changed_at: Option<Arc<str>>) -> Payload {
        let mut content = Fields::default();
        content.insert("toolUseId", Json::string(call));
        let file = FilePayload { path: path.into(), content: Some(Json::of(&content)), changed_at };
        match self {
            Self::Created => Payload::FileCreated(file),
            Self::Modified => Payload::FileModified(file),
            Self::Deleted => Payload::FileDeleted(file),
        }
    }
}

/// Returns a path within a folder, unless it is absolute already.
pub(crate) fn within(folder: Option<&str>, path: &str) -> String {
    match folder {
        Some(folder) if !path.starts_with('/') => {
            format!("{}/{path}", folder.trim_end_matches('/'))
        }
        _ => path.to_owned(),
    }
}
