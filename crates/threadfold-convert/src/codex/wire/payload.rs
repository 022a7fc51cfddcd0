//! The payload of a line of a rollout, read together with the line.
//!
//! Most bytes of a rollout are outputs of tools, inside an item inside a payload. To skip a payload
//! first, then its item, and then to read the fields would scan each output three times.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Object;
use crate::borrowed::Str;

/// The payload of a line of a rollout.
#[derive(Debug, Default)]
pub(in crate::codex) struct Payload<'a> {
    /// Its fields; nothing if it is not an object.
    pub(in crate::codex) fields: Option<Object<'a>>,
    /// The item of an `item_completed` event, which is not among the fields.
    pub(in crate::codex) item: Option<Object<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Payload<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PayloadVisitor { is_payload: true })
    }
}

/// Reads a payload, or the item inside it. Any value that is not an object is skipped.
struct PayloadVisitor {
    is_payload: bool,
}

impl<'de> Visitor<'de> for PayloadVisitor {
    type Value = Payload<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Payload<'de>, M::Error> {
        let mut fields = Vec::with_capacity(8);
        let (mut item, mut has_item) = (None, false);
        while let Some(key) = map.next_key::<Str<'de>>()? {
            if has_item && &*key == "item" {
                item = map.next_value_seed(NestedItem)?.fields;
                continue;
            }
            let value: &'de RawValue = map.next_value()?;
            has_item |= self.is_payload && &*key == "type" && value.get() == "\"item_completed\"";
            fields.push((key, value));
        }
        Ok(Payload { fields: Some(Object::of_fields(fields)), item })
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Payload<'de>, S::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Payload::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Payload<'de>, E> {
        Ok(Payload::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Payload<'de>, E> {
        Ok(Payload::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Payload<'de>, E> {
        Ok(Payload::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Payload<'de>, E> {
        Ok(Payload::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Payload<'de>, E> {
        Ok(Payload::default())
    }

    fn visit_unit<E>(self) -> Result<Payload<'de>, E> {
        Ok(Payload::default())
    }
}

/// The item inside a payload.
struct NestedItem;

impl<'de> serde::de::DeserializeSeed<'de> for NestedItem {
    type Value = Payload<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(PayloadVisitor { is_payload: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Payload<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_item_of_an_event_is_read_and_any_other_field_of_that_name_is_kept() {
        let payload = read(r#"{"type":"item_completed","item":{"type":"Plan","text":"a"},"n":1}"#);
        assert_eq!(payload.item.unwrap().text("text").as_deref(), Some("a"));
        let fields = payload.fields.unwrap();
        assert_eq!((fields.number("n"), fields.get("item").is_none()), (Some(1), true));

        let other = read(r#"{"type":"other","item":{"text":"a"}}"#);
        assert!(other.item.is_none());
        assert_eq!(other.fields.unwrap().object("item").unwrap().text("text").unwrap(), "a");
    }

    #[test]
    fn what_is_no_object_has_no_fields() {
        for text in ["1", "-1", "0.5", "null", "true", r#""text""#, "[[1],{}]"] {
            assert!(read(text).fields.is_none(), "{text}");
            let payload = format!(r#"{{"type":"item_completed","item":{text}}}"#);
            assert!(read(&payload).item.is_none(), "{text}");
        }
    }
}
