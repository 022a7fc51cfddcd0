//! Sessions that are read once and not stored, through the same spine as all others.

use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{Fold, Record};
use threadfold_store::{Limit, MemoryStore, Store};

use crate::error::EngineError;
use crate::found_session::FoundSession;
use crate::holder::holder;
use crate::pipe::{Pipe, PipeInput, follow_pipe};
use crate::session::{Options, Session};
use crate::spill_file::Budget;

/// Opens an in-memory session.
async fn transient(
    id: &SessionId,
    store: MemoryStore,
    budget: Option<Budget>,
) -> Result<(Arc<dyn Store>, Session), EngineError> {
    let store: Arc<dyn Store> = Arc::new(store);
    // A snapshot would never be read.
    let options = Options { snapshot_every: u64::MAX, budget, ..Options::new(holder("a reader")) };
    let session = Session::open(store.clone(), id, options).await?;
    Ok((store, session))
}

/// Folds a discovered session, spills state beyond the budget, and passes on every step.
pub async fn read_found(
    found: &FoundSession,
    budget: Budget,
    observe: impl FnMut(&threadfold_fold::Step) + Send + 'static,
) -> Result<Fold, EngineError> {
    // A copy is compared with what was read before it; nothing else is read twice.
    let store = match found.content.has_copies() {
        true => MemoryStore::default(),
        false => MemoryStore::forgetful(),
    };
    let (_, mut session) = transient(&found.id, store, Some(budget)).await?;
    found.content.check()?;
    session.observe(infallible(observe));
    found.read_into(&mut session, &mut |_| {}).await?;
    Ok(session.into_fold())
}

/// Folds a session from a pipe, spills state beyond the budget, and passes on every step.
pub async fn read_pipe(
    input: &PipeInput,
    pipe: Pipe,
    budget: Budget,
    observe: impl FnMut(&threadfold_fold::Step) + Send + 'static,
) -> Result<Fold, EngineError> {
    let (_, mut session) = transient(&input.id, MemoryStore::forgetful(), Some(budget)).await?;
    session.observe(infallible(observe));
    follow_pipe(&mut session, input, pipe, std::future::pending()).await?;
    Ok(session.into_fold())
}

/// Returns the records of several sessions read as one, with the declarations of their sources.
pub async fn records_of(
    id: &SessionId,
    found: &[FoundSession],
) -> Result<Vec<Record>, EngineError> {
    let (store, mut session) = transient(id, MemoryStore::default(), None).await?;
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
