//! The parts of a message: words, pictures, thoughts, and what only its provider understands.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::block::{ImagePart, TextPart};
use crate::json::{Fields, Json};
use crate::object::{DecodeError, Field, Object, RawFields, objects};
use crate::text::Text;

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessagePart {
    /// What it is.
    pub body: MessagePartBody,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// The field that holds the provider's own form of a part.
const FORM: &str = "native";

/// What a part of a message is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MessagePartBody {
    /// Words.
    Text(TextPart),
    /// A picture.
    Image(ImagePart),
    /// What the model thought.
    Thinking(ThinkingPart),
    /// What only its provider understands.
    Native(NativePart),
    /// A kind that this version does not know; its fields are the part's `extra`.
    Other(Arc<str>),
}

objects! {
    /// What the model thought.
    pub struct ThinkingPart {
        /// The words.
        text: Text = "text",
        /// The provider's mark that must go back unchanged.
        signature: Option<Arc<str>> = "signature",
    }

    /// A provider's own item, as that provider spelt it: a thought that only it can read, a tool
    /// that ran at its side. Of what another part says too, it would be a second telling; only a
    /// call may stand in both forms.
    pub struct NativePart {
        /// The provider: `anthropic` or `openai`, or any other.
        provider: Arc<str> = "provider",
        /// The item.
        item: Json = "item",
    }
}

impl NativePart {
    /// Returns the call that the item is, by its name.
    pub(crate) fn call(&self) -> Option<String> {
        let item: Fields = serde_json::from_str(self.item.as_str()).ok()?;
        item.get(name_of_call(&item)?)?.to_text()
    }

    /// Gives the call that the item is another name; all else stays as it was spelt.
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

/// Returns the field that names the call which a provider's item is.
fn name_of_call(item: &Fields) -> Option<&'static str> {
    match item.get("type")?.to_text()?.as_str() {
        "tool_use" | "function" => Some("id"),
        "function_call" => Some("call_id"),
        _ => None,
    }
}

impl MessagePart {
    /// Returns a part of words.
    pub fn text(text: &str) -> Self {
        MessagePartBody::Text(TextPart { text: text.into() }).into()
    }

    /// Returns a thought with the mark of its provider.
    pub fn thinking(text: &str, signature: &str) -> Self {
        let signature = Some(signature.into());
        MessagePartBody::Thinking(ThinkingPart { text: text.into(), signature }).into()
    }

    /// Returns an item of `provider`'s own.
    pub fn native(provider: &str, item: Json) -> Self {
        MessagePartBody::Native(NativePart { provider: provider.into(), item }).into()
    }

    /// Returns the part with the item in which its provider said it: that goes back to that
    /// provider as it is, in place of what would be made of the part.
    #[must_use]
    pub fn spelt(mut self, provider: &str, item: Json) -> Self {
        let mut form = Fields::default();
        form.insert("provider", Json::string(provider));
        form.insert("item", item);
        self.extra.insert(FORM, Json::of(&form));
        self
    }

    /// Returns the item in which `provider` said it, if that is known.
    pub fn form(&self, provider: &str) -> Option<Json> {
        let form: Fields = serde_json::from_str(self.extra.get(FORM)?.as_str()).ok()?;
        let is_its = form.get("provider")?.to_text()? == provider;
        form.get("item").filter(|_| is_its).cloned()
    }

    /// Returns the id that `provider` gave the item in which it said this.
    pub fn item_id(&self, provider: &str) -> Option<String> {
        let item = match &self.body {
            MessagePartBody::Native(native) => {
                (&*native.provider == provider).then(|| native.item.clone())
            }
            _ => self.form(provider),
        };
        let item: Fields = serde_json::from_str(item?.as_str()).ok()?;
        item.get("id")?.to_text()
    }

    /// Gives the item in which `provider` said this another id; all else stays as it was spelt.
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
                if let Some(item) = self.form(provider).as_ref().and_then(renamed) {
                    *self = self.clone().spelt(provider, item);
                }
            }
        }
    }

    /// Forgets the item in which its provider said it.
    pub(crate) fn forget_form(&mut self) {
        if self.extra.get(FORM).is_some() {
            let others = self.extra.iter().filter(|(name, _)| *name != FORM);
            self.extra = others.map(|(name, value)| (name.into(), value.clone())).collect();
        }
    }

    /// Returns the words, if it is words.
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
