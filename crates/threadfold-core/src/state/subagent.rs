//! A subagent: its conversation, its names, and the calls that ran it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::block::BlockStatus;
use crate::event::Rank;
use crate::id::{AgentId, ConversationId, ToolUseId};
use crate::json::Json;

use super::Slot;
use super::conversation::Conversation;
use super::entry::{RANKS, is_false};

/// A subagent.
#[derive(Clone)]
pub(crate) struct Subagent {
    pub(crate) conversation: Conversation,
    pub(crate) names: Names,
    pub(crate) runs: Vec<Run>,
    /// Ranks that said its turn is over.
    pub(crate) idle: RankSet,
    /// It turned out to be another; that one has its blocks.
    pub(crate) united: bool,
}

/// What a subagent is called, beside its calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Names {
    pub(crate) agent_id: Option<AgentId>,
    /// What `agent_id` is.
    #[serde(default)]
    pub(crate) kind: NameKind,
    /// All names, without `agent-`.
    #[serde(default)]
    pub(crate) bare: Vec<Arc<str>>,
}

/// What a name is; a later kind is shown before an earlier one, whichever was heard first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NameKind {
    /// A conversation's name of which nobody said what it names.
    #[default]
    Guessed,
    /// The name that older programs gave.
    Older,
    /// The agent's own.
    Own,
}

impl Names {
    /// Says whether all that is known is a conversation's name.
    pub(crate) fn is_guess(&self) -> bool {
        self.agent_id.is_some() && self.kind == NameKind::Guessed
    }

    /// Hears a name. Of two spellings of one name the shorter is shown.
    pub(crate) fn hear(&mut self, name: &AgentId, kind: NameKind) {
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
        let bare: Arc<str> = name.bare().into();
        if !self.bare.contains(&bare) {
            self.bare.push(bare);
        }
    }
}

/// One call that ran a subagent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) tool_use_id: ToolUseId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<Ranked<Arc<str>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subagent_type: Option<Ranked<Arc<str>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<Ranked<Arc<str>>>,
    /// How it ended, by rank.
    #[serde(default)]
    pub(crate) done: [Option<Done>; 2],
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) background: bool,
    /// Ranks that said that it runs.
    #[serde(default)]
    pub(crate) said: RankSet,
    /// Ranks whose turn ended while it ran.
    #[serde(default)]
    pub(crate) idle: RankSet,
    /// The conversations in which the call stands as a block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) edges: Vec<Slot>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) failed: bool,
    pub(crate) output: Option<Json>,
    pub(crate) duration_ms: Option<u64>,
}

/// A value and the rank of who said it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ranked<T> {
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

    pub(crate) fn set(&mut self, rank: Rank, member: bool) {
        self.0[rank as usize] = member;
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Keeps what was said first, unless a higher rank says something.
pub(crate) fn fill<T>(slot: &mut Option<Ranked<T>>, rank: Rank, value: Option<T>) {
    if let Some(value) = value
        && slot.as_ref().is_none_or(|known| known.rank < rank)
    {
        *slot = Some(Ranked { rank, value });
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
            said: RankSet::default(),
            idle: RankSet::default(),
            edges: Vec::new(),
        }
    }

    /// Remembers that the call stands in a conversation.
    pub(crate) fn stands_in(&mut self, slot: Slot) {
        if !self.edges.contains(&slot) {
            self.edges.push(slot);
        }
    }

    /// Hears how the run ended.
    pub(crate) fn end(&mut self, rank: Rank, done: Done) {
        self.done[rank as usize] = Some(done);
    }

    /// Returns how the run ended, if it did.
    pub(crate) fn done(&self) -> Option<Done> {
        let [stream, transcript] = &self.done;
        match (transcript, stream) {
            (Some(top), Some(under)) => Some(Done {
                failed: top.failed,
                output: top.output.clone().or_else(|| under.output.clone()),
                duration_ms: top.duration_ms.or(under.duration_ms),
            }),
            (only, None) | (None, only) => only.clone(),
        }
    }

    pub(crate) fn unite(&mut self, other: Run) {
        for (mine, its) in [
            (&mut self.prompt, other.prompt),
            (&mut self.subagent_type, other.subagent_type),
            (&mut self.description, other.description),
        ] {
            if let Some(its) = its {
                fill(mine, its.rank, Some(its.value));
            }
        }
        for (mine, its) in self.done.iter_mut().zip(other.done) {
            *mine = its.or(mine.take());
        }
        self.background |= other.background;
        other.edges.into_iter().for_each(|slot| self.stands_in(slot));
        for rank in RANKS {
            self.said.set(rank, self.said.has(rank) || other.said.has(rank));
            self.idle.set(rank, self.idle.has(rank) || other.idle.has(rank));
        }
    }

    fn closing(&self) -> (BlockStatus, bool) {
        match self.done() {
            Some(Done { failed: true, .. }) => (BlockStatus::Error, false),
            Some(_) => (BlockStatus::Success, false),
            None if !self.idle.is_empty() => (BlockStatus::Error, true),
            None => (BlockStatus::Running, false),
        }
    }
}

