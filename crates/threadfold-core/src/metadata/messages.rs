//! The tokens of each message, in the order in which messages were first reported.
//!
//! A snapshot has them in that order: then it begins like the one before it, and a store that
//! deduplicates pieces of snapshots stores only what was added. In the order of their ids, which
//! are random, every piece would differ.

use std::fmt;

use imbl::OrdMap;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::MessageUsage;
use crate::id::MessageId;

/// The tokens of each message.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    /// Each message with its place among all.
    by_id: OrdMap<MessageId, (u32, MessageUsage)>,
}

impl Messages {
    pub(super) fn get(&self, id: &MessageId) -> Option<&MessageUsage> {
        self.by_id.get(id).map(|(_, usage)| usage)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &MessageUsage> {
        self.by_id.values().map(|(_, usage)| usage)
    }

    /// Returns the tokens of a message, which is added with `first` if it is new.
    pub(super) fn get_or_insert(
        &mut self,
        id: MessageId,
        first: MessageUsage,
    ) -> &mut MessageUsage {
        let place = self.by_id.len() as u32;
        &mut self.by_id.entry(id).or_insert((place, first)).1
    }
}

/// The order is not compared: two sources may be read in any order.
impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        let all = |it: &Self| -> Vec<_> {
            it.by_id.iter().map(|(id, (_, usage))| (id.clone(), usage.clone())).collect()
        };
        self.by_id.len() == other.by_id.len() && all(self) == all(other)
    }
}

impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all: Vec<_> =
            self.by_id.iter().map(|(id, (place, usage))| (place, id, usage)).collect();
        all.sort_unstable_by_key(|(place, ..)| **place);
        serializer.collect_seq(all.into_iter().map(|(_, id, usage)| (id, usage)))
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MessagesVisitor;

        impl<'de> Visitor<'de> for MessagesVisitor {
            type Value = Messages;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of messages with their tokens")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Messages, A::Error> {
                let mut messages = Messages::default();
                while let Some((id, usage)) = list.next_element()? {
                    messages.get_or_insert(id, usage);
                }
                Ok(messages)
            }

            /// Earlier snapshots have an object, sorted by id.
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Messages, A::Error> {
                let mut messages = Messages::default();
                while let Some((id, usage)) = map.next_entry()? {
                    messages.get_or_insert(id, usage);
                }
                Ok(messages)
            }
        }

        deserializer.deserialize_any(MessagesVisitor)
    }
}
