//! The state: the conversations of a session after the events so far.
//!
//! Cloning a state is O(1), and old states stay valid. Two things keep a step cheap even while
//! someone holds the previous state: trees that share structure, and open texts that live outside
//! the trees (see `open`), so that a delta touches no tree and no map.

use std::borrow::Cow;
use std::sync::Arc;

use imbl::{OrdSet, Vector};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::id::{BlockId, ConversationId, ToolUseId, bare_agent_name};

mod block_index;
mod compare;
mod conversation;
mod entry;
mod interruption;
mod left_path;
mod open;
mod order;
mod sequence;
mod snapshot;
mod spill;
mod subagent;
mod view;

pub(crate) use conversation::{Conversation, Map};
pub(crate) use entry::{Entry, Facts, RANKS};
pub(crate) use interruption::CacheTrust;
pub(crate) use open::{OPEN_LIMIT, OpenText, OpenTexts};
pub(crate) use order::Occurrence;
pub use snapshot::{SnapshotError, SnapshotPart, StateOutline, StateSnapshot};
pub(crate) use spill::BlockHashes;
pub use spill::SpillStore;
pub(crate) use subagent::{NameKind, RankedValue, Run, RunEnd, RunView, Subagent, fill};
pub use subagent::{RunHeader, SubagentHeader};
pub use view::{Blocks, SubagentRef};

/// The conversations of a session: the main one, and one per subagent.
///
/// Only [`reduce`](crate::reduce) changes a state.
///
/// ```
/// use threadfold_core::{ConversationState, SessionEvent, fold};
///
/// let event = SessionEvent::from_json(
///     r#"{"type":"block:upsert","payload":{"block":{"id":"b1","type":"assistant_text",
///        "status":"complete","content":"Hello"}},"context":{"conversationId":"main"}}"#,
/// )?;
/// let state: ConversationState = fold([&event]);
/// assert_eq!(state.blocks().len(), 1);
/// # Ok::<(), threadfold_core::DecodeError>(())
/// ```
#[derive(Clone)]
pub struct ConversationState {
    pub(crate) settled: Arc<SettledState>,
    pub(crate) open: Arc<OpenTexts>,
    /// The length of each open text in this state.
    pub(crate) lengths: [u32; OPEN_LIMIT],
    /// The open text that grew last. The next delta is usually for it or for the one after it, so
    /// the search starts here.
    pub(crate) latest: u8,
}

/// Everything except the lengths of open texts.
#[derive(Clone)]
pub(crate) struct SettledState {
    pub(crate) main: Conversation,
    pub(crate) subagents: Vector<Arc<Subagent>>,
    /// Maps a call to the subagent that it ran.
    pub(crate) calls: Map<ToolUseId, usize>,
    /// Maps a name without `agent-` to a subagent.
    pub(crate) names: Map<Arc<str>, usize>,
    /// Maps a tool call to the subagents' conversations that contain it. A conversation may have
    /// lost the call since.
    pub(crate) callers: Map<ToolUseId, Vec<Slot>>,
    /// Pairs of subagents, of which the first one's conversation contains a call of the second.
    /// It may have lost the call since. Derived from the runs.
    pub(crate) inside: OrdSet<(usize, usize)>,
    /// How many runs each rank has reported.
    pub(crate) run_counts: [u32; 2],
    /// The subagents that may have changed since the last spill; `None` if nothing was ever spilled.
    pub(crate) changed: Option<OrdSet<usize>>,
}

/// Identifies a conversation within a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Slot {
    Main,
    Subagent(usize),
}

impl ConversationState {
    /// Returns the blocks of the main conversation.
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks::new(self, Slot::Main)
    }

    /// Returns the blocks of a conversation, by any of its names.
    pub fn conversation(&self, name: &ConversationId) -> Option<Blocks<'_>> {
        self.settled.resolve(name).map(|slot| Blocks::new(self, slot))
    }

    /// Returns a block of a conversation.
    pub fn block(&self, conversation: &ConversationId, id: &BlockId) -> Option<Cow<'_, Block>> {
        self.conversation(conversation)?.find(id)
    }

    /// Returns the subagents in the order of their calls, each followed by those that it called.
    /// Subagents without a caller come last.
    pub fn subagents(&self) -> Vec<SubagentRef<'_>> {
        let order = self.settled.order();
        order.into_iter().map(|index| SubagentRef::new(self, index)).collect()
    }

    /// Returns a subagent by any of its names. A call id takes precedence.
    pub fn subagent(&self, name: &ConversationId) -> Option<SubagentRef<'_>> {
        match self.settled.resolve(name)? {
            Slot::Main => None,
            Slot::Subagent(index) => Some(SubagentRef::new(self, index)),
        }
    }

    pub(crate) fn settled_mut(&mut self) -> &mut SettledState {
        Arc::make_mut(&mut self.settled)
    }
}

impl Default for ConversationState {
    /// Returns the empty state.
    fn default() -> Self {
        let settled = SettledState {
            main: Conversation::named(ConversationId::main()),
            subagents: Vector::new(),
            calls: Map::default(),
            names: Map::default(),
            callers: Map::default(),
            inside: OrdSet::new(),
            run_counts: [0; 2],
            changed: None,
        };
        Self {
            settled: Arc::new(settled),
            open: Arc::default(),
            lengths: [0; OPEN_LIMIT],
            latest: 0,
        }
    }
}

