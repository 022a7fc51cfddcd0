//! What the converter remembers between records, shared by the sources of one session.
//!
//! It is serialized into snapshots, so the JSON names of fields never change.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use threadfold_core::{BlockId, ConversationId, Json, Placement, ToolUseId};
use xxhash_rust::xxh3::xxh3_128;

use super::repeated_history::RepeatedHistory;
use super::waiting::{Openings, WaitingCalls};
use crate::hash_map::{Map, NameHasher};

/// A map whose keys are hashes, which need not be hashed again, in the order of insertion: a
/// snapshot of it begins like the one before, and deduplicated pieces of it are stored once.
pub(super) type HashKeyMap<V> = IndexMap<u128, V, BuildHasherDefault<KeyHasher>>;

/// Returns both halves of a key as one number.
#[derive(Clone, Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Keys are written as numbers; anything else is mixed in byte by byte.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, key: u128) {
        self.0 ^= (key >> 64) as u64 ^ key as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

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
    /// Calls whose subagent is still unknown.
    pub(super) waiting: WaitingCalls,
    /// The first prompt in each subagent's own file.
    pub(super) openings: Openings,
    /// Conversations of subagents whose lines are in the main file, by the `uuid` of each line.
    #[serde(with = "crate::pairs::in_order")]
    pub(super) sidechains: HashKeyMap<ConversationId>,
    /// The last reported working directory and version, so that only changes are reported.
    #[serde(rename = "told")]
    pub(super) reported: [Option<Arc<str>>; 2],
    /// Open permission requests, by the call that waits for them.
    #[serde(with = "crate::pairs")]
    pub(super) questions: Map<Arc<str>, Arc<str>>,
    /// The call that started each subagent, by the subagent's id.
    #[serde(with = "crate::pairs")]
    pub(super) agents: Map<Arc<str>, Arc<str>>,
    /// What the files contained so far, to recognize repeated history.
    #[serde(default)]
    pub(super) retellings: RepeatedHistory,
    /// Calls without an id, by the line that contains the only one.
    #[serde(with = "crate::pairs::in_order", default)]
    pub(super) nameless: HashKeyMap<Arc<str>>,
    /// Ends of runs that are not known yet, by the call, else by the subagent's id.
    #[serde(with = "crate::pairs", default)]
    pub(super) ends: Map<Arc<str>, PendingEnd>,
    /// The session of the stream.
    #[serde(default)]
    pub(super) streamed_session: StreamedSession,
    /// The main file has ended.
    #[serde(default)]
    pub(super) is_main_ended: bool,
}

/// The session that a stream names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StreamedSession {
    pub(super) name: Option<Arc<str>>,
    /// It is another one than before, and no message has shown why.
    pub(super) is_unexplained: bool,
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
    #[serde(with = "crate::pairs::in_order")]
    pub(super) counts: IndexMap<Arc<str>, u64, BuildHasherDefault<NameHasher>>,
    /// Known lines, by [`key`].
    #[serde(with = "crate::pairs::in_order")]
    pub(super) lines: HashKeyMap<LineEntry>,
    /// Streamed blocks that no `assistant` line has confirmed yet.
    pub(super) previews: Vec<Preview>,
    /// The message that is streaming, in each conversation.
    #[serde(with = "crate::pairs")]
    pub(super) streaming: Map<ConversationId, Arc<str>>,
    /// The turns of each conversation.
    #[serde(with = "crate::pairs")]
    pub(super) turns: Map<ConversationId, Turns>,
    /// The latest message in each conversation whose end was streamed.
    #[serde(with = "crate::pairs", default)]
    pub(super) ended: Map<ConversationId, Arc<str>>,
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
    /// The telling of the history that it belongs to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) telling: u32,
    /// It contains what another record contained before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) retold: bool,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
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
    /// The parent line of each prompt, as [`short_key`]: two prompts with one parent are an edit,
    /// not a rewind.
    pub(super) parents: Vec<u64>,
    /// The model has answered since the latest prompt.
    pub(super) answered: bool,
    /// What makes looking up fast; computed from the fields above.
    #[serde(skip)]
    lookup: Option<Box<TurnLookup>>,
}

/// How many turns are walked through as fast as they are looked up. Most subagents have one.
const FEW_TURNS: usize = 8;

/// Answers questions about turns without walking through all of them.
#[derive(Debug, Default, Clone)]
struct TurnLookup {
    /// For each turn, from turn 0: how many turns it continues, and an earlier one of those. The
    /// distances are chosen so that any of them is found in a logarithmic number of jumps.
    jumps: Vec<(u32, u32)>,
    /// The parents of all prompts.
    parents: Map<u64, ()>,
}

