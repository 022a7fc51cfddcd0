//! A hash map for what converters remember.

use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

/// A map whose hasher has no random seed, so that iteration order does not differ between runs.
#[expect(clippy::disallowed_types, reason = "the hasher is a fixed one")]
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<NameHasher>>;

/// Hashes names with XXH3: several of a few letters are looked up for every line, and the standard
/// library's hasher takes a tenth of the time to convert one.
#[derive(Clone, Default)]
pub(crate) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.rotate_left(31) ^ xxh3_64(bytes);
    }

    fn write_u8(&mut self, byte: u8) {
        // The byte that ends a text.
        self.0 = self.0.rotate_left(8) ^ u64::from(byte);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Serializes a map as an object, sorted by key: snapshots must not depend on the order of a map.
pub(crate) fn serialize_sorted<K, V, S>(map: &Map<K, V>, serializer: S) -> Result<S::Ok, S::Error>
where
    K: Ord + Serialize,
    V: Serialize,
    S: Serializer,
{
    map.iter().collect::<BTreeMap<_, _>>().serialize(serializer)
}
