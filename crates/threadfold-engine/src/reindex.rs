//! Rebuilds everything that is derived from a session's records.

use threadfold_core::{Json, SessionId};
use threadfold_fold::{GENERATION, SessionSummary, Slices, Snapshot, SnapshotFooter};
use threadfold_store::{SessionEntry, Store, StoreError, Summary};

use crate::error::EngineError;
use crate::load::{SpillingFold, advance_fold};
use crate::snapshot_writer::{PendingSnapshot, snapshot_distance};
use crate::spill_file::Budget;

/// The state of a session at a record, as its summary or a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexState {
    /// The generation of the converters and the reducer that produced it.
    pub generation: u32,
    /// The record.
    pub seq: u64,
    /// The hash of the conversation; `None` if it was not folded.
    pub state_hash: Option<String>,
    /// The number of blocks in all conversations, if known.
    pub blocks: Option<usize>,
}

/// The result of a reindex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReindexReport {
    /// The state before.
    pub before: Option<IndexState>,
    /// The hash that the records give now at the record of `before`.
    pub hash_there: Option<String>,
    /// The state at the end of the log.
    pub after: IndexState,
    /// The number of snapshots that were written.
    pub snapshots: u64,
}

impl ReindexReport {
    /// Returns whether the same records have another state now; `None` if that is unknown.
    pub fn is_changed(&self) -> Option<bool> {
        let before = self.before.as_ref()?.state_hash.as_ref()?;
        Some(before != self.hash_there.as_ref()?)
    }
}

/// Deletes what was derived from a session, folds all its records with the present converters, and
/// writes snapshots, as importing them with `snapshot_every` does. Records do not change. State beyond the
/// budget is spilled to disk.
pub async fn reindex(
    store: &dyn Store,
    entry: &SessionEntry,
    snapshot_every: u64,
    budget: Option<Budget>,
) -> Result<ReindexReport, EngineError> {
    let session = &entry.session;
    let before = known(store, entry).await?;
    store.delete_derived(session).await?;
    let mut folding = SpillingFold::new(session, &Slices::default(), budget);
    let (mut hash_there, mut snapshots, mut last_snapshot) = (None, 0, 0);
    let mut stops: Vec<u64> = before.iter().map(|it| it.seq).collect();
    loop {
        let head = head(store, session).await?;
        let next_snapshot = (folding.fold.seq() / snapshot_every + 1) * snapshot_every;
        let stop = stops.iter().copied().find(|it| *it >= folding.fold.seq());
        let until = next_snapshot.min(head).min(stop.unwrap_or(u64::MAX));
        read_to(store, &mut folding, until).await?;
        if stop == Some(until) {
            hash_there = Some(folding.fold.state_hash());
            stops.clear();
        }
        let since = folding.fold.seq() - last_snapshot;
        if until == next_snapshot && since >= snapshot_distance(&folding.fold, snapshot_every) {
            PendingSnapshot::of(&folding.fold, &entry.head.log, folding.parts.clone())
                .write(store)
                .await?;
            (snapshots, last_snapshot) = (snapshots + 1, until);
        }
        if folding.fold.seq() == head {
            break;
        }
    }
    let summary = folding.fold.summary();
    let after = IndexState {
        generation: GENERATION,
        seq: folding.fold.seq(),
        state_hash: summary.state_hash.clone(),
        blocks: summary.blocks,
    };
    let json = Json::of(&summary).as_str().to_owned();
    let summary = Summary { generation: GENERATION, seq: after.seq, json };
    store.put_summary(session, &entry.head.log, summary).await?;
    Ok(ReindexReport { before, hash_there, after, snapshots })
}

/// Returns the state of a session from its summary, or else from its latest snapshot.
async fn known(store: &dyn Store, entry: &SessionEntry) -> Result<Option<IndexState>, EngineError> {
    let summary = entry.summary.as_ref().and_then(|it| {
        let parsed: SessionSummary = serde_json::from_str(&it.json).ok()?;
        let SessionSummary { state_hash, blocks, .. } = parsed;
        Some(IndexState { generation: it.generation, seq: it.seq, state_hash, blocks })
    });
    if summary.as_ref().is_some_and(|it| it.state_hash.is_some()) {
        return Ok(summary);
    }
    let Some((generation, seq)) = store.snapshots(&entry.session).await?.pop() else {
        return Ok(summary);
    };
    let stored = match store.snapshot(&entry.session, generation, seq).await {
        // It is rebuilt from the records in any case.
        Err(StoreError::Corrupt { .. }) => None,
        stored => stored?,
    };
    let json = stored.as_ref().map(|it| SnapshotFooter::json_of(&it.bytes));
    let text = json.and_then(|it| std::str::from_utf8(it).ok());
    let snapshot = text.and_then(|it| Snapshot::from_json(it).ok());
    let of_snapshot = |it: Snapshot| IndexState {
        generation,
        seq,
        state_hash: Some(it.state_hash),
        blocks: None,
    };
    Ok(snapshot.map(of_snapshot).or(summary))
}

pub(crate) async fn head(store: &dyn Store, session: &SessionId) -> Result<u64, EngineError> {
    let head = store.head(session).await?;
    Ok(head.ok_or_else(|| StoreError::NotFound { session: session.clone() })?.seq)
}

pub(crate) async fn read_to(
    store: &dyn Store,
    folding: &mut SpillingFold,
    until: u64,
) -> Result<(), EngineError> {
    advance_fold(store, &mut folding.fold, until, |_, _| Ok::<(), EngineError>(())).await?;
    folding.check()
}
