//! Streams a snapshot into a store in pieces: it is never in memory as a whole, and pieces of an
//! earlier one are not read again.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use threadfold_core::{
    ConversationState, Json, OutlineWriters, SessionEvent, SnapshotPart, SpillStore,
};
use threadfold_fold::{
    ConverterPlace, Fold, LogId, MetadataPlace, SliceSnapshot, Snapshot, SnapshotFooter,
    SnapshotHeader, SnapshotOutline, TextRange,
};
use threadfold_store::{SnapshotCutter, SnapshotPiece, SnapshotWriter, Store, StoreError};

use crate::error::EngineError;
use crate::parts_on_disk::PartsOnDisk;
use crate::piece_table::{PieceRow, table_pieces};
use crate::spill_file::ScratchText;

/// How many bytes of spilled data are read at once.
const READ: u64 = 256 << 10;

/// From this many records on, a log grows by an eighth between two snapshots.
const LONG_LOG: u64 = 1 << 17;

/// Returns how many records are folded between two snapshots, at least `least`.
///
/// A snapshot visits every block, so the distance grows with the log, and it contains every subagent
/// as a whole, so there are as many records as subagents: writing all snapshots of a session costs in
/// proportion to it.
pub(crate) fn snapshot_distance(fold: &Fold, least: u64) -> u64 {
    let of_log = fold.seq().saturating_sub(LONG_LOG) / 8;
    least.max(of_log).max(fold.conversation().subagent_count() as u64)
}

/// A fold at one record, ready to be written: its conversation, and all other slices as text.
pub(crate) struct PendingSnapshot {
    /// The snapshot without its slices and without the hash.
    hollow: Snapshot,
    /// The slices; that of the conversation without its blocks.
    slices: Vec<SliceSnapshot>,
    conversation: ConversationState,
    /// The item of the converter's slice.
    converter: ScratchText,
    /// What an outline has of the converter, but for its place.
    converter_place: Option<ConverterPlace>,
    /// What an outline has of the metadata, but for its place.
    metadata_place: MetadataPlace,
    /// The events that follow if every source ends here, if somebody asked for them.
    settling: Option<Vec<SessionEvent>>,
    parts: PartsOnDisk,
}

impl PendingSnapshot {
    pub(crate) fn of(fold: &Fold, log: &LogId, parts: PartsOnDisk) -> Self {
        let (hollow, slices) = fold.snapshot_frame(header(log, BTreeMap::new()));
        let converter = scratch(&parts).written_by(|text| fold.write_converter(text));
        let nowhere = TextRange::between(0, 0);
        let converter_place = fold.converter_place(nowhere);
        let metadata_place = fold.metadata_place(nowhere);
        let conversation = fold.conversation().for_snapshot();
        let settling = None;
        Self {
            hollow,
            slices,
            conversation,
            converter,
            converter_place,
            metadata_place,
            settling,
            parts,
        }
    }

    /// Returns whether whoever looks at the session reads no more of the snapshot than is looked at.
    pub(crate) fn is_outlined(&self) -> bool {
        self.conversation.has_outline()
    }

    /// Adds the events that follow if every source ends here, so that whoever looks at the session
    /// does not need the converter.
    pub(crate) fn settled_by(self, events: Vec<SessionEvent>) -> Self {
        Self { settling: Some(events), ..self }
    }

    /// Writes the snapshot: the JSON of all slices, as `Snapshot::to_json` has it.
    pub(crate) async fn write(mut self, store: &dyn Store) -> Result<(), EngineError> {
        self.hollow.state_hash = self.conversation.hash().to_string();
        match (self.write_once(store).await, &self.parts.file) {
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
            parts: &self.parts,
            place: 0,
            cut: 0,
            pieces: Vec::new(),
        };
        let mut places = SlicePlaces::default();
        let (before, behind) = around(&self.hollow, "slices");
        out.text(&before).await?;
        for (index, slice) in self.slices.iter().enumerate() {
            if index > 0 {
                out.text(",").await?;
            }
            out.slice(slice, self, &mut places).await?;
        }
        out.text(&behind).await?;
        let footer = self.write_outline(&mut out, places).await?;
        out.finish(footer).await?;
        self.parts.check()?;
        Ok(out.writer.finish().await?)
    }

