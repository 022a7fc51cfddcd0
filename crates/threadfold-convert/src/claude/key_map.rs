//! A map from hashes, in the order of insertion: a snapshot of it begins like the one before, and
//! deduplicated pieces of it are stored once.
//!
//! Every line of a session has entries here, so they stand one after another, and beside them is
//! only their place by hash: four bytes.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A hash as two numbers, which need less alignment than one.
type Halves = [u64; 2];

/// A map from hashes, in the order of insertion.
#[derive(Clone, Debug)]
pub(super) struct KeyMap<V> {
    entries: Vec<(Halves, V)>,
    /// The indexes of entries, each at its hash or behind it. The length is a power of two.
    places: Vec<u32>,
}

/// A place without an entry.
const VACANT: u32 = u32::MAX;
/// The fewest places of a map that is not empty.
const FEWEST_PLACES: usize = 8;

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: Vec::new() }
    }
}

impl<V> KeyMap<V> {
    pub(super) fn get(&self, key: &u128) -> Option<&V> {
        self.find(halves(*key)).map(|index| &self.entries[index].1)
    }

    pub(super) fn get_mut(&mut self, key: &u128) -> Option<&mut V> {
        self.find(halves(*key)).map(|index| &mut self.entries[index].1)
    }

    pub(super) fn contains_key(&self, key: &u128) -> bool {
        self.find(halves(*key)).is_some()
    }

    /// Adds a value, or replaces the one that was there and returns it.
    pub(super) fn insert(&mut self, key: u128, value: V) -> Option<V> {
        match self.get_mut(&key) {
            Some(known) => Some(std::mem::replace(known, value)),
            None => {
                self.add(halves(key), value);
                None
            }
        }
    }

    /// Adds a value, unless there is one.
    pub(super) fn insert_if_free(&mut self, key: u128, value: V) {
        if !self.contains_key(&key) {
            self.add(halves(key), value);
        }
    }

    /// Returns the index of the entry with this key.
    fn find(&self, key: Halves) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = first_place(key, mask);
        // A quarter of the places is vacant, so the loop ends.
        loop {
            match self.places[at] {
                VACANT => return None,
                index if self.entries[index as usize].0 == key => return Some(index as usize),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Adds the entry of a key that is not there.
    fn add(&mut self, key: Halves, value: V) {
        let index = self.entries.len();
        self.entries.push((key, value));
        if 4 * self.entries.len() > 3 * self.places.len() {
            let count = (2 * self.places.len()).max(FEWEST_PLACES);
            // Allocated only after the old ones are freed.
            self.places = Vec::new();
            self.places = vec![VACANT; count];
            (0..=index).for_each(|index| self.enter(index));
        } else {
            self.enter(index);
        }
    }

    /// Enters an entry at the first vacant place for its key.
    fn enter(&mut self, index: usize) {
        let mask = self.places.len() - 1;
        let mut at = first_place(self.entries[index].0, mask);
        while self.places[at] != VACANT {
            at = (at + 1) & mask;
        }
        self.places[at] = u32::try_from(index).expect("more entries do not fit in memory");
    }
}

fn halves(key: u128) -> Halves {
    [key as u64, (key >> 64) as u64]
}

/// Returns the place of a key in an empty table.
fn first_place([low, high]: Halves, mask: usize) -> usize {
    // Keys are hashes already, of which some are products: their high bits are the better ones.
    ((low ^ high).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
}

impl<V: Serialize> Serialize for KeyMap<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.entries.iter();
        serializer.collect_seq(
            entries.map(|([low, high], value)| (u128::from(*high) << 64 | u128::from(*low), value)),
        )
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for KeyMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairVisitor<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for PairVisitor<V> {
            type Value = KeyMap<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of pairs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<KeyMap<V>, A::Error> {
                let mut map = KeyMap::default();
                while let Some((key, value)) = pairs.next_element::<(u128, V)>()? {
                    map.insert(key, value);
                }
                Ok(map)
            }
        }

        deserializer.deserialize_seq(PairVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_128;

    use super::*;

    #[test]
    fn entries_are_found_and_keep_their_order_also_after_a_restore() {
        let mut map = KeyMap::default();
        let key = |number: u64| xxh3_128(&number.to_le_bytes());
        for number in 0..5_000 {
            assert_eq!(map.insert(key(number), number), None);
            assert_eq!(map.insert(key(number / 2), number / 2), Some(number / 2));
            map.insert_if_free(key(number), 0);
        }
        *map.get_mut(&key(7)).unwrap() = 8;
        assert_eq!(map.insert(key(7), 7), Some(8));
        let text = serde_json::to_string(&map).unwrap();
        assert!(text.starts_with(&format!("[[{},0],[{},1],", key(0), key(1))));
        let again: KeyMap<u64> = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        for map in [&map, &again] {
            assert!((0..5_000).all(|number| map.get(&key(number)) == Some(&number)));
            assert!((5_000..9_000).all(|number| !map.contains_key(&key(number))));
        }
        assert_eq!(KeyMap::<u64>::default().get(&0), None);
    }
}
