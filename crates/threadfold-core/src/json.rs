//! Opaque JSON, preserved verbatim.
//!
//! A tool's input may contain numbers that no float can represent, duplicate keys, and nesting deep
//! enough to overflow the stack. It is therefore validated once and kept as text.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

mod canonical;
mod canonical_object;
mod fields;

use canonical::canonical;
pub(crate) use canonical_object::CanonicalObject;
pub use fields::Fields;

/// Why a text is not JSON, or not the JSON that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct JsonError {
    reason: String,
}

impl JsonError {
    // Not `From`: the type of a library in a public signature would tie users to its version.
    fn new(error: &serde_json::Error) -> Self {
        Self { reason: error.to_string() }
    }
}

/// One JSON value, verbatim.
///
/// Two values are equal if their canonical forms are equal: white space and key order are ignored,
/// the spelling of numbers and duplicate keys are not.
///
/// The `Box` inside the `Arc` looks redundant, but it avoids copying the text: converting a
/// `Box<RawValue>` to an `Arc<RawValue>` would copy it.
#[derive(Clone)]
pub struct Json(Arc<Box<RawValue>>);

impl Json {
    /// Validates that `text` is one JSON value and stores it, without surrounding white space.
    ///
    /// ```
    /// use threadfold_core::Json;
    ///
    /// let json = Json::parse(r#" {"b": 1e400, "a": "x"} "#)?;
    /// assert_eq!(json.as_str(), r#"{"b": 1e400, "a": "x"}"#);
    /// assert_eq!(json.canonical(), r#"{"a":"x","b":1e400}"#);
    /// # Ok::<(), threadfold_core::JsonError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        serde_json::from_str::<Box<RawValue>>(text)
            .map(Self::from)
            .map_err(|it| JsonError::new(&it))
    }

    /// Deserializes the value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(self.as_str()).map_err(|it| JsonError::new(&it))
    }

    /// Returns `text` as a JSON string.
    pub fn string(text: &str) -> Self {
        Self::of(text)
    }

    /// Returns `value` as JSON.
    ///
    /// # Panics
    ///
    /// If `value` cannot be represented in JSON, such as a map whose keys are not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value)
            .map(Self::from)
            .expect("plain data has a form in JSON")
    }

    /// Returns the value verbatim.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Returns the value as a `serde_json` raw value.
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// Returns the text of a JSON string, or `None` for any other value.
    pub fn to_text(&self) -> Option<String> {
        serde_json::from_str(self.as_str()).ok()
    }

    /// Returns true for `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Returns the value with sorted keys and no white space, as the state hash needs it.
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
