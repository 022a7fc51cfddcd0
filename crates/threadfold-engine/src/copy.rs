//! Copies sessions from one store to another, whatever kinds of stores they are.
//!
//! A copy that was interrupted continues where it ended: the target's log says how far it came.

use std::sync::Arc;
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_fold::Record;
use threadfold_store::{Append, BatchId, Epoch, Holder, Limit, LogHead, Store, StoreError};

use crate::error::EngineError;
use crate::holder::is_gone;

/// How long the lease of a target's session lasts without renewal.
const LEASE: Duration = Duration::from_secs(30);
/// About how many bytes of records are appended at once.
const PORTION: usize = 4 << 20;

/// What became of a session that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// How many records the target had already.
    pub known: u64,
    /// How many were added.
    pub added: u64,
    /// The hash of all records, which is the same in both stores.
    pub digest: String,
}

/// Copies a session, with its log as it is now, and verifies the copy record by record.
///
/// Snapshots are not copied: the target's reader makes its own. `progress` is called with the number
/// of records that were added, several times.
pub async fn copy_session(
    from: &Arc<dyn Store>,
    to: &Arc<dyn Store>,
    session: &SessionId,
    holder: &Holder,
    mut progress: impl FnMut(u64) + Send,
) -> Result<CopyReport, EngineError> {
    let missing = || StoreError::NotFound { session: session.clone() };
    let entry = from.entry(session).await?.ok_or_else(missing)?;
    let source = &entry.head;
    let target = to.create(session, source.log.clone()).await?;
    if target.log != source.log || target.seq > source.seq {
        return Err(EngineError::OtherLog { session: session.clone() });
    }
    let known = target.seq;
    if known < source.seq {
        // Of a copy that was interrupted on this machine, nothing but its lease is left.
        let lease = match to.acquire(session, holder, LEASE).await {
            Err(StoreError::Held { holder: other, epoch, .. }) if is_gone(&other) => {
                to.take_over(session, holder, LEASE, epoch).await?
            }
            acquired => acquired?,
        };
        let epoch = lease.epoch;
        let target = CopyTarget { store: &**to, session, epoch };
        let copied = append_rest(&**from, &target, source, known, &mut progress).await;
        let released = to.release(session, epoch).await;
        copied?;
        released?;
    }
    let digest = digest(&**from, session, source.seq).await?;
    if self::digest(&**to, session, source.seq).await? != digest {
        return Err(EngineError::OtherLog { session: session.clone() });
    }
    if let Some(summary) = entry.summary {
        to.put_summary(session, &source.log, summary).await?;
    }
    Ok(CopyReport { known, added: source.seq - known, digest })
}

/// A session of the target, while it is written.
struct CopyTarget<'a> {
    store: &'a dyn Store,
    session: &'a SessionId,
    epoch: Epoch,
}

/// Appends the records of the source after `after`.
async fn append_rest(
    from: &dyn Store,
    target: &CopyTarget<'_>,
    source: &LogHead,
    mut after: u64,
    progress: &mut (impl FnMut(u64) + Send),
) -> Result<(), EngineError> {
    let CopyTarget { store, session, epoch } = *target;
    while after < source.seq {
        let limit = Limit { until: source.seq, bytes: PORTION };
        let stored = from.read(session, after, limit).await?;
        let records: Vec<Record> = stored.into_iter().map(|it| it.record).collect();
        if records.is_empty() {
            let place = format!("session `{session}`");
            let what = format!("record {} is missing", after + 1);
            return Err(StoreError::Corrupt { place, what }.into());
        }
        let batch = batch_id(source, after);
        let append = Append { session: session.clone(), epoch, after, batch, records };
        let receipt = store.append(append).await?;
        progress(receipt.last - after);
        after = receipt.last;
        store.renew(session, epoch, LEASE).await?;
    }
    Ok(())
}

/// Returns an id for the append after a record: the same for every attempt to copy this log.
fn batch_id(log: &LogHead, after: u64) -> BatchId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"copy\0").update(log.log.as_str().as_bytes()).update(&after.to_le_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    BatchId(id)
}

/// Returns the hash of all records of a log up to `until`.
async fn digest(store: &dyn Store, session: &SessionId, until: u64) -> Result<String, EngineError> {
    let (mut hasher, mut after) = (blake3::Hasher::new(), 0);
    while after < until {
        let limit = Limit { until, ..Limit::default() };
        let records = store.read(session, after, limit).await?;
        let Some(last) = records.last().map(|it| it.seq) else { break };
        for record in &records {
            let Record { kind, source, position, received, bytes } = &record.record;
            hasher.update(&record.seq.to_le_bytes()).update(&[kind.code()]);
            hasher.update(&source.to_le_bytes()).update(&position.to_le_bytes());
            hasher.update(&received.0.to_le_bytes());
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        }
        after = last;
    }
    hasher.update(&after.to_le_bytes());
    Ok(hasher.finalize().to_hex().to_string())
}
