//! What the converter remembers between records, shared by the sources of one session.
//!
//! It is serialized into snapshots, so the JSON names of fields never change.

use std::hash::BuildHasherDefault;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use threadfold_core::{BlockId, ConversationId, Json, Placement, ToolUseId};
use xxhash_rust::xxh3::xxh3_128;

use super::key_map::KeyMap;
use super::repeated_history::RepeatedHistory;
use super::turn_tree::Turns;
use super::usage::StreamedUsage;
use super::waiting::{Openings, WaitingCalls};
use crate::hash_map::{Map, NameHasher};

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
    pub(super) sidechains: KeyMap<ConversationId>,
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
    #[serde(default)]
    pub(super) nameless: KeyMap<Arc<str>>,
    /// Ends of runs that are not known yet, by the call, else by the subagent's id.
    #[serde(with = "crate::pairs", default)]
    pub(super) ends: Map<Arc<str>, PendingEnd>,
    /// The session of the stream.
    #[serde(default)]
    pub(super) streamed_session: StreamedSession,
    /// The tokens that the stream has stated.
    #[serde(default)]
    pub(super) streamed_usage: StreamedUsage,
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
    pub(super) lines: KeyMap<LineEntry>,
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
