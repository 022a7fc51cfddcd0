//! Looking on while another process writes a session to the store.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use threadfold_convert::GENERATION;
use threadfold_core::SessionId;
use threadfold_engine::{Slices, is_gone, load};
use threadfold_store::{Cursor, Limit, Store};

use super::show::{Output, Show};
use super::stop;
use crate::error::{CommandError, say};

/// How often it is looked whether there still is a writer.
const LEASE_LOOKED_AT: Duration = Duration::from_secs(2);

pub(super) async fn look_on(
    store: Arc<dyn Store>,
    id: &SessionId,
    output: Output,
) -> Result<(), CommandError> {
    let loaded = load(&*store, id, u64::MAX, Slices::default()).await?;
    let mut fold = loaded.fold;
    let log = loaded.head.log;
    let cursor = |seq| Cursor { log: log.clone(), generation: GENERATION, seq }.to_string();
    let mut show = Show::new(output);
    let state = |fold: &threadfold_engine::Fold| fold.conversation().clone();
    show.state(id.as_str(), &cursor(fold.seq()), &state(&fold), fold.metadata())?;
    let mut stop = pin!(stop());
    loop {
        tokio::select! {
            stopped = &mut stop => return stopped,
            changed = store.changed(id, fold.seq()) => changed?,
            () = tokio::time::sleep(LEASE_LOOKED_AT) => {
                if is_left(&*store, id).await? {
                    say("nobody writes this session any more; `threadfold watch` follows it anew");
                    return Ok(());
                }
                continue;
            }
        }
        let records = store.read(id, fold.seq(), Limit::default()).await?;
        let steps: Vec<_> = records.iter().map(|record| fold.push(record)).collect();
        let changes = steps.iter().map(|step| (step.seq, step.changes.as_slice()));
        show.steps(id.as_str(), &cursor, changes, &state(&fold), fold.metadata())?;
    }
}

/// Says whether nobody writes a session: its lease was given back, has run out, or its holder is
/// gone.
async fn is_left(store: &dyn Store, id: &SessionId) -> Result<bool, CommandError> {
    let entry = store.list().await?.into_iter().find(|it| it.session == *id);
    let lease = entry.and_then(|entry| entry.lease);
    let now = jiff::Timestamp::now().as_millisecond();
    Ok(lease.is_none_or(|lease| lease.until.0 < now || is_gone(&lease.holder)))
}
