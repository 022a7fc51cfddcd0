//! Reads and writes JSON objects that keep unknown fields.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use threadfold_core::{Fields, Json};

use super::SnapshotRestoreError;

/// Writes known and unknown fields together, sorted by name.
pub(super) struct FieldWriter(BTreeMap<String, Json>);

impl FieldWriter {
    /// Returns a writer with the unknown fields.
    pub(super) fn new(extra: &Fields) -> Self {
        Self(extra.iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
    }

    pub(super) fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.0.insert(name.to_owned(), Json::of(value));
    }

    pub(super) fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Reads the fields of an object one by one, and reports errors with the path of the field.
pub(super) struct FieldReader {
    path: String,
    fields: BTreeMap<String, Json>,
}

impl FieldReader {
    pub(super) fn new(path: &str, text: &str) -> Result<Self, SnapshotRestoreError> {
        let fields = serde_json::from_str(text).map_err(|error| {
            let field = if path.is_empty() { "." } else { path.trim_end_matches('.') };
            SnapshotRestoreError::new(field, format!("expected an object: {error}"))
        })?;
        Ok(Self { path: path.to_owned(), fields })
    }

    /// Removes and returns a field.
    pub(super) fn take<T: for<'de> Deserialize<'de>>(
        &mut self,
        name: &str,
    ) -> Result<T, SnapshotRestoreError> {
        let field = format!("{}{name}", self.path);
        let Some(value) = self.fields.remove(name) else {
            return Err(SnapshotRestoreError::new(field, "it is missing"));
        };
        serde_json::from_str(value.as_str())
            .map_err(|error| SnapshotRestoreError::new(field, error.to_string()))
    }

    /// Returns the fields that were not taken: those that this version does not know.
    pub(super) fn rest(self) -> Fields {
        let mut rest = Fields::default();
        for (name, value) in self.fields {
            rest.insert(name.as_str(), value);
        }
        rest
    }
}
