//! Whether a session outside of the store has more than the store.

use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use threadfold_fold::{GENERATION, SessionSummary};
use threadfold_store::SessionEntry;

use crate::files::{Form, stamp_of};
use crate::found::{FoundSession, Stamp};

/// How what an agent keeps of a session compares to what the store has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It was not written to since it was imported.
    Same,
    /// It has other content than was imported.
    Newer,
    /// It has less than was imported.
    Less,
    /// Nothing shows without reading it.
    Unsure,
}

/// Compares sizes and times alone. Files of agents only grow, so one of the same size is the same
/// unless it was written to since.
pub fn freshness(found: &FoundSession, entry: &SessionEntry) -> Freshness {
    let imported = entry.updated.0;
    let stamp = found.content.stamp();
    let Some(stored) = noted_summary(entry) else { return Freshness::Unsure };
    let Some(lines) = line_stamp(found) else {
        return match stamp.changed.and_then(milliseconds) {
            Some(changed) if changed > imported => Freshness::Newer,
            _ => Freshness::Unsure,
        };
    };
    let is_old = lines.changed.and_then(milliseconds).is_some_and(|it| it <= imported);
    match lines.bytes.unwrap_or_default().cmp(&stored.line_bytes) {
        // What one copy has is not counted again where another has it as well.
        _ if found.content.has_copies() && is_old => Freshness::Same,
        _ if found.content.has_copies() => Freshness::Unsure,
        Ordering::Less => Freshness::Less,
        Ordering::Greater => Freshness::Newer,
        Ordering::Equal if is_old => Freshness::Same,
        Ordering::Equal => Freshness::Unsure,
    }
}

/// Returns how the files of a session look that are lines; nothing if it has none.
fn line_stamp(found: &FoundSession) -> Option<Stamp> {
    let mut files = found.content.files().ok()?;
    files.retain(|it| it.form == Form::Lines);
    (!files.is_empty()).then(|| stamp_of(files.iter().map(|it| it.path.as_path())))
}

/// Returns what lists show of a stored session, if it is of the last record and of the present
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
