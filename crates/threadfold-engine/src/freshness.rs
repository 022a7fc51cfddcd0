//! Compares a session outside the store with its stored copy, for lists and views.
//!
//! An import reads the files and decides by their content: see `files/identify.rs`.

use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use threadfold_fold::{GENERATION, SessionSummary};
use threadfold_store::SessionEntry;

use crate::found_session::FoundSession;

/// How an agent's copy of a session compares to the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It is unchanged since it was imported.
    Same,
    /// Its content differs from what was imported.
    Newer,
    /// It has less than was imported.
    Less,
    /// It cannot be decided without reading the content.
    Unsure,
}

/// Compares sizes and times only. Agents' files only grow, so a file of the same size is unchanged
/// unless it was modified since.
pub fn freshness(found: &FoundSession, entry: &SessionEntry) -> Freshness {
    let imported = entry.updated.0;
    let stamp = found.content.stamp();
    let Some(stored) = noted_summary(entry) else { return Freshness::Unsure };
    let Some(lines) = found.content.line_stamp() else {
        return match stamp.changed.and_then(milliseconds) {
            Some(changed) if changed > imported => Freshness::Newer,
            _ => Freshness::Unsure,
        };
    };
    let is_old = lines.changed.and_then(milliseconds).is_some_and(|it| it <= imported);
    // A compressed file may be longer.
    let Some(bytes) = lines.bytes else { return Freshness::Unsure };
    match bytes.cmp(&stored.line_bytes) {
        // Content that several copies share is counted once.
        _ if found.content.has_copies() && is_old => Freshness::Same,
        _ if found.content.has_copies() => Freshness::Unsure,
        Ordering::Less => Freshness::Less,
        Ordering::Greater => Freshness::Newer,
        Ordering::Equal if is_old => Freshness::Same,
        Ordering::Equal => Freshness::Unsure,
    }
}

/// Returns a stored session's summary, if it is current: of the last record and of the present
/// converters.
pub fn noted_summary(entry: &SessionEntry) -> Option<SessionSummary> {
    let noted = entry.summary.as_ref()?;
    let holds = noted.generation == GENERATION && noted.seq == entry.head.seq;
    holds.then(|| summary_of_entry(entry)).flatten()
}

fn summary_of_entry(entry: &SessionEntry) -> Option<SessionSummary> {
    serde_json::from_str(&entry.summary.as_ref()?.json).ok()
}

fn milliseconds(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
