//! Named JSON values in insertion order: metadata, and the fields that a type does not know.

use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Json;

/// Named JSON values in insertion order.
///
/// Cheap to clone. An empty set allocates nothing.
#[derive(Clone, Default)]
pub struct Fields(Option<Arc<Vec<Pair>>>);

type Pair = (Arc<str>, Json);

impl Fields {
    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the value of `name`. The last of several duplicates wins.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.pairs().iter().rev().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    /// Returns the names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.pairs().iter().map(|(key, value)| (&**key, value))
    }

    /// Sets `name` to `value`.
    pub fn insert(&mut self, name: &str, value: Json) {
        let pairs = Arc::make_mut(self.0.get_or_insert_default());
        match pairs.iter_mut().rev().find(|(key, _)| &**key == name) {
            Some(pair) => pair.1 = value,
            None => pairs.push((name.into(), value)),
        }
    }

    /// Copies the fields from `other` that are missing here.
    pub fn fill_from(&mut self, other: &Fields) {
        if self.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        for (key, value) in other.pairs() {
            if self.get(key).is_none() {
                self.insert(key, value.clone());
            }
        }
    }

    pub(crate) fn write_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))
    }

    fn pairs(&self) -> &[Pair] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl FromIterator<(Arc<str>, Json)> for Fields {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Json)>>(pairs: I) -> Self {
        let pairs: Vec<_> = pairs.into_iter().collect();
        Self((!pairs.is_empty()).then(|| Arc::new(pairs)))
    }
}

/// Two sets are equal if the same names have the same values, in any order.
impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        // The first comparison is cheap and usually suffices; the second ignores the order.
        self.pairs() == other.pairs() || Json::of(self) == Json::of(other)
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<Arc<str>, Json>()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}
