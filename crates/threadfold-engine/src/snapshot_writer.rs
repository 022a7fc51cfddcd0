//! Streams a snapshot into a store in pieces: it is never in memory as a whole, and pieces of an
//! earlier one are not read again.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use threadfold_core::{ConversationState, Json, SnapshotPart, SpillStore};
use threadfold_fold::{Fold, LogId, SliceSnapshot, Snapshot, SnapshotHeader};
use threadfold_store::{SnapshotCutter, SnapshotWriter, Store, StoreError};

use crate::error::EngineError;
use crate::spill_file::{ScratchText, SpillFile};

/// How many bytes of spilled data are read at once.
const READ: u64 = 256 << 10;

/// A fold at one record, ready to be written: its conversation, and all other slices as text.
pub(crate) struct PendingSnapshot {
    /// The snapshot without its slices and without the hash.
    hollow: Snapshot,
    /// The slices; that of the conversation without its blocks.
    slices: Vec<SliceSnapshot>,
    conversation: ConversationState,
    /// The item of the converter's slice.
    converter: ScratchText,
    shelf: Option<Arc<SpillFile>>,
}

impl PendingSnapshot {
    pub(crate) fn of(fold: &Fold, log: &LogId, spill: Option<Arc<SpillFile>>) -> Self {
        let (hollow, slices) = fold.snapshot_frame(header(log, BTreeMap::new()));
        let converter = ScratchText::new(spill.as_ref().map(|it| it.folder().to_owned()))
            .written_by(|text| fold.write_converter(text));
        let conversation = fold.conversation().for_snapshot();
        Self { hollow, slices, conversation, converter, shelf: spill }
    }

    /// Writes the snapshot: the JSON of all slices, as `Snapshot::to_json` has it.
    pub(crate) async fn write(mut self, store: &dyn Store) -> Result<(), EngineError> {
        self.hollow.state_hash = self.conversation.hash().to_string();
        match (self.write_once(store).await, &self.shelf) {
            (Err(EngineError::Store(StoreError::MissingPiece { .. })), Some(shelf)) => {
                shelf.forget_pieces();
                self.write_once(store).await
            }
            (done, _) => done,
        }
    }

    async fn write_once(&self, store: &dyn Store) -> Result<(), EngineError> {
        let Snapshot { session_id, generation, seq, .. } = &self.hollow;
        self.converter.check()?;
        let mut out = SnapshotStream {
            writer: store.write_snapshot(session_id, *generation, *seq),
            cutter: SnapshotCutter::default(),
            shelf: self.shelf.as_ref(),
        };
        let (before, behind) = around(&self.hollow, "slices");
        out.text(&before).await?;
        for (index, slice) in self.slices.iter().enumerate() {
            if index > 0 {
                out.text(",").await?;
            }
            out.slice(slice, &self.conversation, &self.converter).await?;
        }
        out.text(&behind).await?;
        for piece in out.cutter.finish() {
            out.writer.add(piece).await?;
        }
        if let Some(shelf) = &self.shelf {
            shelf.check()?;
        }
        Ok(out.writer.finish().await?)
    }
}

/// Splits the JSON of an object at a field that is an empty list: before and after its items.
///
/// The field is the first list of this name, because no field before it contains foreign JSON.
fn around<T: serde::Serialize>(hollow: &T, field: &str) -> (String, String) {
    let json = Json::of(hollow);
    let list = format!("\"{field}\":[]");
    let split = json.as_str().split_once(&list);
    let (before, behind) = split.expect("the field is written, and is empty");
    (format!("{before}\"{field}\":["), format!("]{behind}"))
}

struct SnapshotStream<'a> {
    writer: Box<dyn SnapshotWriter + 'a>,
    cutter: SnapshotCutter,
    shelf: Option<&'a Arc<SpillFile>>,
}

