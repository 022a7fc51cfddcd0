//! Compares what is derived from a session's records with the records, and reports differences.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{GENERATION, SessionSummary, Slices};
use threadfold_store::{
    BlobHash, Finding, Remedy, SessionEntry, SnapshotEnd, SnapshotPieces, Store, StoreError,
    Subject,
};

use crate::error::EngineError;
use crate::load::SpillingFold;
use crate::reindex::{head, read_to};
use crate::spill_file::Budget;

/// Folds all records of a session, and compares its snapshots and its summary with the result.
///
/// Snapshots and summaries of other generations are skipped, because they are unused. State beyond
/// the budget is spilled to disk.
pub async fn inspect(
    store: &Arc<dyn Store>,
    entry: &SessionEntry,
    budget: Option<Budget>,
) -> Result<Vec<Finding>, EngineError> {
    let session = &entry.session;
    let mut findings = Vec::new();
    // Snapshots share most of their pieces.
    let mut read = HashSet::new();
    let mut expected: BTreeMap<u64, Vec<(Subject, String)>> = BTreeMap::new();
    for (generation, seq) in store.snapshots(session).await? {
        if generation != GENERATION {
            continue;
        }
        let subject = Subject::Snapshot { session: session.clone(), generation, seq };
        let stored = match read_pieces(&**store, session, (generation, seq), &mut read).await {
            Err(StoreError::Corrupt { what, .. }) => {
                findings.push(rebuild(subject, format!("it cannot be read: {what}")));
                continue;
            }
            stored => stored?,
        };
        let Some(SnapshotPieces { generation, seq, pieces }) = stored else { continue };
        let stored = SnapshotEnd { generation, seq, last: pieces.last().map(|it| it.0) };
        let empty = SpillingFold::new(session, &Slices::default(), budget.clone());
        match empty.restored_from(store, &entry.head, stored).await {
            Ok(restored) => {
                restored.check()?;
                expected.entry(seq).or_default().push((subject, restored.fold.state_hash()));
            }
            Err(why) => findings.push(rebuild(subject, format!("it cannot be used: {why}"))),
        }
    }
    if let Some(summary) = entry.summary.as_ref().filter(|it| it.generation == GENERATION) {
        let subject = Subject::Summary { session: session.clone(), seq: summary.seq };
        match serde_json::from_str::<SessionSummary>(&summary.json) {
            Ok(SessionSummary { state_hash: Some(hash), .. }) => {
                expected.entry(summary.seq).or_default().push((subject, hash));
            }
            Ok(_) => {}
            Err(error) => findings.push(rebuild(subject, format!("it cannot be read: {error}"))),
        }
    }
    let head = head(&**store, session).await?;
    let mut folding = SpillingFold::new(session, &Slices::default(), budget);
    for (seq, derived) in expected {
        if seq > head {
            let beyond = format!("it is beyond the end of the log, record {head}");
            findings.extend(derived.into_iter().map(|(it, _)| rebuild(it, beyond.clone())));
            continue;
        }
        read_to(&**store, &mut folding, seq).await?;
        let found = folding.fold.state_hash();
        for (subject, hash) in derived.into_iter().filter(|(_, hash)| *hash != found) {
            let problem = format!("its state is {hash}, but the records fold to {found}");
            findings.push(rebuild(subject, problem));
        }
    }
    Ok(findings)
}

/// Returns the pieces of a snapshot, after reading those that are not in `read`.
async fn read_pieces(
    store: &dyn Store,
    session: &SessionId,
    (generation, seq): (u32, u64),
    read: &mut HashSet<BlobHash>,
) -> Result<Option<SnapshotPieces>, StoreError> {
    let stored = store.snapshot_pieces(session, generation, seq).await?;
    for (piece, _) in stored.iter().flat_map(|it| &it.pieces) {
        if read.insert(*piece) {
            store.blob(piece).await?;
        }
    }
    Ok(stored)
}

fn rebuild(subject: Subject, problem: String) -> Finding {
    Finding::new(subject, problem, Remedy::Rebuild)
}
