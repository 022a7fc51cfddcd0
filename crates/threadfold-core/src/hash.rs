//! The state hash: equal conversations have equal 32-byte hashes, on every platform.
//!
//! `docs/reference/state-hash.md` defines it for other languages.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::block::{Block, BlockForm};
use crate::json::{CanonicalObject, Json};
use crate::state::{BlockHashes, Conversation, ConversationState, Slot};

/// The hash of a state.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateHash([u8; 32]);

impl StateHash {
    /// Returns the hash bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for StateHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl ConversationState {
    /// Returns the hash of everything that the state shows, except raw records and the names that
    /// conversations are shown under.
    ///
    /// Caches the hash of each block, so unchanged blocks are not hashed again.
    pub fn hash(&self) -> StateHash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"threadfold state 2\n");
        hasher.update(&self.conversation_hash(Slot::Main, &self.settled.main));
        for index in self.settled.order() {
            let subagent = self.settled.subagents.view(index);
            let header = Json::of(&subagent.header()).canonical();
            hasher.update(blake3::hash(header.as_bytes()).as_bytes());
            let slot = Slot::Subagent(index);
            hasher.update(&self.conversation_hash(slot, &subagent.conversation));
        }
        StateHash(*hasher.finalize().as_bytes())
    }

    fn conversation_hash(&self, slot: Slot, conversation: &Conversation) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let mut hashes = BlockHashes::default();
        for entry in conversation.entries() {
            let hash = match self.with_open_text(slot, entry) {
                Some(grown) => block_hash(&grown),
                None => hashes.of(entry),
            };
            hasher.update(&hash);
        }
        *hasher.finalize().as_bytes()
    }
}

pub(crate) fn block_hash(block: &Block) -> [u8; 32] {
    let mut object = CanonicalObject::default();
    let written = block.write_into(&mut object, BlockForm::Hashed);
    written.expect("plain data has a form in JSON");
    *blake3::hash(&object.finish()).as_bytes()
}
