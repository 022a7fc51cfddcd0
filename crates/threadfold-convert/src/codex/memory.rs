//! What the converter remembers between records, shared by the sources of one session.
//!
//! It is serialized into snapshots, so the JSON names of fields never change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{BlockId, Json};

use super::tools::ResultReport;
use crate::hash_map::{Map, serialize_sorted};

/// What the converter remembers between records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    /// The thread whose conversation is the main one.
    pub(super) root: Option<Arc<str>>,
    /// Other threads that a person started, on the same connection.
    pub(super) strangers: BTreeSet<Arc<str>>,
    /// Warnings about threads of which nothing else is known yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) early_warnings: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// What the stream has reported of each thread. A map has room for more than its entries, and a
    /// thread is large.
    pub(super) stream: BTreeMap<Arc<str>, Box<Thread>>,
    /// What the files have reported of each thread.
    pub(super) files: BTreeMap<Arc<str>, Box<Thread>>,
    /// The state of each file, by its name within the session.
    pub(super) open_files: BTreeMap<Arc<str>, FileState>,
    /// The calls that started subagents, by the subagent's thread.
    pub(super) spawns: BTreeMap<Arc<str>, Spawn>,
    /// Ends of subagents whose call is not known yet, by thread.
    pub(super) ends: BTreeMap<Arc<str>, End>,
    /// The names that files give to what `codex exec` reports without names.
    pub(super) names: Names,
    /// Open questions of the app-server, by the id of the request.
    pub(super) questions: BTreeMap<String, Arc<str>>,
    /// The app-server writes ids of messages to its files; versions before 0.142 do not.
    pub(super) has_no_ids: bool,
    /// The histories that precede forks: the thread, and its first ordinal that is no part of it.
    pub(super) bases: BTreeMap<Arc<str>, u64>,
    /// The client's requests to go back by some turns, by their ids.
    pub(super) rollbacks: BTreeMap<String, (Arc<str>, u64)>,
    /// The client's requests to go back to before a turn, by thread.
    pub(super) going_back: BTreeMap<Arc<str>, Arc<str>>,
}

/// What one kind of source has reported of one thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread {
    /// The last block.
    pub(super) tail: Option<BlockId>,
    /// The turn's id, where the source has one.
    pub(super) turn: Option<Arc<str>>,
    /// The turn has not ended.
    pub(super) is_open: bool,
    /// How many blocks of each kind the turn has.
    pub(super) counts: BTreeMap<Arc<str>, u32>,
    /// Texts that are still streaming.
    pub(super) open: Vec<OpenText>,
    /// The last text of the model in this turn.
    pub(super) last_text: Option<Arc<str>>,
    /// The beginnings of the turns: id, ordinal, and the block before it.
    pub(super) starts: Vec<TurnStart>,
    /// Calls, by id. A long session has tens of thousands, and each record looks one up.
    #[serde(serialize_with = "serialize_sorted")]
    pub(super) calls: Map<Arc<str>, Call>,
    /// The working directory and the model, so that only changes are reported.
    pub(super) settings: BTreeMap<Arc<str>, Arc<str>>,
    /// Texts of the model that an event announced, and whose response item is due.
    pub(super) announced: Vec<Arc<str>>,
    /// Texts of the model whose event has not come yet.
    pub(super) unannounced: Vec<Arc<str>>,
    /// Reasoning that events announced, and whose response item is due.
    pub(super) announced_reasoning: Vec<Arc<str>>,
    /// A response item that may turn out to be no part of the conversation.
    pub(super) held: Option<HeldItem>,
    /// A record has reported a compaction, and its item is due.
    pub(super) has_compaction_record: bool,
    /// The last text or reasoning that an item reported, whose response item is due.
    pub(super) itemized: Option<BlockId>,
    /// A review is running, and this is the last prompt in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) review_prompt: Option<Arc<str>>,
    /// The last reasoning of a running review, until the file repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) review_reasoning: Option<Arc<str>>,
    /// The caller of this thread has seen it fail, and not succeed since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_failed: bool,
}

/// A response item that may turn out to be no part of the conversation, or to be reported again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeldItem {
    pub(super) id: Option<Arc<str>>,
    pub(super) text: Arc<str>,
    /// A text in the user role; otherwise one of the model.
    pub(super) is_user: bool,
    pub(super) timestamp: Option<Arc<str>>,
}

/// The beginning of a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnStart {
    pub(super) turn: Option<Arc<str>>,
    pub(super) ordinal: Option<u64>,
    pub(super) before: Option<BlockId>,
}

/// A text that is still streaming.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenText {
    /// The item's id.
    pub(super) item: Arc<str>,
    pub(super) block: BlockId,
    pub(super) is_reasoning: bool,
    /// The last block before it.
    pub(super) before: Option<BlockId>,
    /// How many bytes were emitted: the offset of the next delta.
    pub(super) length: u64,
}

/// A call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Call {
    pub(super) name: Arc<str>,
    /// The argument that a result needs: the patch of a call that applies one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<Arc<str>>,
    /// The arguments, until the result is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) script: Option<Arc<str>>,
    /// An item has reported the result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_item: bool,
    /// The call started a subagent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_spawn: bool,
    /// No live view lists the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_unlisted: bool,
    /// A person interrupted the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_aborted: bool,
}

