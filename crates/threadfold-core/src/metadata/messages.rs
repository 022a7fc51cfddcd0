//! The tokens of each message, in the order in which messages were first reported.
//!
//! A snapshot has them in that order: then it begins like the one before it, and a store that
//! deduplicates pieces of snapshots stores only what was added. In the order of their ids, which
//! are random, every piece would differ.

use std::fmt;
use std::sync::{Arc, OnceLock};

use imbl::OrdMap;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::MessageUsage;
use crate::id::MessageId;
use crate::state::SpillStore;

/// Each message with its place among all.
type ById = OrdMap<MessageId, (u32, MessageUsage)>;

/// The tokens of each message.
#[derive(Clone, Debug)]
pub(super) enum Messages {
    InMemory(ById),
    /// Those of a snapshot, which are read when the next tokens are reported: whoever looks at a
    /// session needs the sums only.
    Stored(Arc<StoredMessages>),
}

/// The tokens of each message, in the text of a snapshot.
pub(super) struct StoredMessages {
    text: Arc<dyn SpillStore>,
    /// Where the facts of the metadata are.
    place: u64,
    length: usize,
    read: OnceLock<ById>,
}

impl StoredMessages {
    fn by_id(&self) -> &ById {
        #[derive(Deserialize)]
        struct FactsText {
            messages: Messages,
        }

        self.read.get_or_init(|| {
            // If they cannot be read, the owner of the text knows.
            let Some(bytes) = self.text.fetch(self.place, self.length) else {
                return ById::new();
            };
            match serde_json::from_slice::<FactsText>(&bytes) {
                Ok(FactsText { messages }) => messages.by_id().clone(),
                Err(_) => {
                    self.text.report_corruption(self.place);
                    ById::new()
                }
            }
        })
    }
}

impl fmt::Debug for StoredMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.by_id().fmt(f)
    }
}

impl Default for Messages {
    fn default() -> Self {
        Self::InMemory(ById::new())
    }
}

impl Messages {
    /// Returns the messages of metadata whose facts are in a text.
    pub(super) fn stored(text: Arc<dyn SpillStore>, place: u64, length: usize) -> Self {
        Self::Stored(Arc::new(StoredMessages { text, place, length, read: OnceLock::new() }))
    }

    fn by_id(&self) -> &ById {
        match self {
            Self::InMemory(by_id) => by_id,
            Self::Stored(stored) => stored.by_id(),
        }
    }

    pub(super) fn get(&self, id: &MessageId) -> Option<&MessageUsage> {
        self.by_id().get(id).map(|(_, usage)| usage)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &MessageUsage> {
        self.by_id().values().map(|(_, usage)| usage)
    }

    /// Returns the tokens of a message, which is added with `first` if it is new.
    pub(super) fn get_or_insert(
        &mut self,
        id: MessageId,
        first: MessageUsage,
    ) -> &mut MessageUsage {
        let by_id = self.by_id_mut();
        let place = by_id.len() as u32;
        &mut by_id.entry(id).or_insert((place, first)).1
    }

    fn by_id_mut(&mut self) -> &mut ById {
        if let Self::Stored(stored) = self {
            *self = Self::InMemory(stored.by_id().clone());
        }
        match self {
            Self::InMemory(by_id) => by_id,
            Self::Stored(_) => unreachable!("they are in memory"),
        }
    }
}

/// The order is not compared: two sources may be read in any order.
impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        let all = |it: &Self| -> Vec<_> {
            it.by_id().iter().map(|(id, (_, usage))| (id.clone(), usage.clone())).collect()
        };
        self.by_id().len() == other.by_id().len() && all(self) == all(other)
    }
}

impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all: Vec<_> =
            self.by_id().iter().map(|(id, (place, usage))| (place, id, usage)).collect();
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
