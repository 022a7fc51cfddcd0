//! What the converter remembers between records, shared by the sources of one session.
//!
//! It is serialized into snapshots, so the JSON names of fields never change.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{BlockId, ConversationId, Placement, ToolUseId};

/// A map whose hasher has no random seed, so that iteration order does not differ between runs.
#[expect(clippy::disallowed_types, reason = "the hasher is a fixed one")]
pub(super) type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// What the converter remembers between records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    /// What the stream has reported so far.
    pub(super) stream: Side,
    /// What the files have reported so far.
    pub(super) files: Side,
    /// Calls that start a subagent, by the call's id.
    #[serde(with = "crate::pairs")]
    pub(super) calls: Map<Arc<str>, AgentCall>,
    /// Calls whose subagent is still unknown: prompt and id, in the order of the calls.
    pub(super) waiting: Vec<(Arc<str>, Arc<str>)>,
    /// The first prompt in each subagent's own file, by the subagent's id.
    #[serde(with = "crate::pairs")]
    pub(super) openings: Map<Arc<str>, Arc<str>>,
    /// Conversations of subagents whose lines are in the main file, by the `uuid` of each line.
    #[serde(with = "crate::pairs")]
    pub(super) sidechains: Map<u128, ConversationId>,
    /// The last reported working directory and version, so that only changes are reported.
    #[serde(rename = "told")]
    pub(super) reported: [Option<Arc<str>>; 2],
    /// Open permission requests, by the call that waits for them.
    #[serde(with = "crate::pairs")]
    pub(super) questions: Map<Arc<str>, Arc<str>>,
    /// The call that started each subagent, by the subagent's id.
    #[serde(with = "crate::pairs")]
    pub(super) agents: Map<Arc<str>, Arc<str>>,
}

/// What one kind of source has reported so far.
///
/// Stream and files are kept apart: each has its own order and its own indexes within messages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    /// The last confirmed block of each conversation.
    #[serde(with = "crate::pairs")]
    pub(super) last: Map<ConversationId, BlockId>,
    /// How many blocks of each message were emitted, by the message's id.
    #[serde(with = "crate::pairs")]
    pub(super) counts: Map<Arc<str>, u64>,
    /// Known lines, by [`key`].
    #[serde(with = "crate::pairs")]
    pub(super) lines: Map<u128, LineEntry>,
    /// Streamed blocks that no `assistant` line has confirmed yet.
    pub(super) previews: Vec<Preview>,
    /// The message that is streaming, in each conversation.
    #[serde(with = "crate::pairs")]
    pub(super) streaming: Map<ConversationId, Arc<str>>,
    /// The turns of each conversation.
    #[serde(with = "crate::pairs")]
    pub(super) turns: Map<ConversationId, Turns>,
}

/// What is remembered about one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LineEntry {
    /// Its first block, or the nearest block among its parents.
    pub(super) block: Option<BlockId>,
    /// The turn that it belongs to.
    pub(super) turn: u32,
    /// The index of its first block within the message.
    pub(super) index: u64,
}

/// The turns of a conversation, as a file records them.
///
/// A turn is a prompt with everything that follows it; turns form a tree, because a person can
/// rewind or edit.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Turns {
    /// The turn that each turn continues; turn 0 is everything before the first prompt.
    pub(super) from: Vec<u32>,
    /// The parent line of each prompt: two prompts with one parent are an edit, not a rewind.
    pub(super) parents: Vec<Option<u128>>,
    /// The model has answered since the latest prompt.
    pub(super) answered: bool,
}

impl Turns {
    /// Returns the turn of the latest prompt.
    pub(super) fn current(&self) -> u32 {
        self.from.len() as u32
    }

    /// Returns whether `turn` is on the path from the first turn to the latest prompt.
    pub(super) fn is_active(&self, turn: u32) -> bool {
        let mut at = self.current();
        // A turn continues an earlier one, so the numbers fall and the loop ends.
        while at > turn {
            at = self.from[at as usize - 1];
        }
        at == turn
    }
}

/// A streamed block that is not confirmed yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preview {
    pub(super) conversation: ConversationId,
    pub(super) message: Arc<str>,
    pub(super) index: u64,
    pub(super) block: BlockId,
    /// How many bytes of text were emitted: the offset of the next delta.
    pub(super) content: u64,
}

/// A call that starts a subagent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCall {
    pub(super) caller: ConversationId,
    pub(super) prompt: Option<Arc<str>>,
    pub(super) subagent_type: Option<Arc<str>>,
    pub(super) description: Option<Arc<str>>,
    pub(super) background: bool,
    /// The subagent's id, once it is known.
    pub(super) agent: Option<Arc<str>>,
    /// `subagent:spawned` was emitted, or is due when the call appears.
    pub(super) spawned: bool,
    /// The call failed before a subagent was started.
    pub(super) failed: bool,
}

impl Side {
    /// Returns the place of the conversation's next block: after the last one.
    pub(super) fn place(&self, conversation: &ConversationId) -> Placement {
        match self.last.get(conversation) {
            Some(block) => Placement::After(block.clone()),
            None => Placement::First,
        }
    }
}

/// Returns a `uuid` as a number, which takes less memory than its text.
pub(super) fn key(uuid: &str) -> u128 {
    let hex = uuid.bytes().filter(|byte| *byte != b'-');
    let mut number: u128 = 0;
    let mut digits = 0;
    for byte in hex {
        let Some(digit) = (byte as char).to_digit(16) else { return hash(uuid) };
        number = (number << 4) | u128::from(digit);
        digits += 1;
    }
    if digits == 32 { number } else { hash(uuid) }
}

/// Returns the 128-bit FNV-1a hash of a text.
pub(super) fn hash(text: &str) -> u128 {
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B)
    })
}

/// Returns the id of a tool call.
pub(super) fn call_id(name: &str) -> ToolUseId {
    ToolUseId::from(name)
}
