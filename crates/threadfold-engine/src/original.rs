//! A session's files as they were, out of its log.

use std::collections::BTreeMap;
use std::io;

use threadfold_core::SessionId;
use threadfold_store::{Limit, RecordKind, Store, StoreError};

use crate::error::EngineError;
use crate::source::SourceSpec;

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
    let head = store.head(session).await?;
    let head = head.ok_or_else(|| StoreError::NotFound { session: session.clone() })?;
    let mut sources: BTreeMap<u32, SourceSpec> = BTreeMap::new();
    let mut after = 0;
    while after < head.seq {
        let records = store.read(session, after, Limit::default()).await?;
        let Some(last) = records.last() else { break };
        after = last.seq;
        for record in &records {
            let mut write = |spec: &SourceSpec, bytes: &[u8]| {
                write(spec, record.position, bytes)
                    .map_err(|source| EngineError::Written { name: spec.name.clone(), source })
            };
            match (record.kind, sources.get(&record.source)) {
                (RecordKind::Source, _) => {
                    if let Ok(spec) = serde_json::from_slice::<SourceSpec>(&record.bytes) {
                        write(&spec, &[])?;
                        sources.insert(record.source, spec);
                    }
                }
                (
                    RecordKind::Line
                    | RecordKind::Document
                    | RecordKind::Partial
                    | RecordKind::Piece
                    | RecordKind::LastPiece,
                    Some(spec),
                ) => write(spec, &record.bytes)?,
                _ => {}
            }
        }
    }
    Ok(())
}