/// A run as its block in the caller's conversation shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunShown {
    pub(crate) tool_use_id: ToolUseId,
    pub(crate) agent_id: Option<AgentId>,
    pub(crate) subagent_type: Option<Arc<str>>,
    pub(crate) description: Option<Arc<str>>,
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
            idle: RankSet::default(),
            united: false,
        }
    }

    pub(crate) fn run(&self, call: &ToolUseId) -> Option<&Run> {
        self.runs.iter().find(|run| run.tool_use_id == *call)
    }

    pub(crate) fn run_mut(&mut self, call: &ToolUseId) -> &mut Run {
        let place = match self.runs.iter().position(|run| run.tool_use_id == *call) {
            Some(place) => place,
            None => {
                self.runs.push(Run::of(call.clone()));
                self.runs.len() - 1
            }
        };
        &mut self.runs[place]
    }

    pub(crate) fn show_run(&self, call: &ToolUseId) -> Option<RunShown> {
        let run = self.run(call)?;
        let (status, interrupted) = run.closing();
        let done = run.done();
        Some(RunShown {
            tool_use_id: run.tool_use_id.clone(),
            agent_id: self.names.agent_id.clone(),
            subagent_type: value(&run.subagent_type),
            description: value(&run.description),
            prompt: value(&run.prompt),
            output: done.as_ref().and_then(|done| done.output.clone()),
            duration_ms: done.and_then(|done| done.duration_ms),
            status,
            interrupted,
        })
    }

    /// Returns all that is shown of the subagent but its blocks.
    pub(crate) fn header(&self) -> SubagentHeader {
        let runs: Vec<_> = self.runs.iter().map(run_header).collect();
        let latest = runs.last().cloned();
        SubagentHeader {
            tool_use_id: latest.as_ref().map(|run| run.tool_use_id.clone()),
            agent_id: self.names.agent_id.clone(),
            status: latest.as_ref().map_or(self.idle_status(), |run| run.status),
            prompt: latest.as_ref().and_then(|run| run.prompt.clone()),
            output: latest.as_ref().and_then(|run| run.output.clone()),
            duration_ms: latest.as_ref().and_then(|run| run.duration_ms),
            runs: if runs.len() > 1 { runs } else { Vec::new() },
        }
    }

    /// Nobody called it, so nobody waits for its answer: the end of its turn is its end.
    fn idle_status(&self) -> BlockStatus {
        if self.idle.is_empty() { BlockStatus::Running } else { BlockStatus::Success }
    }
}

fn run_header(run: &Run) -> RunHeader {
    let done = run.done();
    RunHeader {
        tool_use_id: run.tool_use_id.clone(),
        prompt: value(&run.prompt),
        status: run.closing().0,
        output: done.as_ref().and_then(|done| done.output.clone()),
        duration_ms: done.and_then(|done| done.duration_ms),
    }
}

fn value<T: Clone>(ranked: &Option<Ranked<T>>) -> Option<T> {
    ranked.as_ref().map(|ranked| ranked.value.clone())
}

/// All that a state shows of a subagent but its blocks.
///
/// The fields beside `runs` are those of the latest call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentHeader {
    /// The call; absent where nobody called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<ToolUseId>,
    /// The subagent's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// How far it has come.
    pub status: BlockStatus,
    /// What it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Arc<str>>,
    /// What it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Every call, where there was more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunHeader>,
}

/// One of several calls that ran a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunHeader {
    /// The call.
    pub tool_use_id: ToolUseId,
    /// What it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Arc<str>>,
    /// How far it has come.
    pub status: BlockStatus,
    /// What was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}
