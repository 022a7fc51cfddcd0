//! Whether a session in an agent's folder has more than the store.

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
            match (bytes == noted.line_bytes, changed <= imported) {
                (false, _) => Freshness::Newer,
                (true, true) => Freshness::Same,
                (true, false) => Freshness::Unsure,
            }
        }
    }
}

/// Returns the files of a session that are lines.
fn files(found: &FoundSession, may_have_subagents: bool) -> Option<Vec<PathBuf>> {
    if !may_have_subagents {
        return Some(vec![found.main.clone()]);
    }
    let files = claude_files(&found.main).ok()?.into_iter();
    Some(files.filter(|it| it.form == Form::Lines).map(|it| it.path).collect())
}

fn milliseconds(time: std::time::SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
