//! Snapshots whose slices are still JSON text, so that a large one is not copied to be read.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use threadfold_core::{Fields, Json};

use super::{SliceSnapshot, SnapshotRestoreError, check_version};
use crate::cursor::LogId;

/// A snapshot whose slices are still text.
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
    pub(super) item_type: String,
    pub(crate) version: u32,
    pub(crate) items: Vec<&'a RawValue>,
    pub(super) extra: Fields,
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

/// Written by hand, because unknown fields are kept exactly as they are written.
impl<'de: 'a, 'a> Deserialize<'de> for SliceText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SliceVisitor;

        impl<'de> Visitor<'de> for SliceVisitor {
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

        deserializer.deserialize_map(SliceVisitor)
    }
}
