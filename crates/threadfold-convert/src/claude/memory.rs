//! What the converter remembers between records, shared by the sources of one session.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{BlockId, ConversationId, Place, ToolUseId};

/// A map whose hasher has no random seed: two runs do the same.
#[expect(clippy::disallowed_types, reason = "the hasher is a fixed one")]
pub(super) type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// What the converter remembers between records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    /// Where each conversation stands, in the stream and in the files.
    pub(super) stream: Side,
    pub(super) files: Side,
    /// Calls that ask for a subagent.
    #[serde(with = "crate::pairs")]
    pub(super) calls: Map<Arc<str>, AgentCall>,
    /// Calls by their prompt whose subagent has not spoken yet, in their order.
    pub(super) waiting: Vec<(Arc<str>, Arc<str>)>,
    /// The first words of subagents that have files of their own.
    #[serde(with = "crate::pairs")]
    pub(super) openings: Map<Arc<str>, Arc<str>>,
    /// Conversations of subagents inside the main file, by the line they hang below.
    #[serde(with = "crate::pairs")]
    pub(super) sidechains: Map<u128, ConversationId>,
    /// What was last told of the session as a whole: where it works, and which version.
    pub(super) told: [Option<Arc<str>>; 2],
    /// Questions that wait for a person, by the call that waits.
    #[serde(with = "crate::pairs")]
    pub(super) questions: Map<Arc<str>, Arc<str>>,
    /// Calls of subagents, by the subagent.
    #[serde(with = "crate::pairs")]
    pub(super) agents: Map<Arc<str>, Arc<str>>,
}

/// What one kind of source has said so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    /// The last block of each conversation.
    #[serde(with = "crate::pairs")]
    pub(super) last: Map<ConversationId, BlockId>,
    /// How many blocks of each message were emitter.
    #[serde(with = "crate::pairs")]
    pub(super) counts: Map<Arc<str>, u64>,
    /// Lines by their `uuid`.
    #[serde(with = "crate::pairs")]
    pub(super) lines: Map<u128, LineEntry>,
    /// Blocks that stream right now and are not confirmed.
    pub(super) previews: Vec<Preview>,
    /// The message that streams right now, in each conversation.
    #[serde(with = "crate::pairs")]
    pub(super) streaming: Map<ConversationId, Arc<str>>,
    /// The turns of each conversation.
    #[serde(with = "crate::pairs")]
    pub(super) turns: Map<ConversationId, Turns>,
}

/// What is remembered of a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LineEntry {
    /// Its own block, or the nearest one above it.
    pub(super) block: Option<BlockId>,
    /// The turn that it belongs to.
    pub(super) turn: u32,
    /// The place of its first block in the message.
    pub(super) index: u64,
}

/// The turns of a conversation as a file tells them.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Turns {
    /// The turn that each turn went on from; the first is what precedes all prompts.
    pub(super) from: Vec<u32>,
    /// The lines that prompts hang below, to tell an edit from a rewind.
    pub(super) parents: Vec<Option<u128>>,
    /// Something was answered since the latest prompt.
    pub(super) answered: bool,
}

impl Turns {
    /// Returns the turn of the latest prompt.
    pub(super) fn current(&self) -> u32 {
        self.from.len() as u32
    }

    /// Says whether the latest prompt went on from `turn`.
    pub(super) fn is_active(&self, turn: u32) -> bool {
        let mut at = self.current();
        while at > turn {
            at = self.from[at as usize - 1];
        }
        at == turn
    }
}

/// A block that streams and is not confirmed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preview {
    pub(super) conversation: ConversationId,
    pub(super) message: Arc<str>,
    pub(super) index: u64,
    pub(super) block: BlockId,
    pub(super) content: u64,
}

/// A call that asks for a subagent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCall {
    pub(super) caller: ConversationId,
    pub(super) prompt: Option<Arc<str>>,
    pub(super) subagent_type: Option<Arc<str>>,
    pub(super) description: Option<Arc<str>>,
    pub(super) background: bool,
    /// The subagent, once its name is known.
    pub(super) agent: Option<Arc<str>>,
    /// There is a subagent.
    pub(super) spawned: bool,
    /// The call was answered without one.
    pub(super) failed: bool,
}

impl Side {
    /// Returns where a new block of the conversation stands: behind the last one.
    pub(super) fn place(&self, conversation: &ConversationId) -> Place {
        match self.last.get(conversation) {
            Some(block) => Place::After(block.clone()),
            None => Place::First,
        }
    }
}

/// Returns a short name for a `uuid`.
pub(super) fn key(uuid: &str) -> u128 {
    let hex = uuid.bytes().filter(|byte| *byte != b'-');
    let mut number: u128 = 0;
    let mut digits = 0;
    for byte in hex {
        let Some(digit) = (byte as char).to_digit(16) else { return hashed(uuid) };
        number = (number << 4) | u128::from(digit);
        digits += 1;
    }
    if digits == 32 { number } else { hashed(uuid) }
}

/// Returns a short name for any text: FNV over its bytes, 128 bits wide.
pub(super) fn hashed(text: &str) -> u128 {
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B)
    })
}

/// Returns a tool call's name.
pub(super) fn call_id(name: &str) -> ToolUseId {
    ToolUseId::from(name)
}
