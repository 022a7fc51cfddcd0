//! All that is derived of a session, made again from its records, or held against them.

use std::collections::BTreeMap;

use threadfold_core::{Json, SessionId};
use threadfold_fold::{GENERATION, SessionSummary, Slices, Snapshot};
use threadfold_store::{Finding, Remedy, SessionEntry, Store, StoreError, Subject, Summary};

use crate::error::EngineError;
use crate::load::{SpillingFold, read_on};
use crate::snapshot_writer::PendingSnapshot;
use crate::spill::Budget;

/// What was derived of a session up to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Which converters and which reducer made it.
    pub generation: u32,
    /// The record.
    pub seq: u64,
    /// The hash of the conversation; nothing if it was not folded.
    pub state_hash: Option<String>,
    /// How many blocks there are in all conversations, where that is known.
    pub blocks: Option<usize>,
}

/// What became of a session that was derived anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reindexed {
    /// What was known before.
    pub before: Option<Derived>,
    /// What the records give at the place that was known before.
    pub hash_there: Option<String>,
    /// What the records give at the end of the log.
    pub after: Derived,
    /// How many snapshots were written.
    pub snapshots: u64,
}

impl Reindexed {
    /// Says whether the same records mean something else now; nothing if it cannot be told.
    pub fn is_changed(&self) -> Option<bool> {
        let before = self.before.as_ref()?.state_hash.as_ref()?;
        Some(before != self.hash_there.as_ref()?)
    }
}

/// Deletes what was derived of a session, folds all its records with the present converters, and
/// keeps a snapshot after every `snapshot_every` of them. No record is touched. What does not fit
/// into a budget is put away.
pub async fn reindex(
    store: &dyn Store,
    entry: &SessionEntry,
    snapshot_every: u64,
    budget: Option<Budget>,
) -> Result<Reindexed, EngineError> {
    let session = &entry.session;
    let before = known(store, entry).await?;
    store.delete_derived(session).await?;
    let mut folding = SpillingFold::new(session, &Slices::default(), budget);
    let (mut hash_there, mut snapshots) = (None, 0);
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
        if until == next_snapshot {
            PendingSnapshot::of(&folding.fold, &entry.head.log, folding.spill.clone())
                .write(store)
                .await?;
            snapshots += 1;
        }
        if folding.fold.seq() == head {
            break;
        }
    }
    let summary = folding.fold.summary();
    let after = Derived {
        generation: GENERATION,
        seq: folding.fold.seq(),
        state_hash: summary.state_hash.clone(),
        blocks: summary.blocks,
    };
    let json = Json::of(&summary).as_str().to_owned();
    let summary = Summary { generation: GENERATION, seq: after.seq, json };
    store.put_summary(session, &entry.head.log, summary).await?;
    Ok(Reindexed { before, hash_there, after, snapshots })
}

/// Folds all records of a session, and compares its snapshots and its summary with the result.
///
/// Snapshots and summaries of other generations are skipped, because nobody uses them. State beyond
/// the budget is spilled to disk.
pub async fn inspect(
    store: &dyn Store,
    entry: &SessionEntry,
    budget: Option<Budget>,
) -> Result<Vec<Finding>, EngineError> {
    let session = &entry.session;
    let mut findings = Vec::new();
    let mut expected: BTreeMap<u64, Vec<(Subject, String)>> = BTreeMap::new();
    for (generation, seq) in store.snapshots(session).await? {
        if generation != GENERATION {
            continue;
        }
        let subject = Subject::Snapshot { session: session.clone(), generation, seq };
        let stored = match store.snapshot(session, generation, seq).await {
            Err(StoreError::Corrupt { what, .. }) => {
                findings.push(rebuild(subject, format!("it cannot be read: {what}")));
                continue;
            }
            stored => stored?,
        };
        let Some(stored) = stored else { continue };
        let empty = SpillingFold::new(session, &Slices::default(), budget.clone());
        match empty.restored_from(&entry.head, &stored.bytes) {
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
    let head = head(store, session).await?;
    let mut folding = SpillingFold::new(session, &Slices::default(), budget);
    for (seq, derived) in expected {
        if seq > head {
            let beyond = format!("it is beyond the end of the log, record {head}");
            findings.extend(derived.into_iter().map(|(it, _)| rebuild(it, beyond.clone())));
            continue;
        }
        read_to(store, &mut folding, seq).await?;
        let found = folding.fold.state_hash();
        for (subject, hash) in derived.into_iter().filter(|(_, hash)| *hash != found) {
            let problem = format!("it has state {hash}, but the records give {found}");
            findings.push(rebuild(subject, problem));
        }
    }
    Ok(findings)
}

fn rebuild(subject: Subject, problem: String) -> Finding {
    Finding::new(subject, problem, Remedy::Rebuild)
}

/// Returns what is known of a session's state: by its summary, or by its latest snapshot.
async fn known(store: &dyn Store, entry: &SessionEntry) -> Result<Option<Derived>, EngineError> {
    let summary = entry.summary.as_ref().and_then(|it| {
        let told: SessionSummary = serde_json::from_str(&it.json).ok()?;
        let SessionSummary { state_hash, blocks, .. } = told;
        Some(Derived { generation: it.generation, seq: it.seq, state_hash, blocks })
    });
    if summary.as_ref().is_some_and(|it| it.state_hash.is_some()) {
        return Ok(summary);
    }
    let Some((generation, seq)) = store.snapshots(&entry.session).await?.pop() else {
        return Ok(summary);
    };
    let stored = match store.snapshot(&entry.session, generation, seq).await {
        // It is made again from the records, whatever it was.
        Err(StoreError::Corrupt { .. }) => None,
        stored => stored?,
    };
    let text = stored.as_ref().and_then(|it| std::str::from_utf8(&it.bytes).ok());
    let snapshot = text.and_then(|it| Snapshot::from_json(it).ok());
    let of_snapshot =
        |it: Snapshot| Derived { generation, seq, state_hash: Some(it.state_hash), blocks: None };
    Ok(snapshot.map(of_snapshot).or(summary))
}

async fn head(store: &dyn Store, session: &SessionId) -> Result<u64, EngineError> {
    let head = store.head(session).await?;
    Ok(head.ok_or_else(|| StoreError::NotFound { session: session.clone() })?.seq)
}

async fn read_to(
    store: &dyn Store,
    folding: &mut SpillingFold,
    until: u64,
) -> Result<(), EngineError> {
    read_on(store, &mut folding.fold, until, |_, _| Ok::<(), EngineError>(())).await?;
    folding.check()
}
