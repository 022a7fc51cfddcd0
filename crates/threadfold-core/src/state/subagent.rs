//! A subagent: its conversation, its names, and the calls that ran it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::block::BlockStatus;
use crate::event::Rank;
use crate::id::{AgentId, ConversationId, ToolUseId, is_call_name};
use crate::json::Json;

use super::Slot;
use super::conversation::Conversation;
use super::entry::is_false;

/// A subagent.
#[derive(Clone)]
pub(crate) struct Subagent {
    pub(crate) conversation: Conversation,
    pub(crate) names: Names,
    pub(crate) runs: Vec<Run>,
    /// The ranks that reported a block of its conversation.
    pub(crate) active: RankSet,
    /// The ranks that reported the end of its turn.
    pub(crate) idle: RankSet,
    /// It was merged into another subagent, which now holds its blocks.
    pub(crate) united: bool,
    /// A source marked it as a helper of the agent itself.
    pub(crate) internal: bool,
}

/// The names of a subagent, besides its call ids.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Names {
    pub(crate) agent_id: Option<AgentId>,
    /// The kind of `agent_id`.
    #[serde(default)]
    pub(crate) kind: NameKind,
    /// All names, without `agent-`.
    #[serde(default)]
    pub(crate) bare: Vec<Arc<str>>,
}

/// The kind of a name. A later kind is preferred over an earlier one, whichever was reported first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NameKind {
    /// A conversation's name, of unknown kind.
    #[default]
    Guessed,
    /// An id from an older version.
    Older,
    /// The agent's own id.
    Own,
}

impl Names {
    /// Returns true if only a conversation's name is known.
    pub(crate) fn is_guess(&self) -> bool {
        self.agent_id.is_some() && self.kind == NameKind::Guessed
    }

    /// Adds a name. The shorter of two spellings is shown.
    pub(crate) fn add(&mut self, name: &AgentId, kind: NameKind) {
        match &self.agent_id {
            Some(known) if known.bare() == name.bare() => {
                if name.as_str().len() < known.as_str().len() {
                    self.agent_id = Some(name.clone());
                }
                self.kind = self.kind.max(kind);
            }
            Some(_) if kind <= self.kind => {}
            _ => {
                self.agent_id = Some(name.clone());
                self.kind = kind;
            }
        }
        let bare = name.to_bare();
        if !self.bare.contains(&bare) {
            push_exactly(&mut self.bare, bare);
        }
    }
}

/// One call that ran a subagent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) tool_use_id: ToolUseId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<RankedValue<Arc<str>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subagent_type: Option<RankedValue<Arc<str>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<RankedValue<Arc<str>>>,
    /// How the run ended, by rank.
    #[serde(default)]
    pub(crate) done: [Option<Box<RunEnd>>; 2],
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) background: bool,
    /// The ranks that reported the run. Snapshots keep the field under its old name.
    #[serde(rename = "said", default)]
    pub(crate) reported: RankSet,
    /// The ranks whose turn ended during the run.
    #[serde(default)]
    pub(crate) idle: RankSet,
    /// The conversations that contain the call as a block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) edges: Vec<Slot>,
    /// When the run was reported first, by the clock of that source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<RankedValue<Arc<str>>>,
    /// The place of the run among all runs of the session, by rank.
    #[serde(default)]
    pub(crate) order: [Option<u32>; 2],
    /// A run that contains the call was interrupted. Derived, see `state::interruption`.
    #[serde(skip)]
    pub(crate) is_cut_off: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunEnd {
    pub(crate) failed: bool,
    pub(crate) output: Option<Json>,
    pub(crate) duration_ms: Option<u64>,
}

/// A value, and the rank that reported it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankedValue<T> {
    pub(crate) rank: Rank,
    pub(crate) value: T,
}

/// A set of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RankSet([bool; 2]);

impl RankSet {
    pub(crate) fn has(self, rank: Rank) -> bool {
        self.0[rank as usize]
    }

    pub(crate) fn insert(&mut self, rank: Rank) {
        self.0[rank as usize] = true;
    }

    pub(crate) fn remove(&mut self, rank: Rank) {
        self.0[rank as usize] = false;
    }