    /// Writes what a reader needs to open the snapshot without reading it, see `SnapshotOutline`;
    /// nothing if the conversation has no outline.
    async fn write_outline(
        &self,
        out: &mut SnapshotStream<'_>,
        places: SlicePlaces,
    ) -> Result<Option<SnapshotFooter>, EngineError> {
        let [mut rows, mut hashes, mut index] = [0; 3].map(|_| scratch(&self.parts));
        let writers = OutlineWriters { rows: &mut rows, hashes: &mut hashes, index: &mut index };
        let state = self.conversation.write_outline(writers);
        let Some(state) = state.map_err(|error| rows.failed(Arc::new(error)))? else {
            return Ok(None);
        };
        let SlicePlaces { conversation, converter, metadata, slices } = places;
        let outline = SnapshotOutline {
            log_id: self.hollow.log_id.clone(),
            generation: self.hollow.generation,
            seq: self.hollow.seq,
            state_hash: self.hollow.state_hash.clone(),
            conversation,
            state,
            converter: self
                .converter_place
                .clone()
                .map(|it| ConverterPlace { item: converter, ..it }),
            metadata: metadata.map(|item| MetadataPlace { item, ..self.metadata_place.clone() }),
            slices,
            settling: self.settling.clone(),
        };
        // Whoever looks at one block reads a little of each of these parts.
        out.switch_cutter(SnapshotCutter::fine()).await?;
        let mut footer =
            SnapshotFooter { rows: out.place, hashes: 0, index: 0, outline: 0, end: 0, pieces: 0 };
        out.scratch(&rows).await?;
        footer.hashes = out.place;
        out.scratch(&hashes).await?;
        footer.index = out.place;
        out.scratch(&index).await?;
        footer.outline = out.place;
        out.text(Json::of(&outline).as_str()).await?;
        footer.end = out.place;
        Ok(Some(footer))
    }
}

fn scratch(parts: &PartsOnDisk) -> ScratchText {
    ScratchText::new(parts.file.as_ref().map(|it| it.folder().to_owned()))
}

/// Where slices were written.
struct SlicePlaces {
    /// Where the JSON of the conversation begins.
    conversation: u64,
    /// The item of the converter's slice.
    converter: TextRange,
    /// The item of the metadata's slice.
    metadata: Option<TextRange>,
    /// All other slices.
    slices: Vec<TextRange>,
}

impl Default for SlicePlaces {
    fn default() -> Self {
        let converter = TextRange::between(0, 0);
        Self { conversation: 0, converter, metadata: None, slices: Vec::new() }
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
    parts: &'a PartsOnDisk,
    /// How many bytes were written.
    place: u64,
    /// How many of them are in pieces.
    cut: u64,
    /// The pieces.
    pieces: Vec<PieceRow>,
}

impl SnapshotStream<'_> {
    async fn slice(
        &mut self,
        slice: &SliceSnapshot,
        pending: &PendingSnapshot,
        places: &mut SlicePlaces,
    ) -> Result<(), EngineError> {
        let start = self.place;
        if !slice.extra.is_empty() {
            self.text(Json::of(slice).as_str()).await?;
            places.slices.push(TextRange::between(start, self.place));
            return Ok(());
        }
        let hollow = SliceSnapshot { items: Vec::new(), ..slice.clone() };
        let (before, behind) = around(&hollow, "items");
        self.text(&before).await?;
        if slice.is_conversation() {
            places.conversation = self.place;
            for part in pending.conversation.snapshot_parts() {
                match part {
                    SnapshotPart::Text(text) => self.text(&text).await?,
                    SnapshotPart::Spilled { store: shelf, place, length } => {
                        self.add_spilled(&shelf, place, place + length).await?;
                    }
                }
            }
        }
        if slice.is_converter() {
            let item = self.place;
            self.scratch(&pending.converter).await?;
            places.converter = TextRange::between(item, self.place);
        }
        let items = self.place;
        for (index, item) in slice.items.iter().enumerate() {
            if index > 0 {
                self.text(",").await?;
            }
            self.text(item.as_str()).await?;
        }
        if slice.is_metadata() {
            places.metadata = Some(TextRange::between(items, self.place));
        }
        self.text(&behind).await?;
        if !slice.is_conversation() && !slice.is_converter() && !slice.is_metadata() {
            places.slices.push(TextRange::between(start, self.place));
        }
        Ok(())
    }

