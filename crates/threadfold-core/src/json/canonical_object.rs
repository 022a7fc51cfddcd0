//! The canonical form of an object, written member by member.
//!
//! Most values are texts and numbers, whose usual spelling is the canonical one. Only opaque JSON is
//! read again, and only where it can be spelt in another way.

use serde::Serialize;
use serde::ser::{Error as _, SerializeMap};

use super::canonical::{canonical_text, is_canonical_string};

/// Collects the members of an object, and writes them in their canonical order.
#[derive(Default)]
pub(crate) struct CanonicalObject {
    /// The members one after the other, each as `"key":value`.
    text: Vec<u8>,
    members: Vec<Member>,
}

struct Member {
    start: usize,
    /// The offset behind the key's closing quote.
    key_end: usize,
    end: usize,
}

impl CanonicalObject {
    /// Returns the canonical form of the object.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let Self { text, members } = &mut self;
        // Without quotes, so that a key sorts before any longer key that starts with it. Sorting is
        // stable, so equal keys keep their order.
        let key = |member: &Member| &text[member.start + 1..member.key_end - 1];
        members.sort_by(|a, b| key(a).cmp(key(b)));
        let mut out = Vec::with_capacity(text.len() + members.len() + 2);
        out.push(b'{');
        for (number, member) in members.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&text[member.start..member.end]);
        }
        out.push(b'}');
        out
    }

    /// Replaces the value that begins at `start` by its canonical form.
    fn canonicalize(&mut self, start: usize) -> Result<(), serde_json::Error> {
        let is_canonical = match self.text.get(start) {
            Some(b'"') => is_canonical_string(&self.text[start..]),
            Some(b'{' | b'[') => false,
            // A number keeps its spelling, and a name has only one.
            _ => true,
        };
        if is_canonical {
            return Ok(());
        }
        let value = std::str::from_utf8(&self.text[start..]).map_err(serde_json::Error::custom)?;
        let canonical = canonical_text(value);
        self.text.truncate(start);
        self.text.extend_from_slice(canonical.as_bytes());
        Ok(())
    }
}

impl SerializeMap for CanonicalObject {
    type Ok = ();
    type Error = serde_json::Error;

    fn serialize_entry<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &mut self,
        key: &K,
        value: &V,
    ) -> Result<(), Self::Error> {
        self.serialize_key(key)?;
        self.serialize_value(value)
    }

    fn serialize_key<K: Serialize + ?Sized>(&mut self, key: &K) -> Result<(), Self::Error> {
        let start = self.text.len();
        serde_json::to_writer(&mut self.text, key)?;
        let key_end = self.text.len();
        self.text.push(b':');
        self.members.push(Member { start, key_end, end: key_end + 1 });
        Ok(())
    }

    fn serialize_value<V: Serialize + ?Sized>(&mut self, value: &V) -> Result<(), Self::Error> {
        let start = self.text.len();
        serde_json::to_writer(&mut self.text, value)?;
        self.canonicalize(start)?;
        if let Some(member) = self.members.last_mut() {
            member.end = self.text.len();
        }
        Ok(())
    }

    fn end(self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::{Fields, Json};

    fn members_of(fields: &Fields) -> String {
        let mut object = CanonicalObject::default();
        fields.write_into(&mut object).expect("JSON can be written");
        String::from_utf8(object.finish()).expect("JSON is text")
    }

    #[test]
    fn an_object_without_members_is_empty() {
        assert_eq!(members_of(&Fields::default()), "{}");
    }

    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("1.50e3".to_owned()),
            r#"[a-zé\\n/"]{0,6}"#.prop_map(|text| serde_json::to_string(&text).expect("a text")),
            Just(r#""\u0041\/\ud83d\ude00\ud800""#.to_owned()),
            Just(r#""\\u0041""#.to_owned()),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3)
                    .prop_map(|items| format!("[ {} ]", items.join(" , "))),
                prop::collection::vec(("[a-c\u{e9}]{0,2}", inner), 0..4).prop_map(|members| {
                    let members: Vec<_> =
                        members.iter().map(|(key, value)| format!("\"{key}\" :{value}")).collect();
                    format!("{{{}}}", members.join(", "))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_the_canonical_form_of_the_same_object_as_text(
            members in prop::collection::vec(("[a-c!\u{e9}\"]{0,3}", value()), 0..6),
        ) {
            let fields: Fields = members
                .into_iter()
                .map(|(key, value)| (key.into(), Json::parse(&value).expect("JSON")))
                .collect();
            prop_assert_eq!(members_of(&fields), Json::of(&fields).canonical());
        }
    }
}