    pub(crate) fn extend(&mut self, other: Self) {
        let [stream, transcript] = other.0;
        self.0[0] |= stream;
        self.0[1] |= transcript;
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Appends to a list that seldom gets a second item, without room for four: a session may have
/// hundreds of thousands of subagents.
fn push_exactly<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// Keeps the first value, unless a higher rank reports one.
pub(crate) fn fill<T>(slot: &mut Option<RankedValue<T>>, rank: Rank, value: Option<T>) {
    if let Some(value) = value
        && slot.as_ref().is_none_or(|known| known.rank < rank)
    {
        *slot = Some(RankedValue { rank, value });
    }
}

impl Run {
    pub(crate) fn of(tool_use_id: ToolUseId) -> Self {
        Self {
            tool_use_id,
            prompt: None,
            subagent_type: None,
            description: None,
            done: [None, None],
            background: false,
            reported: RankSet::default(),
            idle: RankSet::default(),
            edges: Vec::new(),
            time: None,
            order: [None, None],
            is_cut_off: false,
        }
    }

    /// Returns the key that runs are sorted by: the transcript's order, then the stream's.
    fn sort_key(&self) -> (bool, Option<u32>, Option<u32>) {
        let [stream, transcript] = self.order;
        (transcript.is_none(), transcript, stream)
    }

    /// Records that a conversation contains the call.
    pub(crate) fn add_edge(&mut self, slot: Slot) {
        if !self.edges.contains(&slot) {
            push_exactly(&mut self.edges, slot);
        }
    }

    /// Records how the run ended.
    pub(crate) fn end(&mut self, rank: Rank, done: RunEnd) {
        self.done[rank as usize] = Some(Box::new(done));
    }

    /// Returns how the run ended, if it did.
    pub(crate) fn done(&self) -> Option<RunEnd> {
        let [stream, transcript] = &self.done;
        match (transcript, stream) {
            (Some(top), Some(under)) => Some(RunEnd {
                failed: top.failed,
                output: top.output.clone().or_else(|| under.output.clone()),
                duration_ms: top.duration_ms.or(under.duration_ms),
            }),
            (only, None) | (None, only) => only.as_deref().cloned(),
        }
    }

    pub(crate) fn unite(&mut self, other: Run) {
        for (mine, its) in [
            (&mut self.prompt, other.prompt),
            (&mut self.subagent_type, other.subagent_type),
            (&mut self.description, other.description),
            (&mut self.time, other.time),
        ] {
            if let Some(its) = its {
                fill(mine, its.rank, Some(its.value));
            }
        }
        for (mine, its) in self.done.iter_mut().zip(other.done) {
            *mine = its.or(mine.take());
        }
        for (mine, its) in self.order.iter_mut().zip(other.order) {
            *mine = match (*mine, its) {
                (Some(mine), Some(its)) => Some(mine.min(its)),
                (only, None) | (None, only) => only,
            };
        }
        self.background |= other.background;
        other.edges.into_iter().for_each(|slot| self.add_edge(slot));
        self.reported.extend(other.reported);
        self.idle.extend(other.idle);
    }

    /// Returns the status, and whether the run was interrupted.
    ///
    /// A run without an answer is interrupted by the end of its caller's turn. One that nobody
    /// waits for, because it runs in the background or its caller is unknown, is interrupted by the
    /// end of its own turn (`own_idle`).
    fn closing(&self, own_idle: RankSet) -> (BlockStatus, bool) {
        let is_cut_off = self.is_cut_off && !self.background;
        match self.done() {
            Some(RunEnd { failed: true, .. }) => (BlockStatus::Error, false),
            Some(_) => (BlockStatus::Success, false),
            None if is_cut_off || self.is_interrupted_by_itself(own_idle) => {
                (BlockStatus::Error, true)
            }
            None => (BlockStatus::Running, false),
        }
    }

    /// Returns whether the run is interrupted, whatever happened to the runs that contain it.
    pub(crate) fn is_interrupted_by_itself(&self, own_idle: RankSet) -> bool {
        let by_caller = !self.background && !self.idle.is_empty();
        let is_awaited = !self.background && !self.edges.is_empty();
        self.done().is_none() && (by_caller || (!is_awaited && !own_idle.is_empty()))
    }
}

/// A run, as its block in the caller's conversation shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunView {
    pub(crate) tool_use_id: ToolUseId,
    pub(crate) agent_id: Option<AgentId>,
    pub(crate) subagent_type: Option<Arc<str>>,
    pub(crate) description: Option<Arc<str>>,
    pub(crate) time: Option<Arc<str>>,
    pub(crate) prompt: Option<Arc<str>>,
    pub(crate) output: Option<Json>,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) status: BlockStatus,
    pub(crate) interrupted: bool,
}

impl Subagent {
    pub(crate) fn nameless() -> Self {
        Self {
            conversation: Conversation::named(ConversationId::from("")),
            names: Names::default(),
            runs: Vec::new(),
            active: RankSet::default(),
            idle: RankSet::default(),
            united: false,
            internal: false,
        }
    }

    pub(crate) fn run(&self, call: &ToolUseId) -> Option<&Run> {
        self.runs.iter().find(|run| run.tool_use_id == *call)
    }

    pub(crate) fn run_mut(&mut self, call: &ToolUseId) -> &mut Run {
        let place = match self.runs.iter().position(|run| run.tool_use_id == *call) {
            Some(place) => place,
            None => {
                push_exactly(&mut self.runs, Run::of(call.clone()));
                self.runs.len() - 1
            }
        };
        &mut self.runs[place]
    }

