//! A session out of its store: at its end, or at any record.

use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{Fold, GENERATION, Slices, Step, StoredRecord};
use threadfold_store::{Head, Limit, Store, StoreError};

use crate::error::EngineError;
use crate::spill::{Budget, SpillFile};

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
    pub(crate) spill: Option<Arc<SpillFile>>,
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
    let mut folding = SpillingFold::new(session, &slices, budget.clone());
    let (mut snapshot, mut records_read, mut passed_over) = (None, 0, None);
    let stored = match store.snapshot(session, GENERATION, until).await {
        Err(error @ StoreError::Corrupt { .. }) => {
            passed_over = Some(error.to_string());
            None
        }
        stored => stored?,
    };
    if let Some(stored) = stored {
        let empty = SpillingFold::new(session, &slices, budget);
        match empty.restored_from(&head, &stored.bytes) {
            Ok(restored) if restored.fold.seq() == stored.seq => {
                snapshot = Some(stored.seq);
                folding = restored;
            }
            Ok(restored) => {
                let (found, expected) = (restored.fold.seq(), stored.seq);
                passed_over = Some(format!("it is of record {found}, not {expected}"));
            }
            Err(why) => passed_over = Some(why),
        }
    }
    folding.check()?;
    while folding.fold.seq() < until {
        let after = folding.fold.seq();
        let limit = Limit { until, ..Limit::default() };
        let records = store.read(session, after, limit).await?;
        if records.is_empty() {
            let place = format!("session `{session}`");
            let what = format!("record {} is missing of {until}", after + 1);
            return Err(StoreError::Corrupt { place, what }.into());
        }
        for record in &records {
            records_read += 1;
            folding.fold.push(record);
        }
        folding.check()?;
    }
    let SpillingFold { fold, spill } = folding;
    Ok(Loaded { fold, head, snapshot, records: records_read, passed_over, spill })
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
    }
    Ok(())
}

/// A fold, and the file to which it spills.
pub(crate) struct SpillingFold {
    pub(crate) fold: Fold,
    pub(crate) spill: Option<Arc<SpillFile>>,
}

impl SpillingFold {
    /// Returns the fold of no records.
    pub(crate) fn new(session: &SessionId, slices: &Slices, budget: Option<Budget>) -> Self {
        let fold = Fold::new(session.clone(), slices.fork());
        match budget {
            None => Self { fold, spill: None },
            Some(budget) => {
                let spill = Arc::new(SpillFile::new(budget.folder));
                Self { fold: fold.spill_to(spill.clone(), budget.bytes), spill: Some(spill) }
            }
        }
    }

    /// Returns the fold that a snapshot was taken of, from one of no records.
    pub(crate) fn restored_from(self, head: &Head, bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let fold = self.fold.from_snapshot(text, &head.log).map_err(|error| error.to_string())?;
        Ok(Self { fold, spill: self.spill })
    }

    /// Refuses to continue if spilled blocks could not be written or read: the conversation is not
    /// to be trusted any more. The records are.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.spill.as_ref().map_or(Ok(()), |spill| spill.check())
    }
}
