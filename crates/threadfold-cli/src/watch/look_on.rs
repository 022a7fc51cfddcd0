//! Looking on while another process writes a session to the store.

use std::pin::pin;
use std::time::Duration;

use threadfold_convert::GENERATION;
use threadfold_core::SessionId;
use threadfold_engine::{EngineError, Fold, Slices, Step, is_gone, load_within};
use threadfold_store::{Cursor, Limit, LogId, Store};

use super::show::{Output, Show};
use super::{Keeping, stop};
use crate::error::{CommandError, say};

/// How often it is looked whether there still is a writer.
const LEASE_LOOKED_AT: Duration = Duration::from_secs(2);

pub(super) async fn look_on(
    keeping: &Keeping,
    id: &SessionId,
    output: Output,
) -> Result<(), CommandError> {
    let store = &*keeping.store;
    let mut looking = Looking::begin(keeping, id).await?;
    let mut show = Show::new(output);
    looking.show_state(&mut show)?;
    let mut stop = pin!(stop());
    loop {
        tokio::select! {
            stopped = &mut stop => return stopped,
            changed = store.changed(id, looking.fold.seq()) => changed?,
            () = tokio::time::sleep(LEASE_LOOKED_AT) => {
                if is_left(store, id).await? {
                    say("nobody writes this session any more; `threadfold watch` follows it anew");
                    return Ok(());
                }
                continue;
            }
        }
        match looking.read_on(keeping).await? {
            Seen::Steps(steps) if steps.iter().any(|step| step.restored) => {
                looking.show_state(&mut show)?;
            }
            Seen::Steps(steps) => looking.show_steps(&mut show, &steps)?,
            Seen::AnotherLog => {
                say("the session was removed and begun anew; this is the new one");
                looking.show_state(&mut show)?;
            }
        }
    }
}

/// A session of another writer, as far as it was read.
struct Looking {
    fold: Fold,
    log: LogId,
}

/// What was new in it.
enum Seen {
    Steps(Vec<Step>),
    /// It is not the session any more that was looked at.
    AnotherLog,
}

impl Looking {
    async fn begin(keeping: &Keeping, id: &SessionId) -> Result<Self, EngineError> {
        let Keeping { store, budget } = keeping;
        let (slices, budget) = (Slices::default(), Some(budget.clone()));
        let loaded = load_within(&**store, id, u64::MAX, slices, budget).await?;
        Ok(Self { fold: loaded.fold, log: loaded.head.log })
    }

    async fn read_on(&mut self, keeping: &Keeping) -> Result<Seen, EngineError> {
        let store = &keeping.store;
        let id = self.fold.session().clone();
        let records = store.read(&id, self.fold.seq(), Limit::default()).await?;
        // Asked after reading: what was read is of this log, for a log never comes back.
        if store.head(&id).await?.is_none_or(|head| head.log != self.log) {
            *self = Self::begin(keeping, &id).await?;
            return Ok(Seen::AnotherLog);
        }
        let steps = records.iter().map(|record| self.fold.push(record)).collect();
        self.fold.check()?;
        Ok(Seen::Steps(steps))
    }

    fn show_state(&self, show: &mut Show) -> Result<(), CommandError> {
        let (fold, cursor) = (&self.fold, self.cursor(self.fold.seq()));
        show.state(fold.session().as_str(), &cursor, fold.conversation(), fold.metadata())?;
        Ok(())
    }

    fn show_steps(&self, show: &mut Show, steps: &[Step]) -> Result<(), CommandError> {
        let fold = &self.fold;
        let changes = steps.iter().map(|step| (step.seq, step.changes.as_slice()));
        let cursor = |seq| self.cursor(seq);
        show.steps(
            fold.session().as_str(),
            &cursor,
            changes,
            fold.conversation(),
            fold.metadata(),
        )?;
        Ok(())
    }

    fn cursor(&self, seq: u64) -> String {
        Cursor { log: self.log.clone(), generation: GENERATION, seq }.to_string()
    }
}

/// Returns whether nobody writes a session: its lease was released or has expired, or its holder no
/// longer runs.
async fn is_left(store: &dyn Store, id: &SessionId) -> Result<bool, CommandError> {
    let lease = store.entry(id).await?.and_then(|entry| entry.lease);
    Ok(lease.is_none_or(|lease| lease.is_expired() || is_gone(&lease.holder)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use threadfold_core::SessionEvent;
    use threadfold_engine::{Budget, Options, Session, holder};
    use threadfold_store::MemoryStore;

    use super::*;

    async fn say_all(store: &Arc<dyn Store>, texts: &[&str]) {
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

    fn blocks(looking: &Looking) -> Vec<String> {
        looking.fold.conversation().blocks().iter().map(|block| block.id.to_string()).collect()
    }

    #[tokio::test]
    async fn a_session_that_was_begun_anew_is_not_mixed_with_the_old_one() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let budget = Budget { bytes: usize::MAX, folder: std::env::temp_dir() };
        let keeping = Keeping { store: store.clone(), budget };
        say_all(&store, &["a", "b"]).await;
        let mut looking = Looking::begin(&keeping, &"s".into()).await.unwrap();
        say_all(&store, &["c"]).await;
        let seen = looking.read_on(&keeping).await.unwrap();
        assert!(matches!(seen, Seen::Steps(steps) if steps.len() == 1));

        store.remove(&"s".into()).await.unwrap();
        say_all(&store, &["d", "e", "f", "g"]).await;
        let seen = looking.read_on(&keeping).await.unwrap();
        assert!(matches!(seen, Seen::AnotherLog));
        assert_eq!(blocks(&looking), ["d", "e", "f", "g"]);
    }
}
