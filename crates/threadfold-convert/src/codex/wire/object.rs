//! A JSON object that is read by name: in either spelling, with any field missing or odd.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::elements::{elements, unescaped};
use crate::borrowed::Str;

/// The fields of an object, in their order.
///
/// Of a key that occurs twice, the last value counts.
#[derive(Debug, Default)]
pub(in crate::codex) struct Object<'a>(Vec<(Str<'a>, &'a RawValue)>);

impl<'a> Object<'a> {
    pub(super) fn of_fields(fields: Vec<(Str<'a>, &'a RawValue)>) -> Self {
        Self(fields)
    }

    /// Reads an object; nothing if the value is something else.
    pub(in crate::codex) fn read(raw: &'a RawValue) -> Option<Self> {
        raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok())?
    }

    /// Reads a list of objects; other elements are left out.
    pub(in crate::codex) fn list(raw: &'a RawValue) -> Option<Vec<Self>> {
        if !raw.get().starts_with('[') {
            return None;
        }
        if let Ok(objects) = serde_json::from_str(raw.get()) {
            return Some(objects);
        }
        let elements: Vec<&'a RawValue> = serde_json::from_str(raw.get()).ok()?;
        Some(elements.into_iter().filter_map(Self::read).collect())
    }

    /// Returns a field under its name with underscores, or in camel case; `null` counts as absent.
    pub(in crate::codex) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().rev().find(|(key, _)| is_same(key, name));
        found.map(|(_, value)| *value).filter(|it| !is_null(it))
    }

    pub(in crate::codex) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text_of(self.get(name)?)
    }

    pub(in crate::codex) fn number(&self, name: &str) -> Option<u64> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    pub(in crate::codex) fn signed(&self, name: &str) -> Option<i64> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    pub(in crate::codex) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|it| it.get() == "true")
    }

    pub(in crate::codex) fn object(&self, name: &str) -> Option<Self> {
        Self::read(self.get(name)?)
    }

    pub(in crate::codex) fn objects(&self, name: &str) -> Vec<Self> {
        self.get(name).and_then(Self::list).unwrap_or_default()
    }

    /// Returns the texts of a list; other elements are left out.
    pub(in crate::codex) fn texts(&self, name: &str) -> Vec<Cow<'a, str>> {
        let list = self.get(name).map_or("", RawValue::get);
        elements(list).filter_map(text_of_str).collect()
    }

    pub(in crate::codex) fn fields(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (&**key, *value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(Str<'de>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Fields).map(Self)
    }
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// Returns the text of a JSON string, borrowed unless it has escapes.
///
/// A raw value is valid JSON, so that its strings need no second parse.
pub(super) fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    text_of_str(raw.get())
}

/// Returns the text of a JSON string that is part of a raw value.
pub(super) fn text_of_str(raw: &str) -> Option<Cow<'_, str>> {
    unescaped(raw.strip_prefix('"')?.strip_suffix('"')?)
}

/// Returns whether a key is a name with underscores, or the same name in camel case.
fn is_same(key: &str, name: &str) -> bool {
    // Most keys differ from the name in their first letter: to compare texts takes a call.
    if key.as_bytes().first() != name.as_bytes().first() {
        return false;
    }
    key == name || (key.len() < name.len() && name.contains('_') && letters(key).eq(letters(name)))
}

/// Returns the letters of a name, however it marks its words.
fn letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|it| *it != b'_').map(|it| it.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_in_either_spelling_and_the_last_of_two_counts() {
        let raw = r#"{"id":"item_0","threadId":"t","id":"ws_1","exit_code":null}"#;
        let raw: &RawValue = serde_json::from_str(raw).unwrap();
        let object = Object::read(raw).unwrap();
        assert_eq!(object.text("thread_id").as_deref(), Some("t"));
        assert_eq!(object.text("id").as_deref(), Some("ws_1"));
        assert!(object.get("exit_code").is_none());
        assert!(object.number("thread_id").is_none());
    }
}
