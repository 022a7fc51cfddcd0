//! Whether a session in an agent's folder has more than the store.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use threadfold_engine::{Form, claude_files};
use threadfold_store::SessionEntry;

use super::{FoundSession, Kept};
use crate::store::noted_summary;

/// How what an agent keeps of a session compares to what the store has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// It was not written to since it was imported.
    Same,
    /// It has other content than was imported.
    Newer,
    /// It has less than was imported.
    Less,
    /// Nothing tells without reading it.
    Unsure,
}

/// Compares sizes and times alone. Files of agents only grow, so one of the same size is the same
/// unless it was written to since.
pub(crate) fn freshness(found: &FoundSession, entry: &SessionEntry) -> Freshness {
    let imported = entry.updated.0;
    match &found.kept {
        Kept::Shelf { .. } => match found.changed().and_then(milliseconds) {
            Some(changed) if changed > imported => Freshness::Newer,
            _ => Freshness::Unsure,
        },
        Kept::File { may_have_subagents } => {
            let Some(noted) = noted_summary(entry) else { return Freshness::Unsure };
            let Some(files) = files(found, *may_have_subagents) else { return Freshness::Unsure };
            let (mut bytes, mut changed) = (0, 0);
            for path in files {
                let Ok(metadata) = path.metadata() else { return Freshness::Unsure };
                bytes += metadata.len();
                let written = metadata.modified().ok().and_then(milliseconds);
                changed = changed.max(written.unwrap_or(i64::MAX));
            }
            let is_old = changed <= imported;
            match bytes.cmp(&noted.line_bytes) {
                // What one copy has is not counted again where another has it, too.
                _ if !found.copies.is_empty() && is_old => Freshness::Same,
                _ if !found.copies.is_empty() => Freshness::Unsure,
                Ordering::Less => Freshness::Less,
                Ordering::Greater => Freshness::Newer,
                Ordering::Equal if is_old => Freshness::Same,
                Ordering::Equal => Freshness::Unsure,
            }
        }
    }
}

/// Returns the files of a session that are lines.
fn files(found: &FoundSession, may_have_subagents: bool) -> Option<Vec<PathBuf>> {
    let copies = found.copies.iter().cloned();
    if !may_have_subagents {
        return Some(std::iter::once(found.main.clone()).chain(copies).collect());
    }
    let files = claude_files(&found.main).ok()?.into_iter();
    let files = files.filter(|it| it.form == Form::Lines).map(|it| it.path);
    Some(files.chain(copies).collect())
}

fn milliseconds(time: std::time::SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
