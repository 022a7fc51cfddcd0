//! Rebuilds what can still be read of a corrupt session's files.

use std::io;
use std::ops::RangeInclusive;

use threadfold_core::SessionId;
use threadfold_fold::{SourceRole, SourceSpec};
use threadfold_store::{Limit, Store, StoreError};

use crate::error::EngineError;
use crate::originals::{Sources, end};

/// Writes what can still be read of a corrupt log as [`originals`](crate::originals()) does, and returns the unreadable
/// records.
///
/// Their bytes are missing from the output. A source whose declaration was lost is named after
/// its number.
pub async fn salvage(
    store: &dyn Store,
    session: &SessionId,
    mut write: impl FnMut(&SourceSpec, u64, &[u8]) -> io::Result<()>,
) -> Result<Vec<RangeInclusive<u64>>, EngineError> {
    let end = end(store, session).await?;
    let mut sources = Sources::naming_undeclared(undeclared);
    let mut lost: Vec<RangeInclusive<u64>> = Vec::new();
    let whole = Limit::default();
    let (mut after, mut bytes) = (0, whole.bytes);
    while after < end {
        match store.read(session, after, Limit { bytes, ..whole }).await {
            // The first record may be intact and only a later one corrupt: read less.
            Err(StoreError::Corrupt { .. }) if bytes > 1 => bytes /= 2,
            Ok(records) if records.first().is_some_and(|it| it.seq == after + 1) => {
                for record in &records {
                    sources.write_record(record, &mut write)?;
                    after = record.seq;
                }
                bytes = (bytes * 2).min(whole.bytes);
            }
            Ok(_) | Err(StoreError::Corrupt { .. }) => {
                after += 1;
                match lost.last_mut() {
                    Some(last) if last.end() + 1 == after => *last = *last.start()..=after,
                    _ => lost.push(after..=after),
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(lost)
}

fn undeclared(source: u32) -> SourceSpec {
    SourceSpec {
        agent: None,
        kind: SourceRole::Main,
        agent_id: None,
        name: format!("source-{source}"),
        path: None,
        part: 1,
    }
}
