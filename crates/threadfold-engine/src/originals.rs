//! Rebuilds a session's original files from its log.

use std::collections::BTreeMap;
use std::io;

use threadfold_core::SessionId;
use threadfold_fold::{RecordKind, SourceSpec, StoredRecord};
use threadfold_store::{Limit, Store, StoreError};

use crate::error::EngineError;

/// Writes every byte of every source, in the order of the log.
///
/// `write` is called with the source, a position and bytes: it truncates the file at that position
/// and appends the bytes. Truncation is rare: an unterminated last line, or a file that was
/// replaced. Each source starts with a call without bytes, because a file may be empty.
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
            sources.write_record(record, &mut write)?;
        }
    }
    Ok(())
}

/// Returns the number of the log's last record.
pub(crate) async fn end(store: &dyn Store, session: &SessionId) -> Result<u64, EngineError> {
    let head = store.head(session).await?;
    Ok(head.ok_or_else(|| StoreError::NotFound { session: session.clone() })?.seq)
}

/// The sources that the log has declared so far.
#[derive(Default)]
pub(crate) struct Sources {
    known: BTreeMap<u32, SourceSpec>,
    /// The name of a source whose declaration is missing; without it, the source is left out.
    name_undeclared: Option<fn(u32) -> SourceSpec>,
}

impl Sources {
    /// Returns sources of which each is written, if necessary under a name that `name` returns.
    pub(crate) fn naming_undeclared(name: fn(u32) -> SourceSpec) -> Self {
        Self { name_undeclared: Some(name), ..Self::default() }
    }

    pub(crate) fn write_record(
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
                if let Some(name) = self.name_undeclared {
                    self.known.entry(record.source).or_insert_with(|| name(record.source));
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
