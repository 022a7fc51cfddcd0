//! The first step of the spine: appends incoming records to the log.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_fold::{Record, Step, StoredRecord};
use threadfold_store::{Append, BatchId, Limit, Store, StoreError};
use uuid::Uuid;

use super::{Session, now};
use crate::error::EngineError;

/// How long appends are retried: the records may be the result of work that cannot be
/// repeated.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// The delay between two attempts, at first and at most.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Incoming records that are durable.
pub(super) struct AppendedRecords {
    /// Steps of records that were already in the log; they are folded and published.
    pub(super) steps: Vec<Arc<Step>>,
    /// Records that were appended to the log, and are to be folded.
    pub(super) records: Vec<Record>,
}

/// A record that was already in the log, and its step.
pub(crate) type RecoveredStep = (StoredRecord, Arc<Step>);

impl AppendedRecords {
    /// Drops records that are already in the log: the same lines of a source, passed again.
    fn drop_known(&mut self, found: Vec<RecoveredStep>) {
        let is_same = |((found, _), new): (&RecoveredStep, &Record)| {
            let of_log = (found.kind, found.source, found.position, &found.bytes);
            new.source != 0 && of_log == (new.kind, new.source, new.position, &new.bytes)
        };
        let is_begun = found.len() <= self.records.len();
        if is_begun && found.iter().zip(&self.records).all(is_same) {
            self.records.drain(..found.len());
            self.steps.extend(found.into_iter().map(|(_, step)| step));
        }
    }
}

impl Session {
    /// Appends incoming records, after settling an earlier unacknowledged write.
    pub(super) async fn append_all(
        &mut self,
        mut records: Vec<Record>,
    ) -> Result<AppendedRecords, EngineError> {
        let received = now();
        records.iter_mut().for_each(|record| record.received = received);
        let mut appended = AppendedRecords { steps: Vec::new(), records };
        let was_unsettled = self.is_unsettled;
        appended.drop_known(self.settle().await?);
        match self.append(&appended.records).await {
            // A write whose future was dropped has reached the store meanwhile.
            Err(EngineError::Store(StoreError::Conflict { .. })) if was_unsettled => {
                appended.drop_known(self.settle().await?);
                self.append(&appended.records).await?;
            }
            done => done?,
        }
        Ok(appended)
    }

    /// If a write was dropped or failed, folds records that reached the log unacknowledged.
    pub(crate) async fn settle(&mut self) -> Result<Vec<RecoveredStep>, EngineError> {
        if !self.is_unsettled {
            return Ok(Vec::new());
        }
        self.abandon_append().await;
        // The lease still holds, so no other process wrote; the store runs this after earlier requests.
        self.tenure.confirm().await?;
        let head = self.store.head(&self.id).await?.map_or(0, |head| head.seq);
        let mut found: Vec<StoredRecord> = Vec::new();
        let mut after = self.fold.seq();
        while after < head {
            let limit = Limit { until: head, ..Limit::default() };
            found.extend(self.store.read(&self.id, after, limit).await?);
            let last = found.last().map(|record| record.seq).filter(|last| *last > after);
            after = last.ok_or_else(|| self.is_missing(after + 1, head))?;
        }
        let steps: Vec<_> = found.iter().map(|it| Arc::new(self.fold.push(it))).collect();
        self.is_unsettled = false;
        self.show(&steps)?;
        Ok(found.into_iter().zip(steps).collect())
    }

    fn is_missing(&self, record: u64, of: u64) -> StoreError {
        let place = format!("session `{}`", self.id);
        StoreError::Corrupt { place, what: format!("record {record} of {of} is missing") }
    }

    /// Appends records to the log: all of them are durable when this returns.
    async fn append(&mut self, records: &[Record]) -> Result<(), EngineError> {
        if records.is_empty() {
            return Ok(());
        }
        let append = self.prepare(self.fold.seq(), records);
        append_durably(&*self.store, append).await
    }

    /// Starts to append the records that follow those up to `after`, all of which are durable, and
    /// returns them as they are stored. [`finish_append`](Self::finish_append) is to be called next.
    pub(super) fn start_append(&mut self, after: u64, mut records: Vec<Record>) -> Vec<Record> {
        let received = now();
        records.iter_mut().for_each(|record| record.received = received);
        let append = self.prepare(after, &records);
        let store = self.store.clone();
        self.running_append =
            Some(tokio::spawn(async move { append_durably(&*store, append).await }));
        records
    }

    /// Waits until the append that was started is durable, or has failed.
    pub(super) async fn finish_append(&mut self) -> Result<(), EngineError> {
        let Some(running) = &mut self.running_append else { return Ok(()) };
        let finished = running.await;
        self.running_append = None;
        finished.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    /// Ends the append that was started, if nobody waits for it any more. The log has it or not.
    pub(super) async fn abandon_append(&mut self) {
        if let Some(running) = &mut self.running_append {
            running.abort();
            // Whether it was durable, the log tells; `settle` reads it.
            running.await.ok();
            self.running_append = None;
        }
    }

    fn prepare(&mut self, after: u64, records: &[Record]) -> Append {
        self.is_unsettled = true;
        Append {
            session: self.id.clone(),
            epoch: self.tenure.epoch(),
            after,
            batch: BatchId(Uuid::new_v4().into_bytes()),
            records: records.to_vec(),
        }
    }
}

async fn append_durably(store: &dyn Store, append: Append) -> Result<(), EngineError> {
    let (start, mut pause) = (Instant::now(), PAUSE);
    loop {
        match store.append(append.clone()).await {
            Err(StoreError::Unreachable { .. }) if start.elapsed() < RETRY_TIMEOUT => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            appended => return Ok(appended.map(drop)?),
        }
    }
}
