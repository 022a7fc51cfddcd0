//! A session at one place of its log, as pure data.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use threadfold_core::{Fields, Json, SessionId};

use crate::cursor::LogId;

const VERSION: u32 = 1;
/// The slice that holds the conversation.
pub(crate) const CONVERSATION: &str = "conversation";

/// A session at one place of its log: all its slices, complete in itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When it was taken: ISO 8601, UTC.
    pub created_at: String,
    /// The session.
    pub session_id: SessionId,
    /// Its log.
    pub log_id: LogId,
    /// Which converters and which reducer made it.
    pub generation: u32,
    /// The last record that is in it.
    pub seq: u64,
    /// The hash of the conversation.
    pub state_hash: String,
    /// Whatever its maker wanted to note.
    pub tags: BTreeMap<String, String>,
    /// What becomes of each slice on restore.
    pub policies: BTreeMap<String, String>,
    /// The slices, in the order of their names.
    pub slices: Vec<SliceSnapshot>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// What the writer of a snapshot adds to what the fold knows.
#[derive(Clone, Debug)]
pub struct SnapshotHeader {
    /// When it is taken: ISO 8601, UTC.
    pub created_at: String,
    /// The log that the fold was read from.
    pub log_id: LogId,
    /// Whatever its maker wants to note.
    pub tags: BTreeMap<String, String>,
}

/// A slice in a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceSnapshot {
    /// Its name.
    pub slice_type: String,
    /// What its items are.
    pub item_type: String,
    /// The version of their form.
    pub version: u32,
    /// The items.
    pub items: Vec<Json>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// Why a snapshot cannot be restored. Nothing was altered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot cannot be restored: `{field}`: {reason}")]
pub struct SnapshotRestoreError {
    /// The field that is wrong, with the way to it.
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
    /// Returns it as JSON, its fields in the order of their names.
    pub fn to_json(&self) -> String {
        Json::of(self).as_str().to_owned()
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    pub fn from_json(text: &str) -> Result<Self, SnapshotRestoreError> {
        let mut fields = Reading::of("", text)?;
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

    /// Says whether this is the slice that holds the conversation.
    pub fn is_conversation(&self) -> bool {
        self.slice_type == CONVERSATION
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
        let mut fields = Reading::of(&format!("slices[{index}]."), json.as_str())?;
        Ok(Self {
            slice_type: fields.take("sliceType")?,
            item_type: fields.take("itemType")?,
            version: fields.take("version")?,
            items: fields.take("items")?,
            extra: fields.rest(),
        })
    }
}

/// A snapshot whose slices are still text: a large one is not copied to be read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotText<'a> {
    version: u32,
    pub(crate) log_id: LogId,
    pub(crate) generation: u32,
    pub(crate) seq: u64,
    #[serde(borrow)]
    pub(crate) slices: Vec<SliceText<'a>>,
}

/// A slice whose items are still text.
pub(crate) struct SliceText<'a> {
    pub(crate) slice_type: String,
    item_type: String,
    pub(crate) version: u32,
    pub(crate) items: Vec<&'a RawValue>,
    extra: Fields,
}

impl<'a> SnapshotText<'a> {
    pub(crate) fn read(text: &'a str) -> Result<Self, SnapshotRestoreError> {
        let read: Self = serde_json::from_str(text)
            .map_err(|error| SnapshotRestoreError::new(".", error.to_string()))?;
        check_version(read.version)?;
        Ok(read)
    }
}

impl SliceText<'_> {
    pub(crate) fn to_snapshot(&self) -> SliceSnapshot {
        SliceSnapshot {
            slice_type: self.slice_type.clone(),
            item_type: self.item_type.clone(),
            version: self.version,
            items: self.items.iter().map(|item| Json::from(*item)).collect(),
            extra: self.extra.clone(),
        }
    }
}

/// By hand, for fields that are unknown are kept as they are spelt.
impl<'de: 'a, 'a> Deserialize<'de> for SliceText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = SliceText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a slice")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut slice_type, mut item_type) = (None, None);
                let (mut version, mut items) = (None, None);
                let mut extra = Fields::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "sliceType" => slice_type = Some(map.next_value()?),
                        "itemType" => item_type = Some(map.next_value()?),
                        "version" => version = Some(map.next_value()?),
                        "items" => items = Some(map.next_value()?),
                        _ => extra.insert(&name, Json::from(map.next_value::<&RawValue>()?)),
                    }
                }
                Ok(SliceText {
                    slice_type: slice_type.ok_or_else(|| A::Error::missing_field("sliceType"))?,
                    item_type: item_type.ok_or_else(|| A::Error::missing_field("itemType"))?,
                    version: version.ok_or_else(|| A::Error::missing_field("version"))?,
                    items: items.ok_or_else(|| A::Error::missing_field("items"))?,
                    extra,
                })
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

fn check_version(found: u32) -> Result<(), SnapshotRestoreError> {
    if found == VERSION {
        return Ok(());
    }
    let reason = format!("version {VERSION} was wanted, and {found} was found");
    Err(SnapshotRestoreError::new("version", reason))
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sorted = Sorted::of(&self.extra);
        sorted.put("version", &VERSION);
        sorted.put("createdAt", &self.created_at);
        sorted.put("sessionId", &self.session_id);
        sorted.put("logId", &self.log_id);
        sorted.put("generation", &self.generation);
        sorted.put("seq", &self.seq);
        sorted.put("stateHash", &self.state_hash);
        sorted.put("tags", &self.tags);
        sorted.put("policies", &self.policies);
        sorted.put("slices", &self.slices);
        sorted.write(serializer)
    }
}

impl Serialize for SliceSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sorted = Sorted::of(&self.extra);
        sorted.put("sliceType", &self.slice_type);
        sorted.put("itemType", &self.item_type);
        sorted.put("version", &self.version);
        sorted.put("items", &self.items);
        sorted.write(serializer)
    }
}

/// Fields on their way out, known and unknown ones in one order.
struct Sorted(BTreeMap<String, Json>);

impl Sorted {
    fn of(extra: &Fields) -> Self {
        Self(extra.iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
    }

    fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.0.insert(name.to_owned(), Json::of(value));
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// An object on its way in.
struct Reading {
    place: String,
    fields: BTreeMap<String, Json>,
}

impl Reading {
    fn of(place: &str, text: &str) -> Result<Self, SnapshotRestoreError> {
        let fields = serde_json::from_str(text).map_err(|error| {
            let field = if place.is_empty() { "." } else { place.trim_end_matches('.') };
            SnapshotRestoreError::new(field, format!("an object was wanted: {error}"))
        })?;
        Ok(Self { place: place.to_owned(), fields })
    }

    fn take<T: for<'de> Deserialize<'de>>(
        &mut self,
        name: &str,
    ) -> Result<T, SnapshotRestoreError> {
        let field = format!("{}{name}", self.place);
        let Some(value) = self.fields.remove(name) else {
            return Err(SnapshotRestoreError::new(field, "it is missing"));
        };
        serde_json::from_str(value.as_str())
            .map_err(|error| SnapshotRestoreError::new(field, error.to_string()))
    }

    fn rest(self) -> Fields {
        let mut rest = Fields::default();
        for (name, value) in self.fields {
            rest.insert(name.as_str(), value);
        }
        rest
    }
}
