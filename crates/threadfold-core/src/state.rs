//! The state: the conversations of a session after the events so far.
//!
//! Cloning a state is O(1), and old states stay valid. Two things keep a step cheap even while
//! someone holds the previous state: trees that share structure, and open texts that live outside
//! the trees (see `open`), so that a delta touches no tree and no map.

use std::borrow::Cow;
use std::sync::Arc;

use imbl::OrdSet;
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::id::{BlockId, ConversationId, ToolUseId, bare_agent_name};

mod block_index;
mod compare;
mod conversation;
mod entry;
mod interruption;
mod left_path;
mod name_index;
mod open;
mod order;
mod sequence;
mod snapshot;
mod spill;
mod stored_index;
mod subagent;
mod subagents;
mod view;

pub(crate) use conversation::{Conversation, Map};
pub(crate) use entry::{Entry, Facts, RANKS};
pub(crate) use interruption::CacheTrust;
pub(crate) use name_index::NameIndex;
pub(crate) use open::{OPEN_LIMIT, OpenText, OpenTexts};
pub(crate) use order::Occurrence;
pub use snapshot::{
    OutlinePlaces, OutlineWriters, SnapshotError, SnapshotPart, StateOutline, StateSnapshot,
};
pub(crate) use spill::BlockHashes;
pub use spill::SpillStore;
pub(crate) use subagent::{NameKind, RankedValue, Run, RunEnd, RunView, Subagent, fill};
pub use subagent::{RunHeader, SubagentHeader};
pub(crate) use subagents::Subagents;
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
    pub(crate) subagents: Subagents,
    /// Maps a call to the subagent that it ran.
    pub(crate) calls: NameIndex,
    /// Maps a name without `agent-` to a subagent.
    pub(crate) names: NameIndex,
    /// Tool calls, each with a subagent's conversation that contains it. A conversation may have lost
    /// the call since.
    pub(crate) callers: OrdSet<(ToolUseId, Slot)>,
    /// Pairs of subagents, of which the first one's conversation contains a call of the second.
    /// It may have lost the call since. Derived from the runs.
    pub(crate) inside: OrdSet<(usize, usize)>,
    /// How many runs each rank has reported.
    pub(crate) run_counts: [u32; 2],
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

    /// Returns how many subagents the state stores, also those that turned out to be another one. It
    /// takes constant time.
    pub fn subagent_count(&self) -> usize {
        self.settled.subagents.len()
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
            subagents: Subagents::default(),
            calls: NameIndex::default(),
            names: NameIndex::default(),
            callers: OrdSet::new(),
            inside: OrdSet::new(),
            run_counts: [0; 2],
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
            .map(Slot::Subagent)
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
        self.subagents.get_mut(index)
    }

    /// Returns the conversations that contain this call as a block of their own.
    pub(crate) fn conversations_with(&self, call: &ToolUseId) -> Vec<Slot> {
        let others = self.callers.range((call.clone(), Slot::Main)..);
        let others = others.take_while(|it| it.0 == *call).map(|it| it.1);
        let slots = std::iter::once(Slot::Main).chain(others);
        let contains = |slot: &Slot| match *slot {
            Slot::Main => self.main.reported_call(call).is_some(),
            Slot::Subagent(index) => {
                self.subagents.view(index).conversation.reported_call(call).is_some()
            }
        };
        slots.filter(contains).collect()
    }

    /// Records that a subagent's conversation contains a call. The main conversation is not
    /// recorded, because looking there is as cheap as looking here.
    pub(crate) fn note_caller(&mut self, call: &ToolUseId, slot: Slot) {
        if slot != Slot::Main {
            self.callers.insert((call.clone(), slot));
        }
    }

    /// Returns the calls in subagents' conversations, each with the conversations that contain it.
    pub(crate) fn callers_by_call(&self) -> Vec<(ToolUseId, Vec<Slot>)> {
        let mut calls: Vec<(ToolUseId, Vec<Slot>)> = Vec::new();
        for (call, slot) in &self.callers {
            match calls.last_mut() {
                Some((last, slots)) if last == call => slots.push(*slot),
                _ => calls.push((call.clone(), vec![*slot])),
            }
        }
        calls
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
        self.subagents[self.calls.get(call.as_str())?].show_run(call)
    }

    /// Returns the subagents called from `slot`, in the order of their blocks.
    pub(crate) fn called_from(&self, slot: Slot) -> Vec<usize> {
        let called = |conversation: &Conversation| {
            let edges = conversation.all_edges().into_iter();
            edges.filter_map(|at| self.called_by(&conversation.at(at)?.shown())).collect()
        };
        match slot {
            Slot::Main => called(&self.main),
            Slot::Subagent(index) if !self.subagents.calls_others(index) => Vec::new(),
            Slot::Subagent(index) => called(&self.subagents.view(index).conversation),
        }
    }

    fn called_by(&self, block: &Block) -> Option<usize> {
        let crate::block::BlockBody::Subagent(edge) = &block.body else {
            return None;
        };
        let by_call = edge.tool_use_id.as_ref().and_then(|call| self.calls.get(call.as_str()));
        let by_name = || edge.agent_id.as_ref().and_then(|agent| self.names.get(agent.bare()));
        by_call.or_else(by_name)
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
            .filter(|&index| !seen[index] && !self.subagents.is_united(index))
            .collect();
        // Sorted by name, because the order of arrival depends on how the sources are interleaved.
        uncalled.sort_by_cached_key(|&index| {
            let subagent = self.subagents.view(index);
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
