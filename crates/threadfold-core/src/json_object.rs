//! Reads and writes our JSON objects: known fields become typed, unknown fields are preserved.
//!
//! Derived deserializers would drop unknown fields or, with `flatten`, buffer every value and lose
//! the spelling of opaque JSON. Here an object is first split into raw fields; each type takes the
//! fields that it knows, and the rest is kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::json::{Fields, Json};

/// Why a JSON text does not have the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}expected {expected}, found {found}", place(path))]
pub struct DecodeError {
    /// The path, such as `payload.block.status`; empty for the whole value.
    pub path: String,
    /// The expected form.
    pub expected: String,
    /// The value found there, truncated.
    pub found: String,
}

fn place(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("`{path}`: ") }
}

impl DecodeError {
    pub(crate) fn new(expected: impl Into<String>, found: &RawValue) -> Self {
        Self { path: String::new(), expected: expected.into(), found: cut(found.get()) }
    }

    fn missing(expected: impl Into<String>) -> Self {
        Self { path: String::new(), expected: expected.into(), found: "nothing".into() }
    }

    pub(crate) fn within(mut self, name: &str) -> Self {
        self.path = match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{name}.{}", self.path),
        };
        self
    }
}

fn cut(text: &str) -> String {
    const LIMIT: usize = 60;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// The fields of an object that no type has taken yet.
pub(crate) struct RawFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawFields<'a> {
    pub(crate) fn parse(raw: &'a RawValue) -> Result<Self, DecodeError> {
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        reader.deserialize_map(Pairs).map_err(|_| DecodeError::new("an object", raw))
    }

    /// Takes the value of `name`. The last of several duplicates wins.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let mut found = None;
        self.0.retain(|(key, value)| {
            let taken = key == name;
            if taken {
                found = Some(*value);
            }
            !taken
        });
        found
    }

    pub(crate) fn read<T: Field>(&mut self, name: &str) -> Result<T, DecodeError> {
        T::read(self.take(name)).map_err(|error| error.within(name))
    }

    /// Returns the remaining fields.
    pub(crate) fn rest(self) -> Fields {
        self.0.into_iter().map(|(key, value)| (key.as_ref().into(), Json::from(value))).collect()
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = RawFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFields<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Key<'de>>()? {
            fields.push((key.0, map.next_value::<&'de RawValue>()?));
        }
        Ok(RawFields(fields))
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// A type that can be the value of an object's field.
pub(crate) trait Field: Sized {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError>;
    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error>;
}

/// Reads a value through `serde`.
pub(crate) fn read_value<T: DeserializeOwned>(
    raw: Option<&RawValue>,
    wanted: &str,
) -> Result<T, DecodeError> {
    let raw = raw.ok_or_else(|| DecodeError::missing(wanted))?;
    serde_json::from_str(raw.get()).map_err(|_| DecodeError::new(wanted, raw))
}

/// Implements [`Field`] for types that `serde` supports, each with a description for errors.
macro_rules! value_fields {
    ($($type:ty: $wanted:expr),* $(,)?) => {$(
        impl $crate::json_object::Field for $type {
            fn read(
                raw: Option<&serde_json::value::RawValue>,
            ) -> Result<Self, $crate::json_object::DecodeError> {
                $crate::json_object::read_value(raw, $wanted)
            }

            fn write<M: serde::ser::SerializeMap>(
                &self,
                name: &'static str,
                map: &mut M,
            ) -> Result<(), M::Error> {
                map.serialize_entry(name, self)
            }
        }
    )*};
}
pub(crate) use value_fields;

value_fields! {
    crate::id::BlockId: "a block's id (a string)",
    crate::id::ConversationId: "a conversation's id (a string)",
    crate::id::MessageId: "a message's id (a string)",
    crate::id::ToolUseId: "a tool use's id (a string)",
    crate::id::AgentId: "an agent's id (a string)",
    crate::id::RequestId: "a request's id (a string)",
    crate::id::SessionId: "a session's id (a string)",
    crate::id::SourceId: "a source's id (a string)",
    crate::id::CallId: "a call's id (a string)",
    crate::id::CallKey: "a call's key (a string)",
    crate::id::EvaluationId: "an evaluation's id (a string)",
    crate::id::CheckpointId: "a checkpoint's id (a string)",
    crate::id::ContentHash: "a hash (a string)",
    crate::text::Text: "text (a string)",
    std::sync::Arc<str>: "a string",
    crate::json::Json: "a JSON value",
    crate::json::Fields: "an object",
    u64: "a non-negative integer",
    f64: "a number",
}

impl<T: Field> Field for Option<T> {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        match raw {
            Some(raw) if raw.get() != "null" => T::read(Some(raw)).map(Some),
            _ => Ok(None),
        }
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        self.as_ref().map_or(Ok(()), |value| value.write(name, map))
    }
}

/// A list; an absent field is an empty list.
impl<T: Field + Serialize> Field for Vec<T> {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
            return Ok(Self::new());
        };
        let items: Vec<&RawValue> =
            serde_json::from_str(raw.get()).map_err(|_| DecodeError::new("a list", raw))?;
        let read = |(index, item): (usize, &RawValue)| {
            T::read(Some(item)).map_err(|error| error.within(&index.to_string()))
        };
        items.into_iter().enumerate().map(read).collect()
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        if self.is_empty() { Ok(()) } else { map.serialize_entry(name, self) }
    }
}

/// A flag; an absent field is false.
impl Field for bool {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        match raw.map(RawValue::get) {
            None | Some("false" | "null") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => read_value(raw, "`true` or `false`"),
        }
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        if *self { map.serialize_entry(name, self) } else { Ok(()) }
    }
}

/// Defines objects: for each field its wire name, for each type how to read and write it.
macro_rules! objects {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $wire:literal,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $crate::json_object::Object for $name {
            fn take(
                fields: &mut $crate::json_object::RawFields<'_>,
            ) -> Result<Self, $crate::json_object::DecodeError> {
                let _ = &fields;
                Ok(Self { $($field: fields.read($wire)?,)* })
            }

            fn write_into<M: serde::ser::SerializeMap>(
                &self,
                map: &mut M,
            ) -> Result<(), M::Error> {
                let _ = &map;
                $($crate::json_object::Field::write(&self.$field, $wire, map)?;)*
                Ok(())
            }
        }
    )*};
}
pub(crate) use objects;

/// A type whose fields are part of an object, beside other fields.
pub(crate) trait Object: Sized {
    fn take(fields: &mut RawFields<'_>) -> Result<Self, DecodeError>;
    fn write_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Deserializes through a raw value, which `read` decodes.
pub(crate) fn deserialize_with<'de, D, T>(
    deserializer: D,
    read: fn(&RawValue) -> Result<T, DecodeError>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    read(&raw).map_err(serde::de::Error::custom)
}
