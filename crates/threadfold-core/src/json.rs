//! JSON that is not ours to understand, kept as it was spelt.
//!
//! A tool's input may hold numbers that no float can carry, keys that stand twice and nesting
//! that overflows a stack. It is therefore checked once and kept as text.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

mod canonical;
mod fields;

pub(crate) use canonical::{canonical, canonical_parts};
pub use fields::Fields;

/// One JSON value, as it was spelt.
///
/// Two are equal if their canonical forms are: white space and the order of keys do not count,
/// the spelling of numbers and repeated keys do.
///
/// The text stands in a box of its own, for sharing a box takes no copy of what is in it.
#[derive(Clone)]
pub struct Json(Arc<Box<RawValue>>);

impl Json {
    /// Checks that `text` is one JSON value and keeps it, without the white space around it.
    ///
    /// ```
    /// use threadfold_core::Json;
    ///
    /// let json = Json::parse(r#" {"b": 1e400, "a": "x"} "#)?;
    /// assert_eq!(json.as_str(), r#"{"b": 1e400, "a": "x"}"#);
    /// assert_eq!(json.canonical(), r#"{"a":"x","b":1e400}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(Self::from)
    }

    /// Returns `text` as a JSON string.
    pub fn string(text: &str) -> Self {
        Self::of(text)
    }

    /// Returns `value` as JSON.
    ///
    /// # Panics
    ///
    /// If `value` has no form in JSON, such as a map whose keys are not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value)
            .map(Self::from)
            .expect("plain data has a form in JSON")
    }

    /// Returns the value as it was spelt.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Returns the value as `serde_json` has it.
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// Returns the text of a JSON string, and nothing for any other value.
    pub fn to_text(&self) -> Option<String> {
        serde_json::from_str(self.as_str()).ok()
    }

    /// Says whether this is `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Returns the value with its keys sorted and no white space; see the state hash.
    pub fn canonical(&self) -> String {
        canonical(&self.0)
    }

    pub(crate) fn is_empty_list(&self) -> bool {
        let inner = self.as_str().strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        inner.is_some_and(|it| it.trim_ascii().is_empty())
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(Arc::new(raw))
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self::from(raw.to_owned())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.as_str() == other.as_str()
            || self.canonical() == other.canonical()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}
