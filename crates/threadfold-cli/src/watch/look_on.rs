//! Looking on while another process writes a session to the store.

use std::pin::pin;
use std::sync::Arc;

use threadfold_convert::GENERATION;
use threadfold_core::SessionId;
use threadfold_engine::{Slices, load};
use threadfold_store::{Cursor, Limit, Store};

use super::show::{Output, Show};
use super::stop;
use crate::error::CommandError;

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
    let state = |fold: &threadfold_engine::Fold| fold.conversation().cloned().unwrap_or_default();
    show.state(id.as_str(), &cursor(fold.seq()), &state(&fold), fold.metadata())?;
    let mut stop = pin!(stop());
    loop {
        tokio::select! {
            stopped = &mut stop => return stopped,
            changed = store.changed(id, fold.seq()) => changed?,
        }
        let records = store.read(id, fold.seq(), Limit::default()).await?;
        let steps: Vec<_> = records.iter().map(|record| fold.push(record)).collect();
        let changes = steps.iter().map(|step| (step.seq, step.changes.as_slice()));
        show.steps(id.as_str(), &cursor, changes, &state(&fold), fold.metadata())?;
    }
}
