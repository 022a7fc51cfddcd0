//! Loads a session from its store: at its end, or at any record.

use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{Fold, GENERATION, Slices, Step, StoredRecord};
use threadfold_store::{Limit, LogHead, Store, StoreError};

use crate::error::EngineError;
use crate::session::RecordInspector;
use crate::spill_file::{Budget, SpillFile};

/// A session loaded from its store.
pub struct LoadReport {
    /// The fold of the log up to there.
    pub fold: Fold,
    /// The length of the log.
    pub head: LogHead,
    /// The snapshot that loading started from.
    pub snapshot: Option<u64>,
    /// How many records were read after the snapshot.
    pub records: u64,
    /// Why a snapshot was skipped. Loading took longer, but nothing is lost.
    pub passed_over: Option<String>,
    pub(crate) spill: Option<Arc<SpillFile>>,
}

impl LoadReport {
    /// Returns whether the log still ends where it was loaded to. Whatever prevents an answer
    /// prevents loading as well, and is reported then.
    pub(crate) async fn is_end_of(&self, store: &dyn Store, session: &SessionId) -> bool {
        let end = (&self.head.log, self.fold.seq());
        store
            .head(session)
            .await
            .is_ok_and(|head| head.as_ref().map(|head| (&head.log, head.seq)) == Some(end))
    }
}

/// Loads a session up to record `until`, or to its end.
pub async fn load(
    store: &dyn Store,
    session: &SessionId,
    until: u64,
    slices: Slices,
) -> Result<LoadReport, EngineError> {
    load_within(store, session, until, slices, None).await
}

/// Loads a session as [`load`] does, and spills state beyond a budget to disk.
pub async fn load_within(
    store: &dyn Store,
    session: &SessionId,
    until: u64,
    slices: Slices,
    budget: Option<Budget>,
) -> Result<LoadReport, EngineError> {
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
                passed_over = Some(format!("it is at record {found}, not {expected}"));
            }
            Err(why) => passed_over = Some(why),
        }
    }
    folding.check()?;
    let mut step = Step::default();
    while folding.fold.seq() < until {
        let after = folding.fold.seq();
        let limit = Limit { until, ..Limit::default() };
        let records = store.read(session, after, limit).await?;
        if records.is_empty() {
            let place = format!("session `{session}`");
            let what = format!("record {} of {until} is missing", after + 1);
            return Err(StoreError::Corrupt { place, what }.into());
        }
        for record in &records {
            records_read += 1;
            folding.fold.push_to(record, &mut step);
        }
        folding.check()?;
    }
    let SpillingFold { fold, spill } = folding;
    Ok(LoadReport { fold, head, snapshot, records: records_read, passed_over, spill })
}

/// Loads a session from its records alone, and passes each of them to an inspector.
pub(crate) async fn load_records(
    store: &dyn Store,
    session: &SessionId,
    slices: Slices,
    budget: Option<Budget>,
    mut inspector: RecordInspector,
) -> Result<LoadReport, EngineError> {
    let head = store.head(session).await?;
    let head = head.ok_or_else(|| StoreError::NotFound { session: session.clone() })?;
    let mut folding = SpillingFold::new(session, &slices, budget);
    advance_fold(store, &mut folding.fold, head.seq, |record, _| {
        inspector(record);
        Ok::<_, EngineError>(())
    })
    .await?;
    folding.check()?;
    let (SpillingFold { fold, spill }, records) = (folding, head.seq);
    Ok(LoadReport { fold, head, snapshot: None, records, passed_over: None, spill })
}

/// Advances a fold to record `until`, and passes each record with its step to a callback.
pub async fn advance_fold<E: From<EngineError>>(
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
            let what = format!("record {} of {until} is missing", fold.seq() + 1);
            return Err(EngineError::from(StoreError::Corrupt { place, what }).into());
        }
        for record in &records {
            let step = fold.push(record);
            each(record, step)?;
        }
    }
    Ok(())
}

/// A fold, and the file that it spills to.
pub(crate) struct SpillingFold {
    pub(crate) fold: Fold,
    pub(crate) spill: Option<Arc<SpillFile>>,
}

impl SpillingFold {
    /// Returns the fold of an empty log.
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

    /// Restores a snapshot into the fold of an empty log.
    pub(crate) fn restored_from(self, head: &LogHead, bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let fold = self.fold.from_snapshot(text, &head.log).map_err(|error| error.to_string())?;
        Ok(Self { fold, spill: self.spill })
    }

    /// Fails if spilled blocks could not be written or read: the conversation may be corrupt then,
    /// but the stored records are intact.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.spill.as_ref().map_or(Ok(()), |spill| spill.check())
    }
}
