//! A hash map for what converters remember.

use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use serde::{Serialize, Serializer};

/// A map whose hasher has no random seed, so that iteration order does not differ between runs.
#[expect(clippy::disallowed_types, reason = "the hasher is a fixed one")]
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// Serializes a map as an object, sorted by key: snapshots must not depend on the order of a map.
pub(crate) fn serialize_sorted<K, V, S>(map: &Map<K, V>, serializer: S) -> Result<S::Ok, S::Error>
where
    K: Ord + Serialize,
    V: Serialize,
    S: Serializer,
{
    map.iter().collect::<BTreeMap<_, _>>().serialize(serializer)
}