impl TurnLookup {
    fn push(&mut self, from: u32, parent: u64) {
        if self.jumps.is_empty() {
            self.jumps.push((0, 0));
        }
        let (depth, near) = self.jumps[from as usize];
        let (near_depth, far) = self.jumps[near as usize];
        let is_even = depth - near_depth == near_depth - self.jumps[far as usize].0;
        self.jumps.push((depth + 1, if is_even { far } else { from }));
        self.parents.insert(parent, ());
    }
}

impl Turns {
    /// Returns the turn of the latest prompt.
    pub(super) fn current(&self) -> u32 {
        self.from.len() as u32
    }

    /// Adds the turn of a prompt that continues `from`, and returns its number.
    pub(super) fn begin(&mut self, from: u32, parent: Option<u128>) -> u32 {
        if self.from.is_empty() {
            self.from.reserve_exact(1);
            self.parents.reserve_exact(1);
        }
        self.from.push(from);
        self.parents.push(short_key(parent));
        if self.from.len() > FEW_TURNS {
            // The first time, and after a restore, all turns are new to the lookup.
            let lookup = self.lookup.get_or_insert_default();
            let known = lookup.jumps.len().saturating_sub(1);
            for (from, parent) in self.from[known..].iter().zip(&self.parents[known..]) {
                lookup.push(*from, *parent);
            }
        }
        self.answered = false;
        self.current()
    }

    /// Lets `turn` continue the one before it, whatever it continued.
    pub(super) fn rejoin(&mut self, turn: u32) {
        let Some(before) = turn.checked_sub(1) else { return };
        if let Some(from) = self.from.get_mut(before as usize) {
            *from = before;
        }
        // The rest is looked up again when the next turn begins.
        if let Some(lookup) = &mut self.lookup {
            lookup.jumps.truncate(turn as usize);
        }
    }

    /// Returns whether there is one prompt, and no line above it.
    pub(super) fn is_first_alone(&self) -> bool {
        self.parents == [0]
    }

    /// Returns whether a prompt hangs below this line.
    pub(super) fn has_prompt_below(&self, parent: Option<u128>) -> bool {
        let parent = short_key(parent);
        match self.complete_lookup() {
            Some(lookup) => lookup.parents.contains_key(&parent),
            None => self.parents.contains(&parent),
        }
    }

    /// Returns whether `turn` is on the path from the first turn to the latest prompt.
    pub(super) fn is_active(&self, turn: u32) -> bool {
        let lookup = self.complete_lookup();
        let mut at = self.current();
        // A turn continues an earlier one, so the numbers fall and the loop ends.
        while at > turn {
            let jump = lookup.map_or(0, |it| it.jumps[at as usize].1);
            at = if jump >= turn && jump > 0 { jump } else { self.from[at as usize - 1] };
        }
        at == turn
    }

    fn complete_lookup(&self) -> Option<&TurnLookup> {
        self.lookup.as_deref().filter(|it| it.jumps.len() == self.from.len() + 1)
    }
}

/// Returns part of a line's key; 0 if there is no line. A session may have very many prompts of a
/// few bytes, so little is held of each.
fn short_key(line: Option<u128>) -> u64 {
    line.map_or(0, |key| (key as u64).max(1))
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
    /// The conversation that contains the call, once it is known.
    pub(super) caller: Option<ConversationId>,
    pub(super) prompt: Option<Arc<str>>,
    pub(super) subagent_type: Option<Arc<str>>,
    pub(super) description: Option<Arc<str>>,
    pub(super) background: bool,
    /// The subagent's id, once it is known.
    pub(super) agent: Option<Arc<str>>,
    /// `subagent:spawned` was emitted, or is due when the call appears.
    pub(super) spawned: bool,
    /// `subagent:spawned` was emitted.
    #[serde(default)]
    pub(super) reported: bool,
    /// The answer to a call that a person interrupted. It shows whether a subagent had been started
    /// only if its file is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interruption: Option<Json>,
    /// The call is a message to a subagent, and runs it again if it had finished.
    #[serde(default)]
    pub(super) resumes: bool,
}

/// How a run ended, reported before the run itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingEnd {
    pub(super) is_error: bool,
    pub(super) output: Option<Json>,
    pub(super) duration_ms: Option<u64>,
}

impl Memory {
    /// Remembers the call that started a subagent.
    pub(super) fn link_agent(&mut self, agent: Arc<str>, call: Arc<str>) {
        self.openings.link(&agent);
        self.agents.insert(agent, call);
    }
}

impl LineEntry {
    /// Returns the entry of a line of the stream, which has no turns.
    pub(super) fn of_stream(block: Option<BlockId>, index: u64) -> Self {
        Self { block, turn: 0, index, telling: 0, retold: false }
    }
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

/// Returns the hash of a `uuid` or another text, which takes less memory. It is a fast one, because
/// every line looks several up.
pub(super) fn key(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}

/// Returns the id of a tool call.
pub(super) fn call_id(name: &str) -> ToolUseId {
    ToolUseId::from(name)
}
