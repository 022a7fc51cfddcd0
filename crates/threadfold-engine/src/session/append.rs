//! The first step of the spine: what came in becomes records of the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_fold::{Record, Step, StoredRecord};
use threadfold_store::{Append, BatchId, Limit, StoreError};
use uuid::Uuid;

use super::{Session, now};
use crate::error::EngineError;

/// How long it is tried to reach the store: what came in may be the result of work that cannot be
/// done again.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it is waited between two tries, at first and at most.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What came in and is durable.
pub(super) struct Appended {
    /// What was found in the log already, and is understood and shown.
    pub(super) steps: Vec<Arc<Step>>,
    /// What was added to the log, and is to be understood.
    pub(super) records: Vec<Record>,
}

/// A record that was found in the log, and what it meant.
type Found = (StoredRecord, Arc<Step>);

impl Appended {
    /// Leaves out what was found in the log already: the same lines of a source, handed over again.
    fn leave_out(&mut self, found: Vec<Found>) {
        let is_same = |((found, _), new): (&Found, &Record)| {
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
    /// Adds to the log what came in, after settling what became of an earlier try.
    pub(super) async fn append_all(
        &mut self,
        mut records: Vec<Record>,
    ) -> Result<Appended, EngineError> {
        let received = now();
        records.iter_mut().for_each(|record| record.received = received);
        let mut appended = Appended { steps: Vec::new(), records };
        let was_unsettled = self.is_unsettled;
        appended.leave_out(self.settle().await?);
        match self.append(&appended.records).await {
            // What was dropped on its way to the store has come there meanwhile.
            Err(EngineError::Store(StoreError::Conflict { .. })) if was_unsettled => {
                appended.leave_out(self.settle().await?);
                self.append(&appended.records).await?;
            }
            done => done?,
        }
        Ok(appended)
    }

    /// Hears what is in the log and was not acknowledged, if a write was dropped or failed.
    pub(super) async fn settle(&mut self) -> Result<Vec<Found>, EngineError> {
        if !self.is_unsettled {
            return Ok(Vec::new());
        }
        // The lease still holds, so nobody else wrote. And this comes behind what was asked before.
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
        StoreError::Corrupt { place, what: format!("record {record} is missing of {of}") }
    }

    /// Adds records to the log: all of them are durable when this returns.
    async fn append(&mut self, records: &[Record]) -> Result<(), EngineError> {
        if records.is_empty() {
            return Ok(());
        }
        let append = Append {
            session: self.id.clone(),
            epoch: self.tenure.epoch(),
            after: self.fold.seq(),
            batch: BatchId(Uuid::new_v4().into_bytes()),
            records: records.to_vec(),
        };
        self.is_unsettled = true;
        let (start, mut pause) = (Instant::now(), PAUSE);
        loop {
            match self.store.append(append.clone()).await {
                Err(StoreError::Unreachable { .. }) if start.elapsed() < PATIENCE => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                appended => return Ok(appended.map(drop)?),
            }
        }
    }
}
