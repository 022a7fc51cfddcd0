//! Changes of slices, for clients that fold nothing themselves.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use threadfold_core::Json;

/// A change of one slice, seen as a list of items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", try_from = "ChangeFields")]
#[non_exhaustive]
pub enum SliceChange {
    /// The item at an index is this one; at the end of the list, it is new.
    #[serde(rename = "item:set")]
    ItemSet {
        /// The slice.
        slice: String,
        /// The index of the item.
        index: usize,
        /// The item.
        item: Json,
    },
    /// The slice has no items any more.
    #[serde(rename = "slice:cleared")]
    SliceCleared {
        /// The slice.
        slice: String,
    },
}

/// The fields of all changes. Serde's derived reader of a tagged enum buffers its fields, and the raw
/// JSON of an item cannot be read from such a buffer.
#[derive(Deserialize)]
struct ChangeFields {
    #[serde(rename = "type")]
    kind: String,
    slice: String,
    index: Option<usize>,
    item: Option<Json>,
}

impl TryFrom<ChangeFields> for SliceChange {
    type Error = String;

    fn try_from(fields: ChangeFields) -> Result<Self, String> {
        let ChangeFields { kind, slice, index, item } = fields;
        match kind.as_str() {
            "item:set" => {
                let index = index.ok_or("`index` is missing")?;
                Ok(Self::ItemSet { slice, index, item: item.ok_or("`item` is missing")? })
            }
            "slice:cleared" => Ok(Self::SliceCleared { slice }),
            other => Err(format!("`{other}` is not a change of a slice")),
        }
    }
}

/// A change of items, before it is known whether anybody wants to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemChange {
    Cleared,
    Set(usize),
}

impl SliceChange {
    pub(super) fn new(slice: &str, item: Option<(usize, Json)>) -> Self {
        let slice = slice.to_owned();
        match item {
            Some((index, item)) => Self::ItemSet { slice, index, item },
            None => Self::SliceCleared { slice },
        }
    }
}

/// Returns the changes without those that a later one repeats: an item that changed twice is set
/// once.
pub(super) fn last_of_each(changes: Vec<ItemChange>) -> Vec<ItemChange> {
    let from = changes.iter().rposition(|it| *it == ItemChange::Cleared).unwrap_or(0);
    let mut seen = BTreeSet::new();
    changes[from..]
        .iter()
        .copied()
        .filter(|it| match it {
            ItemChange::Cleared => true,
            ItemChange::Set(index) => seen.insert(*index),
        })
        .collect()
}
