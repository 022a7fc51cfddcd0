//! Loads a session from its store: at its end, or at any record.

use std::sync::Arc;

use threadfold_core::{SessionId, SpillStore};
use threadfold_fold::{
    Fold, GENERATION, Slices, SnapshotFooter, SnapshotOutline, Step, StoredRecord, with_causes,
};
use threadfold_store::{Limit, LogHead, SnapshotEnd, Store, StoreError};

use crate::error::EngineError;
use crate::parts_on_disk::PartsOnDisk;
use crate::session::RecordInspector;
use crate::spill_file::{Budget, SpillFile};
use crate::stored_text::StoredText;

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
    /// Their size.
    pub bytes: u64,
    /// Why a snapshot was skipped. Loading took longer, but nothing is lost.
    pub passed_over: Option<String>,
    /// What of it is not in memory.
    pub parts: PartsOnDisk,
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
    store: &Arc<dyn Store>,
    session: &SessionId,
    until: u64,
    slices: Slices,
) -> Result<LoadReport, EngineError> {
    load_within(store, session, until, slices, None).await
}

/// Loads a session as [`load`] does, and spills state beyond a budget to disk.
///
/// From a snapshot it loads an outline that does not grow with the number of blocks. Blocks are read
/// when they are looked at, and the memory of the converter when it is used.
pub async fn load_within(
    store: &Arc<dyn Store>,
    session: &SessionId,
    until: u64,
    slices: Slices,
    budget: Option<Budget>,
) -> Result<LoadReport, EngineError> {
    let head = store.head(session).await?;
    let head = head.ok_or_else(|| StoreError::NotFound { session: session.clone() })?;
    let until = until.min(head.seq);
    let mut folding = SpillingFold::new(session, &slices, budget.clone());
    let (mut snapshot, mut records_read, mut bytes, mut passed_over) = (None, 0, 0, None);
    let stored = match store.snapshot_end(session, GENERATION, until).await {
        Err(error @ StoreError::Corrupt { .. }) => {
            passed_over = Some(error.to_string());
            None
        }
        stored => stored?,
    };
    if let Some(stored) = stored {
        let (empty, expected) = (SpillingFold::new(session, &slices, budget), stored.seq);
        match empty.restored_from(store, &head, stored).await {
            Ok(restored) if restored.fold.seq() == expected => {
                snapshot = Some(expected);
                folding = restored;
            }
            Ok(restored) => {
                let found = restored.fold.seq();
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
            bytes += record.bytes.len() as u64;
            folding.fold.push_to(record, &mut step);
        }
        folding.check()?;
    }
    let SpillingFold { fold, parts } = folding;
    Ok(LoadReport { fold, head, snapshot, records: records_read, bytes, passed_over, parts })
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
    let mut bytes = 0;
    advance_fold(store, &mut folding.fold, head.seq, |record, _| {
        bytes += record.bytes.len() as u64;
        inspector(record);
        Ok::<_, EngineError>(())
    })
    .await?;
    folding.check()?;
    let (SpillingFold { fold, parts }, records) = (folding, head.seq);
    Ok(LoadReport { fold, head, snapshot: None, records, bytes, passed_over: None, parts })
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

/// A fold, and what of it is not in memory.
pub(crate) struct SpillingFold {
    pub(crate) fold: Fold,
    pub(crate) parts: PartsOnDisk,
}

impl SpillingFold {
    /// Returns the fold of an empty log.
    pub(crate) fn new(session: &SessionId, slices: &Slices, budget: Option<Budget>) -> Self {
        let fold = Fold::new(session.clone(), slices.fork());
        match budget {
            None => Self { fold, parts: PartsOnDisk::default() },
            Some(budget) => {
                let file = Arc::new(SpillFile::new(budget.folder));
                let fold = fold.spill_to(file.clone(), budget.bytes);
                Self { fold, parts: PartsOnDisk { file: Some(file), text: None } }
            }
        }
    }

    /// Restores a snapshot into the fold of an empty log; on error, returns why it cannot be used.
    pub(crate) async fn restored_from(
        self,
        store: &Arc<dyn Store>,
        head: &LogHead,
        stored: SnapshotEnd,
    ) -> Result<Self, String> {
        let text = StoredText::open(store, self.fold.session(), stored).await;
        let text = Arc::new(text.map_err(|error| error.to_string())?);
        let Some(footer) = text.footer() else {
            return self.restored_whole(head, &text).await;
        };
        let outline = read_outline(&text, footer).await.map_err(|error| error.to_string())?;
        let shared: Arc<dyn SpillStore> = text.clone();
        let fold = self.fold.from_outline(outline, &footer, &shared, &head.log);
        let fold = fold.map_err(|error| error.to_string())?;
        text.check().map_err(|error| with_causes(&error))?;
        Ok(Self { fold, parts: PartsOnDisk { text: Some(text), ..self.parts } })
    }

    /// Restores a snapshot without an outline, or with one of an older version.
    async fn restored_whole(self, head: &LogHead, text: &StoredText) -> Result<Self, String> {
        let bytes = text.read(0, text.len()).await.map_err(|error| error.to_string())?;
        let json = std::str::from_utf8(SnapshotFooter::json_of(&bytes));
        let json = json.map_err(|error| error.to_string())?;
        let fold = self.fold.from_snapshot(json, &head.log).map_err(|error| error.to_string())?;
        Ok(Self { fold, parts: self.parts })
    }

    /// Fails if a part that is not in memory could not be written or read.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.parts.check()
    }
}

/// Returns the outline of a stored snapshot.
async fn read_outline(
    text: &StoredText,
    footer: SnapshotFooter,
) -> Result<SnapshotOutline, StoreError> {
    let json = text.read(footer.outline, footer.end - footer.outline).await?;
    serde_json::from_slice(&json).map_err(|error| StoreError::Corrupt {
        place: "the outline of a snapshot".to_owned(),
        what: error.to_string(),
    })
}
