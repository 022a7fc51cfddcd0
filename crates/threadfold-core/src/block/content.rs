//! The content of a message: text, or a list of typed parts.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::{Fields, Json};
use crate::json_object::{DecodeError, Field, Object, RawFields, objects};
use crate::text::Text;

/// Text, or a list of typed parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Plain text.
    Text(Text),
    /// Text, images and files, in order.
    Parts(Vec<Part>),
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The part's type and its fields.
    pub body: PartBody,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// The type of a part, with the fields of that type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PartBody {
    /// Text.
    Text(TextPart),
    /// An image.
    Image(ImagePart),
    /// A file.
    File(FilePart),
    /// A type that this version does not know. Its fields are in the part's `extra`.
    Other(Arc<str>),
}

objects! {
    /// Text.
    pub struct TextPart {
        /// The text.
        text: Text = "text",
    }

    /// An image.
    pub struct ImagePart {
        /// Its media type, such as `image/png`.
        media_type: Option<Arc<str>> = "mediaType",
        /// The image data, in base64.
        data: Option<Arc<str>> = "data",
        /// The image's URL.
        url: Option<Arc<str>> = "url",
    }

    /// A file.
    pub struct FilePart {
        /// Its name.
        name: Option<Arc<str>> = "name",
        /// Its media type.
        media_type: Option<Arc<str>> = "mediaType",
        /// The file data, in base64.
        data: Option<Arc<str>> = "data",
        /// The file's URL.
        url: Option<Arc<str>> = "url",
    }
}

impl Part {
    /// Returns a text part.
    pub fn text(text: impl Into<Text>) -> Self {
        PartBody::Text(TextPart { text: text.into() }).into()
    }

    fn from_raw(raw: &RawValue) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        let kind: Arc<str> = fields.read("type")?;
        let body = match &*kind {
            "text" => PartBody::Text(Object::take(&mut fields)?),
            "image" => PartBody::Image(Object::take(&mut fields)?),
            "file" => PartBody::File(Object::take(&mut fields)?),
            _ => PartBody::Other(kind),
        };
        Ok(Self { body, extra: fields.rest() })
    }
}

impl From<PartBody> for Part {
    fn from(body: PartBody) -> Self {
        Self { body, extra: Fields::default() }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.body {
            PartBody::Text(part) => {
                map.serialize_entry("type", "text")?;
                part.write_into(&mut map)?;
            }
            PartBody::Image(part) => {
                map.serialize_entry("type", "image")?;
                part.write_into(&mut map)?;
            }
            PartBody::File(part) => {
                map.serialize_entry("type", "file")?;
                part.write_into(&mut map)?;
            }
            PartBody::Other(kind) => map.serialize_entry("type", kind)?,
        }
        self.extra.write_into(&mut map)?;
        map.end()
    }
}

impl Content {
    /// Returns true if there is no text and no part.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => parts.is_empty(),
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl Field for Content {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        const WANTED: &str = "text, or a list of parts";
        let raw = raw.unwrap_or(RawValue::NULL);
        match raw.get().as_bytes().first() {
            Some(b'"') => Text::read(Some(raw)).map(Self::Text),
            Some(b'[') => {
                let parts: Vec<Json> = crate::json_object::read_value(Some(raw), WANTED)?;
                let read = |(index, part): (usize, &Json)| {
                    Part::from_raw(part.raw()).map_err(|error| error.within(&index.to_string()))
                };
                parts.iter().enumerate().map(read).collect::<Result<_, _>>().map(Self::Parts)
            }
            _ => Err(DecodeError::new(WANTED, raw)),
        }
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Text(text) => map.serialize_entry(name, text),
            Self::Parts(parts) => map.serialize_entry(name, parts),
        }
    }
}