/// The call that started a subagent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spawn {
    pub(super) call: Arc<str>,
    /// The thread that contains the call.
    pub(super) caller: Arc<str>,
}

/// How a subagent ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    pub(super) is_error: bool,
    pub(super) output: Option<Arc<str>>,
}

/// The state of one file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileState {
    /// The thread that the first record names.
    pub(super) thread: Option<Arc<str>>,
    /// The records are copied from another thread, up to this ordinal or to the next turn of this
    /// one.
    pub(super) copied: Option<CopiedRecords>,
    /// The file precedes a fork; records from this ordinal on are no part of it.
    pub(super) base_end: Option<u64>,
    /// The tail before the file was read, where its blocks are placed before all others.
    pub(super) is_base: bool,
    /// The file is of a review, whose calls live views report in the conversation that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) review: Option<Review>,
}

/// A review that has a file of its own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Review {
    /// The last block of the review in the conversation that asked for it.
    pub(super) tail: Option<BlockId>,
    /// How many reasonings with a summary the review has had.
    #[serde(default)]
    pub(super) reasonings: u32,
}

/// Records that were copied from another thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopiedRecords {
    /// The first ordinal that is not copied.
    pub(super) until: Option<u64>,
}

/// The names that files give to what `codex exec` reports without names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Names {
    /// Files of this session may have a stream without names.
    pub(super) is_needed: bool,
    /// The file's name for each content.
    pub(super) stored: BTreeMap<Arc<str>, StoredName>,
    /// The order of the blocks of each thread; the main one's name is empty.
    pub(super) orders: BTreeMap<Arc<str>, BlockOrder>,
    /// How often each content occurred in files.
    pub(super) stored_counts: BTreeMap<Arc<str>, u32>,
    /// The stream's own name for each content that no file has had yet.
    pub(super) streamed: BTreeSet<Arc<str>>,
    /// How often each content occurred in the stream.
    pub(super) streamed_counts: BTreeMap<Arc<str>, u32>,
    /// The items of the current process.
    pub(super) items: BTreeMap<Arc<str>, Arc<str>>,
    /// How many bytes of reasoning the stream has reported in parts, by its thread and name.
    #[serde(default)]
    pub(super) part_lengths: BTreeMap<Arc<str>, u64>,
    /// Names that the stream has not adopted yet: its own, and the files'.
    pub(super) renamings: Vec<(Arc<str>, StoredName)>,
    /// The last results of calls that no file has named yet, by the stream's name of the call.
    #[serde(default)]
    pub(super) results: VecDeque<(Arc<str>, ResultReport)>,
    /// The stream's names of calls that files have renamed, by the call's id.
    pub(super) renamed: BTreeMap<Arc<str>, Arc<str>>,
    /// The stream's names of calls that files have moved to a subagent, by the call's id.
    pub(super) moved: BTreeMap<Arc<str>, Arc<str>>,
}

/// The name of a block in the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredName {
    pub(super) name: Arc<str>,
    /// The thread of a subagent, if it is not the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) thread: Option<Arc<str>>,
    /// Which part of the block this is, if the stream reports parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<u32>,
}

/// The order of the blocks of one thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockOrder {
    /// The position of each name in the files, with room between two of them.
    pub(super) places: BTreeMap<Arc<str>, u64>,
    /// The blocks that the stream placed, by their position in the files.
    pub(super) placed: BTreeMap<u64, BlockId>,
}

impl Thread {
    /// Returns whether the source has reported anything inside the thread.
    pub(super) fn has_begun(&self) -> bool {
        self.is_open || self.tail.is_some() || !self.starts.is_empty()
    }

    /// Returns the name of the turn: its id; a constant where turns have none, and blocks are
    /// counted over the whole thread.
    pub(super) fn turn_name(&self) -> &str {
        self.turn.as_deref().unwrap_or("t")
    }

    /// Begins a turn.
    pub(super) fn begin_turn(&mut self, turn: Option<Arc<str>>, ordinal: Option<u64>) {
        let is_known = turn.is_some() && self.turn == turn;
        self.is_open = true;
        if is_known {
            return;
        }
        if turn.is_some() {
            self.counts.clear();
        }
        self.turn = turn.clone();
        self.last_text = None;
        self.unannounced.clear();
        // There may be a hundred thousand subagents with one turn.
        if self.starts.is_empty() {
            self.starts.reserve_exact(1);
        }
        self.starts.push(TurnStart { turn, ordinal, before: self.tail.clone() });
    }

    /// Returns the name of the next block of a kind: its own, or the turn's, the kind and its number.
    pub(super) fn name(&mut self, kind: &str, own: Option<&str>) -> BlockId {
        let number = self.count(kind);
        match own {
            Some(own) => BlockId::from(own),
            None => BlockId::from(format!("{}:{kind}:{number}", self.turn_name())),
        }
    }

    /// Counts one more of a kind in this turn, and returns how many there are.
    pub(super) fn count(&mut self, kind: &str) -> u32 {
        let count = self.counts.entry(kind.into()).or_default();
        *count += 1;
        *count
    }
}