    pub(crate) fn show_run(&self, call: &ToolUseId) -> Option<RunView> {
        let run = self.run(call)?;
        let (status, interrupted) = run.closing(self.idle);
        let done = run.done();
        Some(RunView {
            tool_use_id: run.tool_use_id.clone(),
            agent_id: self.names.agent_id.clone(),
            subagent_type: value(&run.subagent_type),
            description: value(&run.description),
            time: value(&run.time),
            prompt: value(&run.prompt),
            output: done.as_ref().and_then(|done| done.output.clone()),
            duration_ms: done.and_then(|done| done.duration_ms),
            status,
            interrupted,
        })
    }

    /// Returns whether a source of this rank reported the subagent. If none did, it cannot report the
    /// end of its turn either, whatever sources of another rank know.
    pub(crate) fn is_reported_by(&self, rank: Rank) -> bool {
        self.active.has(rank) || self.runs.iter().any(|run| run.reported.has(rank))
    }

    /// Records that a source of this rank reported a run. `order` is its place among all runs.
    pub(crate) fn order_run(&mut self, call: &ToolUseId, rank: Rank, order: u32) {
        let place = &mut self.run_mut(call).order[rank as usize];
        if place.is_none() {
            *place = Some(order);
            self.sort_runs();
        }
    }

    /// Sorts the runs, because the order of arrival depends on how the sources are interleaved.
    pub(crate) fn sort_runs(&mut self) {
        self.runs.sort_by_key(Run::sort_key);
    }

    /// Returns the call that the conversation was named after, before any run was reported.
    pub(crate) fn call_by_name(&self) -> Option<ToolUseId> {
        let name = self.names.agent_id.as_ref().filter(|_| self.names.is_guess())?;
        (self.runs.is_empty() && is_call_name(name.as_str())).then(|| name.as_str().into())
    }

    /// Returns everything about the subagent except its blocks.
    pub(crate) fn header(&self) -> SubagentHeader {
        let runs: Vec<_> = self.runs.iter().map(|run| run_header(run, self.idle)).collect();
        let latest = runs.last().cloned();
        let by_name = self.call_by_name();
        let is_named_by_call = by_name.is_some();
        SubagentHeader {
            tool_use_id: latest.as_ref().map(|run| run.tool_use_id.clone()).or(by_name),
            agent_id: self.names.agent_id.clone().filter(|_| !is_named_by_call),
            unplaced: is_named_by_call || self.runs.last().is_some_and(|run| run.edges.is_empty()),
            status: latest.as_ref().map_or(self.idle_status(), |run| run.status),
            prompt: latest.as_ref().and_then(|run| run.prompt.clone()),
            output: latest.as_ref().and_then(|run| run.output.clone()),
            duration_ms: latest.as_ref().and_then(|run| run.duration_ms),
            runs: if runs.len() > 1 { runs } else { Vec::new() },
            // The model asked for a subagent that has a call, so it is part of the conversation.
            internal: self.internal && latest.is_none() && !is_named_by_call,
        }
    }

    /// Returns the status of a subagent without a caller. No call waits for its answer, so the end
    /// of its turn ends it.
    fn idle_status(&self) -> BlockStatus {
        if self.idle.is_empty() { BlockStatus::Running } else { BlockStatus::Success }
    }
}

fn run_header(run: &Run, own_idle: RankSet) -> RunHeader {
    let done = run.done();
    RunHeader {
        tool_use_id: run.tool_use_id.clone(),
        prompt: value(&run.prompt),
        status: run.closing(own_idle).0,
        output: done.as_ref().and_then(|done| done.output.clone()),
        duration_ms: done.and_then(|done| done.duration_ms),
    }
}

fn value<T: Clone>(ranked: &Option<RankedValue<T>>) -> Option<T> {
    ranked.as_ref().map(|ranked| ranked.value.clone())
}

/// Everything that a state shows about a subagent except its blocks.
///
/// All fields except `runs` describe the latest call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentHeader {
    /// The call; absent if the subagent has no caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<ToolUseId>,
    /// The subagent's own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// A call started the subagent, but no conversation is known to contain that call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unplaced: bool,
    /// The status of the run.
    pub status: BlockStatus,
    /// The prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Arc<str>>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
    /// How long the run took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// All calls, if there was more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunHeader>,
    /// It is a helper of the agent itself, which nobody called: a prompt suggestion, a compaction,
    /// a side question. Views and counts leave it out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub internal: bool,
}

/// One of several calls that ran a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunHeader {
    /// The call.
    pub tool_use_id: ToolUseId,
    /// The prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Arc<str>>,
    /// The status of the run.
    pub status: BlockStatus,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
    /// How long the run took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}