impl SnapshotStream<'_> {
    async fn slice(
        &mut self,
        slice: &SliceSnapshot,
        conversation: &ConversationState,
        converter: &ScratchText,
    ) -> Result<(), EngineError> {
        if !slice.extra.is_empty() {
            return self.text(Json::of(slice).as_str()).await;
        }
        let hollow = SliceSnapshot { items: Vec::new(), ..slice.clone() };
        let (before, behind) = around(&hollow, "items");
        self.text(&before).await?;
        if slice.is_conversation() {
            for part in conversation.snapshot_parts() {
                match part {
                    SnapshotPart::Text(text) => self.text(&text).await?,
                    SnapshotPart::Spilled { store: shelf, place, length } => {
                        self.add_spilled(&shelf, place, place + length).await?;
                    }
                }
            }
        }
        if slice.is_converter() {
            self.converter(converter).await?;
        }
        for (index, item) in slice.items.iter().enumerate() {
            if index > 0 {
                self.text(",").await?;
            }
            self.text(item.as_str()).await?;
        }
        self.text(&behind).await
    }

    async fn text(&mut self, text: &str) -> Result<(), EngineError> {
        self.bytes(text.as_bytes()).await
    }

    /// Adds bytes, in portions: pieces of a long text are written before the next are cut.
    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        for portion in bytes.chunks(READ as usize) {
            for piece in self.cutter.push(portion) {
                self.writer.add(piece).await?;
            }
        }
        Ok(())
    }

    /// Adds the memory of the converter, which may be as large as the input.
    async fn converter(&mut self, text: &ScratchText) -> Result<(), EngineError> {
        let mut place = 0;
        while place < text.len() {
            let portion = text.read(place, READ as usize)?;
            place += portion.len() as u64;
            self.bytes(&portion).await?;
        }
        Ok(())
    }

    /// Adds spilled data from a shelf. Where a known piece begins, it is not read again.
    async fn add_spilled(
        &mut self,
        shelf: &Arc<dyn SpillStore>,
        start: u64,
        end: u64,
    ) -> Result<(), EngineError> {
        let own = self.shelf.filter(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(shelf)));
        let mut at = start;
        loop {
            // The next piece begins at the buffered bytes, if all of them come from here.
            let first = at.checked_sub(self.cutter.held() as u64).filter(|it| *it >= start);
            if let (Some(own), Some(first)) = (own, first)
                && let Some((piece_end, name)) = own.piece_at(first)
                && piece_end <= end
            {
                self.writer.add_known(name);
                self.cutter.forget_held();
                at = piece_end;
                continue;
            }
            if at == end {
                return Ok(());
            }
            let count = READ.min(end - at);
            let Some(bytes) = shelf.fetch(at, usize::try_from(count).unwrap_or_default()) else {
                return Err(lost(own));
            };
            let before = self.cutter.held() as u64;
            let pieces = self.cutter.push(&bytes);
            // Counted from the buffered bytes, which may have begun before this data.
            let mut behind = 0;
            for piece in pieces {
                let (from, to) = (behind, behind + piece.bytes().len() as u64);
                if let Some(own) = own
                    && let Some(place) = (at + from).checked_sub(before).filter(|it| *it >= start)
                {
                    own.note_piece(place, place + (to - from), piece.hash());
                }
                behind = to;
                self.writer.add(piece).await?;
            }
            at += count;
        }
    }
}

/// Returns the error for spilled data that cannot be read.
fn lost(shelf: Option<&Arc<SpillFile>>) -> EngineError {
    let spill_error = shelf.and_then(|it| it.check().err());
    spill_error.unwrap_or_else(|| {
        let source = io::Error::from(io::ErrorKind::UnexpectedEof);
        EngineError::Spill { folder: PathBuf::new(), source: Arc::new(source) }
    })
}

/// Returns the header of a snapshot of this log.
pub(crate) fn header(log: &LogId, tags: BTreeMap<String, String>) -> SnapshotHeader {
    let created_at = jiff::Timestamp::now().to_string();
    SnapshotHeader { created_at, log_id: log.clone(), tags }
}
