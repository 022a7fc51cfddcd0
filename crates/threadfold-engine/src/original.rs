//! A session's files as they were, out of its log.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;

use threadfold_core::SessionId;
use threadfold_fold::{RecordKind, SourceRole, SourceSpec, StoredRecord};
use threadfold_store::{Limit, Store, StoreError};

use crate::error::EngineError;

/// Hands out every byte that came from every source, in the order of the log.
///
/// `write` is called with the source, a position and bytes: what was written behind that position
/// before is cut off, and the bytes stand there. That is rare: a last line that had no end, or a
/// file that was replaced. A source is begun with no bytes, for a file may be empty.
pub async fn originals(
    store: &dyn Store,
    session: &SessionId,
    mut write: impl FnMut(&SourceSpec, u64, &[u8]) -> io::Result<()>,
) -> Result<(), EngineError> {
    let end = end(store, session).await?;
    let mut sources = Sources::default();
    let mut after = 0;
    while after < end {
        let records = store.read(session, after, Limit::default()).await?;
        let Some(last) = records.last() else { break };
        after = last.seq;
        for record in &records {
            sources.hand_out(record, &mut write)?;
        }
    }
    Ok(())
}

/// Hands out what can still be read of a damaged log as [`originals`] does, and returns which
/// records cannot be.
///
/// Bytes are missing where those were. A source of which nothing is known any more has a name that
/// tells its number.
pub async fn salvage(
    store: &dyn Store,
    session: &SessionId,
    mut write: impl FnMut(&SourceSpec, u64, &[u8]) -> io::Result<()>,
) -> Result<Vec<RangeInclusive<u64>>, EngineError> {
    let end = end(store, session).await?;
    let mut sources = Sources { invents: true, ..Sources::default() };
    let mut lost: Vec<RangeInclusive<u64>> = Vec::new();
    let whole = Limit::default();
    let (mut after, mut bytes) = (0, whole.bytes);
    while after < end {
        match store.read(session, after, Limit { bytes, ..whole }).await {
            // What is damaged may stand further behind.
            Err(StoreError::Corrupt { .. }) if bytes > 1 => bytes /= 2,
            Ok(records) if records.first().is_some_and(|it| it.seq == after + 1) => {
                for record in &records {
                    sources.hand_out(record, &mut write)?;
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

async fn end(store: &dyn Store, session: &SessionId) -> Result<u64, EngineError> {
    let head = store.head(session).await?;
    Ok(head.ok_or_else(|| StoreError::NotFound { session: session.clone() })?.seq)
}

/// The sources that a log told of so far.
#[derive(Default)]
struct Sources {
    known: BTreeMap<u32, SourceSpec>,
    /// One that nothing was told of gets a name.
    invents: bool,
}

impl Sources {
    fn hand_out(
        &mut self,
        record: &StoredRecord,
        write: &mut impl FnMut(&SourceSpec, u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), EngineError> {
        let mut write = |spec: &SourceSpec, bytes: &[u8]| {
            write(spec, record.position, bytes)
                .map_err(|source| EngineError::Output { name: spec.name.clone(), source })
        };
        match record.kind {
            RecordKind::Source => {
                if let Ok(spec) = serde_json::from_slice::<SourceSpec>(&record.bytes) {
                    write(&spec, &[])?;
                    self.known.insert(record.source, spec);
                }
            }
            RecordKind::Line
            | RecordKind::Document
            | RecordKind::Partial
            | RecordKind::Piece
            | RecordKind::LastPiece => {
                if self.invents {
                    self.known.entry(record.source).or_insert_with(|| unknown(record.source));
                }
                if let Some(spec) = self.known.get(&record.source) {
                    write(spec, &record.bytes)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn unknown(source: u32) -> SourceSpec {
    SourceSpec {
        agent: None,
        kind: SourceRole::Main,
        agent_id: None,
        name: format!("source-{source}"),
        path: None,
        part: 1,
    }
}
