//! Sessions that are read once and stored nowhere, by the same way as all others.

use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{Fold, Record};
use threadfold_store::{Limit, MemoryStore, Store};

use crate::error::EngineError;
use crate::found::FoundSession;
use crate::holder::holder;
use crate::pipe::{Pipe, PipeInput, follow_pipe};
use crate::session::{Options, Session};

/// Opens a session that is gone with the process.
async fn transient(
    id: &SessionId,
    store: MemoryStore,
) -> Result<(Arc<dyn Store>, Session), EngineError> {
    let store: Arc<dyn Store> = Arc::new(store);
    // A snapshot would never be read.
    let options = Options { snapshot_every: u64::MAX, ..Options::new(holder("a reader")) };
    let session = Session::open(store.clone(), id, options).await?;
    Ok((store, session))
}

/// Folds a session that was found, and hands on every step.
pub async fn read_found(
    found: &FoundSession,
    observe: impl FnMut(&threadfold_fold::Step) + Send + 'static,
) -> Result<Fold, EngineError> {
    // A copy is compared with what was read before it; nothing else is read again.
    let store = match found.content.has_copies() {
        true => MemoryStore::default(),
        false => MemoryStore::forgetful(),
    };
    let (_, mut session) = transient(&found.id, store).await?;
    found.content.check()?;
    session.observe(infallible(observe));
    found.read_into(&mut session, &mut |_| {}).await?;
    Ok(session.into_fold())
}

/// Folds a session that comes through a pipe, and hands on every step.
pub async fn read_pipe(
    input: &PipeInput,
    pipe: Pipe,
    observe: impl FnMut(&threadfold_fold::Step) + Send + 'static,
) -> Result<Fold, EngineError> {
    let (_, mut session) = transient(&input.id, MemoryStore::forgetful()).await?;
    session.observe(infallible(observe));
    follow_pipe(&mut session, input, pipe, std::future::pending()).await?;
    Ok(session.into_fold())
}

/// Returns the records of sessions that are read as one, with their sources' declarations.
pub async fn records_of(
    id: &SessionId,
    found: &[FoundSession],
) -> Result<Vec<Record>, EngineError> {
    let (store, mut session) = transient(id, MemoryStore::default()).await?;
    for it in found {
        it.content.check()?;
        it.read_into(&mut session, &mut |_| {}).await?;
    }
    read_all(&*store, id).await
}

async fn read_all(store: &dyn Store, id: &SessionId) -> Result<Vec<Record>, EngineError> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let records = store.read(id, after, Limit::default()).await?;
        let Some(last) = records.last() else { return Ok(all) };
        after = last.seq;
        all.extend(records.into_iter().map(|it| it.record));
    }
}

type ObserverError = Box<dyn std::error::Error + Send + Sync>;

fn infallible(
    mut observe: impl FnMut(&threadfold_fold::Step) + Send + 'static,
) -> impl FnMut(&threadfold_fold::Step) -> Result<(), ObserverError> + Send + 'static {
    move |step| {
        observe(step);
        Ok(())
    }
}