impl SettledState {
    /// Returns the conversation with this name. A call id takes precedence over other names.
    pub(crate) fn resolve(&self, name: &ConversationId) -> Option<Slot> {
        if name.is_main() {
            return Some(Slot::Main);
        }
        self.calls
            .get(name.as_str())
            .or_else(|| self.names.get(bare_agent_name(name.as_str())))
            .map(|&index| Slot::Subagent(index))
    }

    pub(crate) fn conversation(&self, slot: Slot) -> &Conversation {
        match slot {
            Slot::Main => &self.main,
            Slot::Subagent(index) => &self.subagents[index].conversation,
        }
    }

    pub(crate) fn conversation_mut(&mut self, slot: Slot) -> &mut Conversation {
        match slot {
            Slot::Main => &mut self.main,
            Slot::Subagent(index) => &mut self.subagent_mut(index).conversation,
        }
    }

    pub(crate) fn subagent_mut(&mut self, index: usize) -> &mut Subagent {
        if let Some(changed) = &mut self.changed
            && !changed.contains(&index)
        {
            changed.insert(index);
        }
        Arc::make_mut(&mut self.subagents[index])
    }

    /// Returns the conversations that contain this call as a block of their own.
    pub(crate) fn conversations_with(&self, call: &ToolUseId) -> Vec<Slot> {
        let others = self.callers.get(call).into_iter().flatten().copied();
        let slots = std::iter::once(Slot::Main).chain(others);
        slots.filter(|&slot| self.conversation(slot).reported_call(call).is_some()).collect()
    }

    /// Records that a subagent's conversation contains a call. The main conversation is not
    /// recorded, because looking there is as cheap as looking here.
    pub(crate) fn note_caller(&mut self, call: &ToolUseId, slot: Slot) {
        let is_known = |slots: &Vec<Slot>| slots.contains(&slot);
        if slot != Slot::Main && !self.callers.get(call).is_some_and(is_known) {
            self.callers.entry(call.clone()).or_default().push(slot);
        }
    }

    /// Records that a conversation contains a call of a subagent.
    pub(crate) fn add_edge(&mut self, index: usize, call: &ToolUseId, slot: Slot) {
        self.subagent_mut(index).run_mut(call).add_edge(slot);
        if let Slot::Subagent(caller) = slot {
            self.inside.insert((caller, index));
        }
    }

    /// Returns the subagents that a subagent's conversation calls, and some that it called before.
    pub(crate) fn called_inside(&self, caller: usize) -> Vec<usize> {
        let inside = self.inside.range((caller, 0)..=(caller, usize::MAX));
        inside.map(|&(_, index)| index).collect()
    }

    /// Returns the view of the run that this call started.
    pub(crate) fn run(&self, call: Option<&ToolUseId>) -> Option<RunView> {
        let call = call?;
        self.subagents[*self.calls.get(call)?].show_run(call)
    }

    /// Returns the subagents called from `slot`, in the order of their blocks.
    pub(crate) fn called_from(&self, slot: Slot) -> Vec<usize> {
        let conversation = self.conversation(slot);
        let edges = conversation.all_edges().into_iter();
        edges.filter_map(|at| self.called_by(&conversation.at(at)?.shown())).collect()
    }

    fn called_by(&self, block: &Block) -> Option<usize> {
        let crate::block::BlockBody::Subagent(edge) = &block.body else {
            return None;
        };
        let by_call = edge.tool_use_id.as_ref().and_then(|call| self.calls.get(call));
        let by_name = || edge.agent_id.as_ref().and_then(|agent| self.names.get(agent.bare()));
        by_call.or_else(by_name).copied()
    }

    /// Returns all subagents in the order in which the state shows them.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut seen = vec![false; self.subagents.len()];
        let mut order = Vec::with_capacity(self.subagents.len());
        let mut waiting = self.called_from(Slot::Main);
        waiting.reverse();
        while let Some(index) = waiting.pop() {
            if std::mem::replace(&mut seen[index], true) {
                continue;
            }
            order.push(index);
            waiting.extend(self.called_from(Slot::Subagent(index)).into_iter().rev());
        }
        let mut uncalled: Vec<_> = (0..self.subagents.len())
            .filter(|&index| !seen[index] && !self.subagents[index].united)
            .collect();
        // Sorted by name, because the order of arrival depends on how the sources are interleaved.
        uncalled.sort_by_cached_key(|&index| {
            let subagent = &self.subagents[index];
            let by_name = subagent.call_by_name();
            let own = subagent.names.agent_id.clone().filter(|_| by_name.is_none());
            let first = subagent.runs.first().map(|run| run.tool_use_id.clone());
            let call = first.or(by_name);
            let nobody_called = call.is_none();
            let name = own.as_ref().map(ConversationId::from);
            (nobody_called, name.or(call.as_ref().map(ConversationId::from)))
        });
        order.extend(uncalled);
        order
    }
}
