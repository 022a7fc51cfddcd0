//! The one implementation of the way from records to state.
//!
//! ```text
//! bytes ─► cutter ─► record ─► converter ─► events ─► reduce ─► state, changes
//!          └────────────────────── this crate ──────────────────────┘
//! ```
//!
//! Bytes of a session, from a file, a stream, a store or a browser, are cut into [`Record`]s and
//! pushed into a [`Fold`]. Equal records give equal states, wherever and whenever they are read.
//!
//! ```
//! use threadfold_convert::claude;
//! use threadfold_fold::{SessionFile, parse_transcript};
//!
//! let line = br#"{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"Hello"}}"#;
//! let state = parse_transcript(claude::AGENT, &[SessionFile { path: "s1.jsonl", bytes: line }]);
//! assert_eq!(state.blocks().len(), 1);
//! ```
//!
//! # What it does not do
//!
//! It opens no files, does not block and reads no clock: the caller passes bytes and times. It
//! compiles for `wasm32-unknown-unknown`.

mod cursor;
mod cutter;
mod detect;
mod error;
mod fold;
mod glance;
mod hex;
mod name;
pub mod parity;
mod query;
mod record;
mod short_lines;
mod slice;
mod snapshot;
mod source;
mod sources;
mod spill_budget;
mod summary;
mod whole_session;

pub use cursor::{Cursor, CursorError, LogId};
pub use cutter::Cutter;
pub use detect::{
    Detection, HEAD_BYTES, InputHead, detect, detection_named, formats, is_document, is_enough,
    may_be_document,
};
pub use error::with_causes;
pub use fold::{Fold, Oddity, SliceCommand, Step, is_observation};
pub use glance::{FileParts, Glance, HeadReader, UnknownField};
pub use name::{SessionName, SessionNamer, content_name};
pub use query::Query;
pub use record::{Record, RecordKind, StoredRecord, Timestamp};
pub use slice::{
    EnvironmentState, FileState, FileStatus, Item, Items, QueryState, QueryStatus, RestorePolicy,
    Slice, SliceChange, SliceError, Slices, TranscriptState,
};
pub use snapshot::{
    ConverterPlace, MetadataPlace, SliceSnapshot, Snapshot, SnapshotFooter, SnapshotHeader,
    SnapshotOutline, SnapshotRestoreError, TextRange,
};
pub use source::{Chain, Source, SourceRole, SourceSpec};
pub use summary::SessionSummary;
pub use threadfold_convert::{Agent, Format, GENERATION, SessionFile, Shape};
pub use whole_session::{Transcript, file_records, fold_files, parse_transcript, stream_records};
