//! Snapshots: a session at one position of its log, as JSON.

mod fields;
mod outline;
mod text;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use threadfold_core::{Fields, Json, SessionId};

use crate::cursor::LogId;

use fields::{FieldReader, FieldWriter};
pub use outline::{ConverterPlace, MetadataPlace, SnapshotFooter, SnapshotOutline, TextRange};
pub(crate) use text::{SliceText, SnapshotText};

const VERSION: u32 = 1;
/// The slice that holds the conversation.
pub(crate) const CONVERSATION: &str = "conversation";
/// The slice of the converter's memory.
pub(crate) const CONVERTER: &str = "converter";
/// The slice of the session's metadata.
pub(crate) const METADATA: &str = "metadata";

/// A session at one position of its log, with all its slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When it was taken: ISO 8601, UTC.
    pub created_at: String,
    /// The session's id.
    pub session_id: SessionId,
    /// The id of its log.
    pub log_id: LogId,
    /// The version of converters and reducer that produced it.
    pub generation: u32,
    /// The sequence number of the last record in it.
    pub seq: u64,
    /// The hash of the conversation.
    pub state_hash: String,
    /// The creator's own notes.
    pub tags: BTreeMap<String, String>,
    /// What a restore does with each slice, by the slice's name.
    pub policies: BTreeMap<String, String>,
    /// The slices, sorted by name.
    pub slices: Vec<SliceSnapshot>,
    /// Fields that this version does not know; they are written back unchanged.
    pub extra: Fields,
}

/// The part of a snapshot that the fold does not know.
#[derive(Clone, Debug)]
pub struct SnapshotHeader {
    /// When it is taken: ISO 8601, UTC.
    pub created_at: String,
    /// The id of the fold's log.
    pub log_id: LogId,
    /// The creator's own notes.
    pub tags: BTreeMap<String, String>,
}

/// A slice in a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceSnapshot {
    /// Its name.
    pub slice_type: String,
    /// The type of its items.
    pub item_type: String,
    /// The version of the items' JSON.
    pub version: u32,
    /// The items.
    pub items: Vec<Json>,
    /// Fields that this version does not know; they are written back unchanged.
    pub extra: Fields,
}

/// Why a snapshot cannot be restored. The session is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot cannot be restored: `{field}`: {reason}")]
pub struct SnapshotRestoreError {
    /// The path of the invalid field.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl SnapshotRestoreError {
    pub(crate) fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

impl Snapshot {
    /// Returns the snapshot as JSON, with fields sorted by name, so that equal snapshots give equal
    /// text.
    pub fn to_json(&self) -> String {
        Json::of(self).as_str().to_owned()
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    pub fn from_json(text: &str) -> Result<Self, SnapshotRestoreError> {
        let mut fields = FieldReader::new("", text)?;
        let version: u32 = fields.take("version")?;
        check_version(version)?;
        let slices: Vec<Json> = fields.take("slices")?;
        let slices = slices.iter().enumerate();
        let mut read = slices.map(|(index, slice)| SliceSnapshot::read(index, slice));
        Ok(Self {
            created_at: fields.take("createdAt")?,
            session_id: fields.take("sessionId")?,
            log_id: fields.take("logId")?,
            generation: fields.take("generation")?,
            seq: fields.take("seq")?,
            state_hash: fields.take("stateHash")?,
            tags: fields.take("tags")?,
            policies: fields.take("policies")?,
            slices: read.by_ref().collect::<Result<_, _>>()?,
            extra: fields.rest(),
        })
    }

    /// Returns a slice by its name.
    pub fn slice(&self, name: &str) -> Option<&SliceSnapshot> {
        self.slices.iter().find(|slice| slice.slice_type == name)
    }
}

impl SliceSnapshot {
    pub(crate) fn new(slice: &str, item: &str, version: u32, items: Vec<Json>) -> Self {
        let (slice_type, item_type) = (slice.to_owned(), item.to_owned());
        Self { slice_type, item_type, version, items, extra: Fields::default() }
    }

    /// Returns whether this slice holds the conversation.
    pub fn is_conversation(&self) -> bool {
        self.slice_type == CONVERSATION
    }

    /// Returns whether this is the slice of the converter's memory.
    pub fn is_converter(&self) -> bool {
        self.slice_type == CONVERTER
    }

    /// Returns whether this is the slice of the session's metadata.
    pub fn is_metadata(&self) -> bool {
        self.slice_type == METADATA
    }

    /// Returns the slice with its items as text.
    pub(crate) fn as_text(&self) -> SliceText<'_> {
        SliceText {
            slice_type: self.slice_type.clone(),
            item_type: self.item_type.clone(),
            version: self.version,
            items: self.items.iter().map(Json::raw).collect(),
            extra: self.extra.clone(),
        }
    }

    fn read(index: usize, json: &Json) -> Result<Self, SnapshotRestoreError> {
        let mut fields = FieldReader::new(&format!("slices[{index}]."), json.as_str())?;
        Ok(Self {
            slice_type: fields.take("sliceType")?,
            item_type: fields.take("itemType")?,
            version: fields.take("version")?,
            items: fields.take("items")?,
            extra: fields.rest(),
        })
    }
}

fn check_version(found: u32) -> Result<(), SnapshotRestoreError> {
    if found == VERSION {
        return Ok(());
    }
    let reason = format!("expected version {VERSION}, found {found}");
    Err(SnapshotRestoreError::new("version", reason))
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut writer = FieldWriter::new(&self.extra);
        writer.put("version", &VERSION);
        writer.put("createdAt", &self.created_at);
        writer.put("sessionId", &self.session_id);
        writer.put("logId", &self.log_id);
        writer.put("generation", &self.generation);
        writer.put("seq", &self.seq);
        writer.put("stateHash", &self.state_hash);
        writer.put("tags", &self.tags);
        writer.put("policies", &self.policies);
        writer.put("slices", &self.slices);
        writer.write(serializer)
    }
}

impl Serialize for SliceSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut writer = FieldWriter::new(&self.extra);
        writer.put("sliceType", &self.slice_type);
        writer.put("itemType", &self.item_type);
        writer.put("version", &self.version);
        writer.put("items", &self.items);
        writer.write(serializer)
    }
}