    async fn text(&mut self, text: &str) -> Result<(), EngineError> {
        self.bytes(text.as_bytes()).await
    }

    /// Adds bytes, in portions: pieces of a long text are written before the next are cut.
    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        self.place += bytes.len() as u64;
        for portion in bytes.chunks(READ as usize) {
            for piece in self.cutter.push(portion) {
                self.add(piece).await?;
            }
        }
        Ok(())
    }

    async fn add(&mut self, piece: SnapshotPiece) -> Result<(), EngineError> {
        self.pieces.push((self.cut, piece.hash()));
        self.cut += piece.bytes().len() as u64;
        Ok(self.writer.add(piece).await?)
    }

    /// Ends the piece that is being cut, and cuts the next ones otherwise.
    async fn switch_cutter(&mut self, cutter: SnapshotCutter) -> Result<(), EngineError> {
        let mut before = std::mem::replace(&mut self.cutter, cutter);
        for piece in before.finish() {
            self.add(piece).await?;
        }
        Ok(())
    }

    /// Adds the last pieces, and the table of all of them if there is an outline.
    async fn finish(&mut self, footer: Option<SnapshotFooter>) -> Result<(), EngineError> {
        self.switch_cutter(SnapshotCutter::default()).await?;
        if let Some(footer) = footer {
            for piece in table_pieces(&self.pieces, footer) {
                self.writer.add(piece).await?;
            }
        }
        Ok(())
    }

    /// Adds a text that may be as large as the input.
    async fn scratch(&mut self, text: &ScratchText) -> Result<(), EngineError> {
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
        self.place += end - start;
        let own = self.parts.file.as_ref().filter(|own| is_same(own, shelf));
        let restored = self.parts.text.as_ref().filter(|text| is_same(text, shelf));
        let mut at = start;
        loop {
            // The next piece begins at the buffered bytes, if all of them come from here.
            let first = at.checked_sub(self.cutter.held() as u64).filter(|it| *it >= start);
            let mut known = first.and_then(|it| own.and_then(|own| own.piece_at(it)));
            if let (None, Some(first), Some(restored)) = (known, first, restored) {
                known = restored.piece_at(first).await?;
            }
            if let (Some((piece_end, name)), Some(first)) = (known, first)
                && piece_end <= end
            {
                self.writer.add_known(name);
                self.pieces.push((self.cut, name));
                self.cut += piece_end - first;
                self.cutter.forget_held();
                at = piece_end;
                continue;
            }
            if at == end {
                return Ok(());
            }
            let count = READ.min(end - at);
            let Some(bytes) = shelf.fetch(at, usize::try_from(count).unwrap_or_default()) else {
                return Err(lost(self.parts));
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
                self.add(piece).await?;
            }
            at += count;
        }
    }
}

/// Returns whether spilled data is in this store.
fn is_same<T>(own: &Arc<T>, store: &Arc<dyn SpillStore>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(store))
}

/// Returns the error for spilled data that cannot be read.
fn lost(parts: &PartsOnDisk) -> EngineError {
    parts.check().err().unwrap_or_else(|| {
        let source = io::Error::from(io::ErrorKind::UnexpectedEof);
        EngineError::Spill { folder: PathBuf::new(), source: Arc::new(source) }
    })
}

/// Returns the header of a snapshot of this log.
pub(crate) fn header(log: &LogId, tags: BTreeMap<String, String>) -> SnapshotHeader {
    let created_at = jiff::Timestamp::now().to_string();
    SnapshotHeader { created_at, log_id: log.clone(), tags }
}
