//! The parts of a message: text, images, reasoning, and provider-native items.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::block::{ImagePart, TextPart};
use crate::json::{Fields, Json};
use crate::json_object::{DecodeError, Field, Object, RawFields, objects};
use crate::text::Text;

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessagePart {
    /// What it is.
    pub body: MessagePartBody,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// The field that holds a part's native form.
const FORM: &str = "native";

/// The type of a part, with the fields of that type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MessagePartBody {
    /// Text.
    Text(TextPart),
    /// An image.
    Image(ImagePart),
    /// The model's reasoning.
    Thinking(ThinkingPart),
    /// An item that only its provider understands.
    Native(NativePart),
    /// A type that this version does not know. Its fields are in the part's `extra`.
    Other(Arc<str>),
}

objects! {
    /// The model's reasoning.
    pub struct ThinkingPart {
        /// The text.
        text: Text = "text",
        /// The provider's signature, which must be sent back unchanged.
        signature: Option<Arc<str>> = "signature",
    }

    /// A provider-native item, verbatim, such as encrypted reasoning or a server-side tool call. It
    /// must not repeat what another part contains; only a call may appear in both forms.
    pub struct NativePart {
        /// The provider: `anthropic`, `openai` or another.
        provider: Arc<str> = "provider",
        /// The item.
        item: Json = "item",
    }
}

impl NativePart {
    /// Returns the id of the call that the item represents.
    pub(crate) fn call(&self) -> Option<String> {
        let item: Fields = serde_json::from_str(self.item.as_str()).ok()?;
        item.get(name_of_call(&item)?)?.to_text()
    }

    /// Renames the call that the item represents. Everything else stays verbatim.
    pub(crate) fn rename_call(&mut self, to: &str) {
        let item: Result<Fields, _> = serde_json::from_str(self.item.as_str());
        if let Ok(mut item) = item
            && let Some(name) = name_of_call(&item)
        {
            item.insert(name, Json::string(to));
            self.item = Json::of(&item);
        }
    }
}

/// Returns the field with the call id, if a native item represents a call.
fn name_of_call(item: &Fields) -> Option<&'static str> {
    match item.get("type")?.to_text()?.as_str() {
        "tool_use" | "function" => Some("id"),
        "function_call" => Some("call_id"),
        _ => None,
    }
}

impl MessagePart {
    /// Returns a text part.
    pub fn text(text: &str) -> Self {
        MessagePartBody::Text(TextPart { text: text.into() }).into()
    }

    /// Returns a reasoning part with the provider's signature.
    pub fn thinking(text: &str, signature: &str) -> Self {
        let signature = Some(signature.into());
        MessagePartBody::Thinking(ThinkingPart { text: text.into(), signature }).into()
    }

    /// Returns an item native to `provider`.
    pub fn native(provider: &str, item: Json) -> Self {
        MessagePartBody::Native(NativePart { provider: provider.into(), item }).into()
    }

    /// Attaches the native item that `provider` produced for this part. That provider receives the
    /// item verbatim instead of a rendering of the part.
    #[must_use]
    pub fn with_native(mut self, provider: &str, item: Json) -> Self {
        let mut form = Fields::default();
        form.insert("provider", Json::string(provider));
        form.insert("item", item);
        self.extra.insert(FORM, Json::of(&form));
        self
    }

    /// Returns the native item that `provider` produced for this part, if known.
    pub fn native_form(&self, provider: &str) -> Option<Json> {
        let form: Fields = serde_json::from_str(self.extra.get(FORM)?.as_str()).ok()?;
        let is_its = form.get("provider")?.to_text()? == provider;
        form.get("item").filter(|_| is_its).cloned()
    }

    /// Returns the id that `provider` assigned to this part's item.
    pub fn item_id(&self, provider: &str) -> Option<String> {
        let item = match &self.body {
            MessagePartBody::Native(native) => {
                (&*native.provider == provider).then(|| native.item.clone())
            }
            _ => self.native_form(provider),
        };
        let item: Fields = serde_json::from_str(item?.as_str()).ok()?;
        item.get("id")?.to_text()
    }

    /// Changes the id of the item that `provider` produced for this part. Everything else stays
    /// verbatim.
    pub fn rename_item(&mut self, provider: &str, to: &str) {
        let renamed = |item: &Json| {
            let mut item: Fields = serde_json::from_str(item.as_str()).ok()?;
            item.insert("id", Json::string(to));
            Some(Json::of(&item))
        };
        match &mut self.body {
            MessagePartBody::Native(native) if &*native.provider == provider => {
                native.item = renamed(&native.item).unwrap_or(native.item.clone());
            }
            _ => {
                if let Some(item) = self.native_form(provider).as_ref().and_then(renamed) {
                    *self = self.clone().with_native(provider, item);
                }
            }
        }
    }

    /// Drops the native item that a provider produced for this part.
    pub(crate) fn drop_native(&mut self) {
        if self.extra.get(FORM).is_some() {
            let others = self.extra.iter().filter(|(name, _)| *name != FORM);
            self.extra = others.map(|(name, value)| (name.into(), value.clone())).collect();
        }
    }

    /// Returns the text of a text part.
    pub fn to_text(&self) -> Option<String> {
        match &self.body {
            MessagePartBody::Text(part) => Some(part.text.to_str().into_owned()),
            _ => None,
        }
    }

    fn from_raw(raw: &RawValue) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        let kind: Arc<str> = fields.read("type")?;
        let body = match &*kind {
            "text" => MessagePartBody::Text(Object::take(&mut fields)?),
            "image" => MessagePartBody::Image(Object::take(&mut fields)?),
            "thinking" => MessagePartBody::Thinking(Object::take(&mut fields)?),
            "native" => MessagePartBody::Native(Object::take(&mut fields)?),
            _ => MessagePartBody::Other(kind),
        };
        Ok(Self { body, extra: fields.rest() })
    }
}

impl From<MessagePartBody> for MessagePart {
    fn from(body: MessagePartBody) -> Self {
        Self { body, extra: Fields::default() }
    }
}

impl Serialize for MessagePart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.body {
            MessagePartBody::Text(part) => {
                map.serialize_entry("type", "text")?;
                part.write_into(&mut map)?;
            }
            MessagePartBody::Image(part) => {
                map.serialize_entry("type", "image")?;
                part.write_into(&mut map)?;
            }
            MessagePartBody::Thinking(part) => {
                map.serialize_entry("type", "thinking")?;
                part.write_into(&mut map)?;
            }
            MessagePartBody::Native(part) => {
                map.serialize_entry("type", "native")?;
                part.write_into(&mut map)?;
            }
            MessagePartBody::Other(kind) => map.serialize_entry("type", kind)?,
        }
        self.extra.write_into(&mut map)?;
        map.end()
    }
}

impl Field for MessagePart {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        Self::from_raw(raw.unwrap_or(RawValue::NULL))
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(name, self)
    }
}
