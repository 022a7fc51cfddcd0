//! Checkpoints in a store: the sessions of a request's runs are numbered, and the last one is
//! unfinished until its log contains `session:ended`.

use std::sync::Arc;

use async_trait::async_trait;
use threadfold_core::{Payload, SessionEnded, SessionEvent, SessionId, SourceKind};
use threadfold_engine::{Options, Session, holder};
use threadfold_fold::RecordKind;
use threadfold_store::{Limit, Store};

use super::{Checkpoint, CheckpointHandler};
use crate::error::LoopError;
use crate::prompt::RunKey;

/// Derives checkpoints from the session logs in a store, without storing anything else.
#[derive(Clone)]
pub struct StoreCheckpoints {
    store: Arc<dyn Store>,
}

impl StoreCheckpoints {
    /// Returns the checkpoints of a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Returns the number of a request's last run; 0 if there was none. Earlier runs may have been
    /// removed.
    async fn last(&self, key: &RunKey) -> Result<u64, LoopError> {
        let prefix = prefix(key);
        let number = |session: &SessionId| session.as_str().strip_prefix(&prefix)?.parse().ok();
        let sessions = self.store.list_all(&prefix).await?;
        Ok(sessions.iter().filter_map(|it| number(&it.session)).max().unwrap_or_default())
    }

    /// Returns true if a session's log ends with `session:ended`.
    async fn has_ended(&self, session: &SessionId, seq: u64) -> Result<bool, LoopError> {
        let Some(before) = seq.checked_sub(1) else { return Ok(false) };
        let records = self.store.read(session, before, Limit::default()).await?;
        Ok(records.last().is_some_and(|record| {
            let text = std::str::from_utf8(record.content_and_mark().0).unwrap_or_default();
            let event = SessionEvent::from_json(text);
            // Older versions wrote ordinary events. An end grants nothing, so both are accepted.
            matches!(record.kind, RecordKind::Loop | RecordKind::Event)
                && matches!(event, Ok(SessionEvent { payload: Payload::SessionEnded(_), .. }))
        }))
    }
}

fn prefix(key: &RunKey) -> String {
    let short = key.as_str().get(..16).unwrap_or(key.as_str());
    format!("run-{short}-")
}

fn name(key: &RunKey, number: u64) -> SessionId {
    format!("{}{number}", prefix(key)).into()
}

#[async_trait]
impl CheckpointHandler for StoreCheckpoints {
    async fn load(&self, key: &RunKey) -> Result<Option<Checkpoint>, LoopError> {
        let session = match self.last(key).await? {
            0 => return Ok(None),
            last => name(key, last),
        };
        let Some(head) = self.store.head(&session).await? else { return Ok(None) };
        if self.has_ended(&session, head.seq).await? {
            return Ok(None);
        }
        Ok(Some(Checkpoint { session, log: Some(head.log), seq: head.seq, history: None }))
    }

    async fn begin(&self, key: &RunKey) -> Result<Checkpoint, LoopError> {
        Ok(Checkpoint::before(name(key, self.last(key).await? + 1)))
    }

    /// Does nothing: the log itself is the checkpoint.
    async fn save(&self, _: &RunKey, _: &Checkpoint) -> Result<(), LoopError> {
        Ok(())
    }

    async fn clear(&self, key: &RunKey) -> Result<(), LoopError> {
        let Some(checkpoint) = self.load(key).await? else { return Ok(()) };
        let options = Options::new(holder("clearing a checkpoint"));
        let mut session = Session::open(self.store.clone(), &checkpoint.session, options).await?;
        let ended = Payload::SessionEnded(SessionEnded { reason: Some("finished".into()) });
        session.emit(&SessionEvent::new(ended).from_source(SourceKind::Loop)).await?;
        session.close().await?;
        Ok(())
    }
}
