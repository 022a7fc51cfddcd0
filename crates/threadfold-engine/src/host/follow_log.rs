//! Tails the log of a session that another process writes.

use std::sync::Arc;
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_fold::{Fold, LogId, Slices, Step};
use threadfold_store::{Limit, Store};

use crate::error::EngineError;
use crate::holder::is_gone;
use crate::listeners::SessionHandle;
use crate::load::load_within;
use crate::parts_on_disk::PartsOnDisk;
use crate::spill_file::Budget;

/// How often to check whether the writer still exists.
const LEASE_CHECK: Duration = Duration::from_secs(2);

/// A session of another writer, folded as far as it was read.
pub(super) struct Tail {
    store: Arc<dyn Store>,
    fold: Fold,
    log: LogId,
    parts: PartsOnDisk,
    budget: Option<Budget>,
}

impl Tail {
    /// Reads a session up to its current end.
    pub(super) async fn open(
        store: Arc<dyn Store>,
        id: &SessionId,
        budget: Option<Budget>,
    ) -> Result<Self, EngineError> {
        let (slices, within) = (Slices::default(), budget.clone());
        let loaded = load_within(&store, id, u64::MAX, slices, within).await?;
        Ok(Self { fold: loaded.fold, log: loaded.head.log, parts: loaded.parts, store, budget })
    }

    /// Tails the log for all listeners in this process, until it has no writer.
    pub(super) fn follow(mut self) -> SessionHandle {
        let handle = SessionHandle::new(self.log.clone(), &self.fold);
        let published = handle.clone();
        tokio::spawn(async move {
            let reason = self.run(&published).await.unwrap_or_else(|error| error.to_string());
            published.end(&reason);
        });
        handle
    }

    /// Publishes new records, and returns why no more will follow.
    async fn run(&mut self, handle: &SessionHandle) -> Result<String, EngineError> {
        let id = self.fold.session().clone();
        loop {
            let is_left = tokio::select! {
                changed = self.store.changed(&id, self.fold.seq()) => changed.map(|()| false)?,
                () = tokio::time::sleep(LEASE_CHECK) => self.is_left(&id).await?,
            };
            // Read after the lease was checked: a writer releases it after its last record. Read
            // even if nothing changed, because a log that was created again may be shorter.
            while self.publish_next(handle).await? {}
            if is_left {
                return Ok("the session has no writer any more".to_owned());
            }
        }
    }

    /// Publishes the next records, and returns whether there were any.
    async fn publish_next(&mut self, handle: &SessionHandle) -> Result<bool, EngineError> {
        let id = self.fold.session().clone();
        let records = self.store.read(&id, self.fold.seq(), Limit::default()).await?;
        // Checked after reading: a log id is never reused, so the records are of this log.
        if self.store.head(&id).await?.is_none_or(|head| head.log != self.log) {
            *self = Self::open(self.store.clone(), &id, self.budget.clone()).await?;
            handle.replace(self.log.clone(), &self.fold);
            return Ok(true);
        }
        if records.is_empty() {
            return Ok(false);
        }
        let steps: Vec<Arc<Step>> =
            records.iter().map(|record| Arc::new(self.fold.push(record))).collect();
        self.parts.check()?;
        handle.publish(&self.fold, steps);
        Ok(true)
    }

    /// Returns whether the session has no writer: its lease was released or has expired, or its
    /// holder has died.
    async fn is_left(&self, id: &SessionId) -> Result<bool, EngineError> {
        let lease = self.store.entry(id).await?.and_then(|entry| entry.lease);
        Ok(lease.is_none_or(|lease| lease.is_expired() || is_gone(&lease.holder)))
    }
}

#[cfg(test)]
mod tests {
    use threadfold_core::SessionEvent;
    use threadfold_store::MemoryStore;

    use super::*;
    use crate::holder::holder;
    use crate::session::{Options, Session};

    async fn emit_all(store: &Arc<dyn Store>, texts: &[&str]) {
        let options = Options::new(holder("a test"));
        let mut session = Session::open(store.clone(), &"s".into(), options).await.unwrap();
        for text in texts {
            let event = format!(
                r#"{{"type":"block:upsert","payload":{{"block":{{"id":"{text}","type":"assistant_text","content":"{text}","status":"complete"}}}}}}"#
            );
            session.emit(&SessionEvent::from_json(&event).unwrap()).await.unwrap();
        }
        session.close().await.unwrap();
    }

    fn blocks(handle: &SessionHandle) -> Vec<String> {
        let (_, state) = handle.conversation();
        state.blocks().iter().map(|block| block.id.to_string()).collect()
    }

    #[tokio::test]
    async fn a_restarted_session_is_not_mixed_with_the_old_one() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        emit_all(&store, &["a", "b"]).await;
        let mut tail = Tail::open(store.clone(), &"s".into(), None).await.unwrap();
        let handle = SessionHandle::new(tail.log.clone(), &tail.fold);
        emit_all(&store, &["c"]).await;
        tail.publish_next(&handle).await.unwrap();
        assert_eq!(blocks(&handle), ["a", "b", "c"]);

        store.remove(&"s".into()).await.unwrap();
        emit_all(&store, &["d", "e", "f", "g"]).await;
        tail.publish_next(&handle).await.unwrap();
        assert_eq!(blocks(&handle), ["d", "e", "f", "g"]);

        store.remove(&"s".into()).await.unwrap();
        emit_all(&store, &["h"]).await;
        tail.publish_next(&handle).await.unwrap();
        assert_eq!(blocks(&handle), ["h"], "a log that is shorter than the old one");
    }
}
