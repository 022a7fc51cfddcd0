//! A session out of its store: at its end, or at any record.

use threadfold_convert::GENERATION;
use threadfold_core::SessionId;
use threadfold_store::{Head, Limit, Store, StoreError, StoredRecord};

use crate::error::{EngineError, with_causes};
use crate::fold::{Fold, Step};
use crate::shelf::Budget;
use crate::slice::Slices;
use crate::snapshot::SnapshotText;

/// A session that was read from its store.
pub struct Loaded {
    /// All that is derived of the log up to there.
    pub fold: Fold,
    /// How far the log goes.
    pub head: Head,
    /// The snapshot that it began with.
    pub snapshot: Option<u64>,
    /// How many records were read after that.
    pub records: u64,
    /// Why a snapshot was passed over. Reading took longer, and nothing is lost.
    pub passed_over: Option<String>,
}

/// Reads a session up to record `until`, or to its end.
pub async fn load(
    store: &dyn Store,
    session: &SessionId,
    until: u64,
    slices: Slices,
) -> Result<Loaded, EngineError> {
    load_within(store, session, until, slices, None).await
}

/// Reads a session as [`load`] does, and puts away what does not fit into a budget.
pub async fn load_within(
    store: &dyn Store,
    session: &SessionId,
    until: u64,
    slices: Slices,
    budget: Option<Budget>,
) -> Result<Loaded, EngineError> {
    let head = store.head(session).await?;
    let head = head.ok_or_else(|| StoreError::NotFound { session: session.clone() })?;
    let until = until.min(head.seq);
    let mut loaded = Loaded {
        fold: begin(session, &slices, budget.clone()),
        head,
        snapshot: None,
        records: 0,
        passed_over: None,
    };
    let stored = match store.snapshot(session, GENERATION, until).await {
        Err(error @ StoreError::Corrupt { .. }) => {
            loaded.passed_over = Some(error.to_string());
            None
        }
        stored => stored?,
    };
    if let Some(stored) = stored {
        let fold = begin(session, &slices, budget);
        match restored(fold, &loaded.head, &stored.bytes) {
            Ok(fold) if fold.seq() == stored.seq => {
                loaded.snapshot = Some(stored.seq);
                loaded.fold = fold;
            }
            Ok(fold) => {
                let (found, wanted) = (fold.seq(), stored.seq);
                loaded.passed_over = Some(format!("it is of record {found}, not {wanted}"));
            }
            Err(why) => loaded.passed_over = Some(why),
        }
    }
    loaded.fold.check()?;
    while loaded.fold.seq() < until {
        let after = loaded.fold.seq();
        let limit = Limit { until, ..Limit::default() };
        let records = store.read(session, after, limit).await?;
        if records.is_empty() {
            let place = format!("session `{session}`");
            let what = format!("record {} is missing of {until}", after + 1);
            return Err(StoreError::Corrupt { place, what }.into());
        }
        for record in &records {
            loaded.records += 1;
            loaded.fold.push(record);
        }
        loaded.fold.check()?;
    }
    Ok(loaded)
}

/// Reads a fold on to record `until`, and shows each record with what it meant.
pub async fn read_on<E: From<EngineError>>(
    store: &dyn Store,
    fold: &mut Fold,
    until: u64,
    mut each: impl FnMut(&StoredRecord, Step) -> Result<(), E>,
) -> Result<(), E> {
    while fold.seq() < until {
        let limit = Limit { until, ..Limit::default() };
        let records = store.read(fold.session(), fold.seq(), limit).await;
        let records = records.map_err(EngineError::from)?;
        if records.is_empty() {
            let place = format!("session `{}`", fold.session());
            let what = format!("record {} is missing of {until}", fold.seq() + 1);
            return Err(EngineError::from(StoreError::Corrupt { place, what }).into());
        }
        for record in &records {
            let step = fold.push(record);
            each(record, step)?;
        }
        fold.check()?;
    }
    Ok(())
}

/// Returns the fold of no records.
pub(crate) fn begin(session: &SessionId, slices: &Slices, budget: Option<Budget>) -> Fold {
    let fold = Fold::new(session.clone(), slices.fork());
    match budget {
        Some(budget) => fold.within(budget),
        None => fold,
    }
}

/// Returns the fold that a snapshot was taken of, from one of no records.
pub(crate) fn restored(fold: Fold, head: &Head, bytes: &[u8]) -> Result<Fold, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let snapshot = SnapshotText::read(text).map_err(|error| with_causes(&error))?;
    if snapshot.log_id != head.log || snapshot.generation != GENERATION {
        return Err(format!("it is of log {}.{}", snapshot.log_id, snapshot.generation));
    }
    // A slice that the snapshot was made without must hear every record.
    let has = |name: &str| snapshot.slices.iter().any(|slice| slice.slice_type == name);
    if let Some(missing) = fold.slices().iter().find(|slice| !has(slice.name())) {
        return Err(format!("it was made without slice `{}`", missing.name()));
    }
    fold.restore(snapshot.seq, &snapshot.slices).map_err(|error| with_causes(&error))
}
