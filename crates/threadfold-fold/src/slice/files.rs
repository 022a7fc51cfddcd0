//! The built-in slice of files: what last happened to each file that the agent changed.
//!
//! A file may be reported by the stream and by the transcript, and a transcript lists the work of a
//! subagent after that of its caller. So neither the order of sources nor the order of records
//! decides what happened last: the transcript outranks the stream, and within a rank the later time
//! wins.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{Json, Payload, Rank, SessionEvent};

use super::{Item, Items, Slice};

/// A file, and what last happened to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileState {
    /// Its path.
    pub path: Arc<str>,
    /// What happened to it last.
    pub status: FileStatus,
    /// Its content, by reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Json>,
    /// When that happened, by the clock of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Arc<str>>,
    /// The rank of the source that reported it.
    #[serde(default = "lowest_rank")]
    pub rank: Rank,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileStatus {
    /// It was created.
    Created,
    /// It was modified.
    Modified,
    /// It was deleted.
    Deleted,
}

impl Item for FileState {
    const TYPE: &'static str = "fileState";
}

impl FileState {
    /// Returns what an event reports about a file.
    fn of(event: &SessionEvent) -> Option<Self> {
        let (status, file) = match &event.payload {
            Payload::FileCreated(file) => (FileStatus::Created, file),
            Payload::FileModified(file) => (FileStatus::Modified, file),
            Payload::FileDeleted(file) => (FileStatus::Deleted, file),
            _ => return None,
        };
        Some(Self {
            path: file.path.clone(),
            status,
            content: file.content.clone(),
            changed_at: file.changed_at.clone().or_else(|| event.context.timestamp.clone()),
            rank: event.context.rank(),
        })
    }

    /// Returns whether this is what happened last, if `known` was reported before it.
    fn supersedes(&self, known: &Self) -> bool {
        if self.rank != known.rank {
            return self.rank > known.rank;
        }
        match (&self.changed_at, &known.changed_at) {
            // Sources write times in UTC and in one form, which sorts as text.
            (Some(own), Some(known)) => own >= known,
            _ => true,
        }
    }
}

/// Snapshots of earlier versions do not have the rank.
fn lowest_rank() -> Rank {
    Rank::Stream
}

pub(super) fn files() -> Slice<FileState> {
    Slice::new("files").upsert_by(|file: &FileState| file.path.to_string()).on_event(
        |items: &mut Items<FileState>, event| {
            let Some(file) = FileState::of(event) else { return };
            if items.get(&file.path).is_none_or(|known| file.supersedes(known)) {
                items.upsert(&file.path.clone(), file);
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_after(events: &[(&str, &str, Option<&str>)]) -> FileStatus {
        let mut items = Items::default();
        let slice = files();
        for (kind, source, time) in events {
            let time = time.map_or(String::new(), |it| format!(r#","changedAt":"{it}""#));
            let event = format!(
                r#"{{"type":"{kind}","payload":{{"path":"a"{time}}},"context":{{"source":{{"kind":"{source}"}}}}}}"#
            );
            let event = SessionEvent::from_json(&event).unwrap();
            slice.on_event.iter().for_each(|reducer| reducer(&mut items, &event));
        }
        items.latest().unwrap().status
    }

    #[test]
    fn the_order_of_sources_does_not_decide_what_happened_last() {
        let stream = [("file:created", "stream", None), ("file:modified", "stream", None)];
        let stored = [("file:created", "transcript", None), ("file:deleted", "transcript", None)];
        assert_eq!(status_after(&stream), FileStatus::Modified);
        assert_eq!(status_after(&[stream, stored].concat()), FileStatus::Deleted);
        assert_eq!(status_after(&[stored, stream].concat()), FileStatus::Deleted);
    }

    #[test]
    fn within_a_source_the_later_time_wins() {
        let early = ("file:created", "transcript", Some("2026-01-02T03:04:05.100Z"));
        let late = ("file:modified", "transcript", Some("2026-01-02T03:04:06.000Z"));
        assert_eq!(status_after(&[early, late]), FileStatus::Modified);
        assert_eq!(status_after(&[late, early]), FileStatus::Modified);
        let unknown = ("file:deleted", "transcript", None);
        assert_eq!(status_after(&[late, unknown]), FileStatus::Deleted);
    }
}
