//! What a step changed, as JSON for the host.

use std::sync::Arc;

use serde::Serialize;
use threadfold_core::Change;

/// Something about an event that the host may report.
#[derive(Serialize)]
pub(crate) struct EventAnomaly {
    /// Which of the events, from 0.
    pub(crate) index: usize,
    /// The event left the state as it was.
    pub(crate) ignored: bool,
    /// What was odd.
    pub(crate) message: String,
}

/// Joins texts that were appended to the same block one after another: a batch of deltas is one
/// change to whoever reads the state after it.
pub(crate) fn join_texts(changes: &mut Vec<Change>) {
    let mut joined: Vec<Change> = Vec::with_capacity(changes.len());
    let mut grown = String::new();
    for change in changes.drain(..) {
        if let (
            Some(Change::TextAppended { conversation_id: at, block_id: of, field: into, .. }),
            Change::TextAppended { conversation_id, block_id, field, text },
        ) = (joined.last(), &change)
            && (at, of, into) == (conversation_id, block_id, field)
        {
            grown.push_str(text);
            continue;
        }
        close(&mut joined, &mut grown);
        joined.push(change);
    }
    close(&mut joined, &mut grown);
    *changes = joined;
}

/// Appends the text that grew to the last change.
fn close(joined: &mut [Change], grown: &mut String) {
    if grown.is_empty() {
        return;
    }
    if let Some(Change::TextAppended { text, .. }) = joined.last_mut() {
        *text = Arc::from(format!("{text}{grown}"));
    }
    grown.clear();
}
