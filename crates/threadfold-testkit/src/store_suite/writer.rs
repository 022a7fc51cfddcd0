//! A writer that records what it wrote.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, Record, RecordKind, StoredRecord, Timestamp};
use threadfold_store::{Append, AppendReceipt, BatchId, Epoch, Holder, Limit, Store, StoreError};

/// When the clock of every store in the suite starts.
pub const NOW: Timestamp = Timestamp(1_700_000_000_000);
/// The duration of leases in the suite.
pub const LASTING: Duration = Duration::from_secs(10);

/// Writes to a session, and records what was acknowledged.
#[derive(Clone)]
pub struct Writer {
    /// The session it writes to.
    pub store: Arc<dyn Store>,
    /// The store it writes to.
    pub session: SessionId,
    /// The epoch of its lease.
    pub epoch: Epoch,
    /// The acknowledged records.
    pub written: Vec<StoredRecord>,
    /// The acknowledged appends.
    pub appends: Vec<(Append, AppendReceipt)>,
}

impl Writer {
    /// Creates a session, and acquires its lease.
    pub async fn begin(store: &Arc<dyn Store>, session: &str) -> Self {
        let session = SessionId::from(session);
        store.create(&session, LogId::from("log")).await.expect("a session can be created");
        Self::continue_as(store, session, "suite").await
    }

    /// Takes over the lease of a session, whoever holds it.
    pub async fn continue_as(store: &Arc<dyn Store>, session: SessionId, who: &str) -> Self {
        let head = store.head(&session).await.expect("a head can be read").expect("it exists");
        let holder = holder(who);
        let lease = store
            .take_over(&session, &holder, LASTING, head.epoch)
            .await
            .expect("the lease can be taken over");
        Self {
            store: Arc::clone(store),
            session,
            epoch: lease.epoch,
            written: Vec::new(),
            appends: Vec::new(),
        }
    }

    /// Returns the append of these records after those already written.
    pub fn next(&self, records: Vec<Record>) -> Append {
        let after = self.written.len() as u64;
        let mut batch = [0; 16];
        batch[..8].copy_from_slice(&after.to_le_bytes());
        batch[8..].copy_from_slice(&self.epoch.0.to_le_bytes());
        Append {
            session: self.session.clone(),
            epoch: self.epoch,
            after,
            batch: BatchId(batch),
            records,
        }
    }

    /// Appends records, and records them if they were acknowledged.
    pub async fn append(&mut self, records: Vec<Record>) -> Result<AppendReceipt, StoreError> {
        let append = self.next(records);
        let appended = self.store.append(append.clone()).await?;
        let after = append.after;
        assert_eq!(
            appended,
            AppendReceipt { first: after + 1, last: after + append.records.len() as u64 }
        );
        let numbered = append.records.iter().cloned().zip(after + 1..);
        self.written.extend(numbered.map(|(record, seq)| record.at(seq)));
        self.appends.push((append, appended));
        Ok(appended)
    }

    /// Appends enough records that any store compacts some of them.
    pub async fn write_a_long_log(&mut self) {
        for number in 0..1100 {
            let count = 1 + number % 3;
            let first = self.written.len();
            let records = (first..first + count).map(|number| line(&self.session, number));
            self.append(records.collect()).await.expect("a valid append is accepted");
        }
    }

    /// Reads the whole log, in as many reads as it takes.
    pub async fn read_all(&self) -> Vec<StoredRecord> {
        read_all(&self.store, &self.session).await
    }

    /// Checks that the log contains exactly the acknowledged records.
    pub async fn check(&self) {
        let found = self.read_all().await;
        assert_eq!(found.len(), self.written.len());
        for (found, written) in found.iter().zip(&self.written) {
            assert_eq!(found, written);
        }
        let head = self.store.head(&self.session).await.expect("a head can be read");
        assert_eq!(head.map(|head| head.seq), Some(self.written.len() as u64));
    }
}

/// Reads a whole log, in as many reads as it takes.
pub async fn read_all(store: &Arc<dyn Store>, session: &SessionId) -> Vec<StoredRecord> {
    let mut records: Vec<StoredRecord> = Vec::new();
    loop {
        let after = records.len() as u64;
        let limit = Limit { bytes: 300_000, ..Limit::default() };
        let more = store.read(session, after, limit).await.expect("a log can be read");
        if more.is_empty() {
            return records;
        }
        records.extend(more);
    }
}

/// Returns a holder with a name.
pub fn holder(who: &str) -> Holder {
    Holder {
        what: who.to_owned(),
        host: "here".to_owned(),
        process: 7,
        started: 1,
        namespace: "these".to_owned(),
    }
}

/// Returns a unique line in the style of an agent, with its session.
pub fn line(session: &SessionId, number: usize) -> Record {
    let text = "all work and no play ".repeat(number % 40);
    let bytes = format!("{{\"sessionId\":\"{session}\",\"uuid\":{number},\"text\":\"{text}\"}}\n");
    Record {
        kind: RecordKind::Line,
        source: 1 + (number % 2) as u32,
        position: number as u64 * 1000,
        received: Timestamp(NOW.0 + number as i64),
        bytes: Bytes::from(bytes),
    }
}

/// Returns a record of these bytes.
pub fn record(bytes: impl Into<Bytes>) -> Record {
    Record { kind: RecordKind::Line, source: 1, position: 0, received: NOW, bytes: bytes.into() }
}
