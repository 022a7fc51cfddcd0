//! One conversation: its blocks in order, indexed by id.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, OnceLock};

use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{OrdSet, Vector};

use crate::block::Block;
use crate::event::Rank;
use crate::id::{BlockId, ConversationId, ToolUseId};
use crate::work::visit;

use super::block_index::BlockIndex;
use super::entry::{Entry, Facts, Residence};
use super::left_path::Stretch;
use super::order::Label;
use super::sequence::Sequence;
use super::spill::SpilledConversation;

/// A map with structural sharing. Its hasher has no random seed, so two runs behave the same.
pub(crate) type Map<K, V> =
    imbl::GenericHashMap<K, V, BuildHasherDefault<DefaultHasher>, DefaultSharedPtr>;

/// One conversation.
#[derive(Clone)]
pub(crate) struct Conversation {
    /// The name that its blocks carry.
    pub(crate) name: ConversationId,
    pub(super) entries: Sequence<Entry>,
    pub(super) index: BlockIndex,
    /// The blocks whose status is open, and those that only the interruption closed.
    pub(crate) open: OrdSet<BlockId>,
    /// The run of the conversation was interrupted, so nothing in it is open. Derived.
    pub(crate) is_interrupted: bool,
    /// The blocks that show subagents, each behind the call that spawned its subagent, if known.
    pub(super) edges: OrdSet<(Option<ToolUseId>, BlockId)>,
    pub(crate) rare: Arc<RareFacts>,
    /// The blocks that changed since the last spill; `None` if nothing was ever spilled.
    pub(super) fresh: Option<Vector<BlockId>>,
    /// The label that was given last.
    pub(super) newest: Label,
    /// What its spilled blocks share.
    pub(super) spilled: Option<Arc<SpilledConversation>>,
}

/// Tables that are empty in most conversations. They share one `Arc`, so that cloning a
/// conversation stays cheap.
#[derive(Clone, Default)]
pub(crate) struct RareFacts {
    /// Maps a former block id to the current one.
    pub(crate) aliases: Map<BlockId, BlockId>,
    /// Removed blocks, with the rank that removed each.
    pub(crate) removed: Map<BlockId, Rank>,
    /// Maps a call to its block, where the block's id differs from the call's.
    pub(crate) calls: Map<ToolUseId, BlockId>,
    /// Maps a call to its result's block, where the block does not have the usual id.
    pub(crate) results: Map<ToolUseId, BlockId>,
    /// The last block before the latest compaction, by rank. All blocks before it are inactive.
    pub(crate) compacted: [Option<BlockId>; 2],
    /// Blocks that a rewind marked, by rank; see `left_path`.
    pub(super) left: [Option<Stretch>; 2],
}

impl RareFacts {
    /// Returns empty tables, which all conversations without such facts share: a session may have
    /// thousands of subagents with one block each.
    fn none() -> Arc<Self> {
        static NONE: OnceLock<Arc<RareFacts>> = OnceLock::new();
        NONE.get_or_init(Arc::default).clone()
    }
}

impl Conversation {
    pub(crate) fn named(name: ConversationId) -> Self {
        Self {
            name,
            entries: Sequence::default(),
            index: BlockIndex::default(),
            open: OrdSet::new(),
            is_interrupted: false,
            edges: OrdSet::new(),
            rare: RareFacts::none(),
            fresh: None,
            newest: 0,
            spilled: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().inspect(|_| visit())
    }

    pub(crate) fn at(&self, position: usize) -> Option<&Entry> {
        visit();
        self.entries.get(position)
    }

    /// Returns the current id of the block that `id` refers to.
    pub(crate) fn resolve<'a>(&'a self, id: &'a BlockId) -> &'a BlockId {
        if self.rare.aliases.is_empty() || self.find(id).is_some() {
            return id;
        }
        self.rare.aliases.get(id).unwrap_or(id)
    }

    pub(crate) fn position(&self, id: &BlockId) -> Option<usize> {
        self.find(self.resolve(id))
    }

    /// Returns the block that `id` refers to, and its position.
    pub(crate) fn locate(&self, id: &BlockId) -> Option<(usize, &Entry)> {
        self.find_entry(self.resolve(id))
    }

    /// Returns the block that `id` refers to, which had this label before, and its position.
    pub(super) fn find_near(&self, id: &BlockId, label: Label) -> Option<(usize, &Entry)> {
        let near = self.entries.find(label).filter(|(_, entry)| entry.is_resident(id));
        near.or_else(|| self.find_entry(self.resolve(id)))
    }

    /// Returns the position of the block with exactly this id.
    pub(super) fn find(&self, id: &BlockId) -> Option<usize> {
        self.find_entry(id).map(|(position, _)| position)
    }

    /// Returns the block with exactly this id, and its position.
    fn find_entry(&self, id: &BlockId) -> Option<(usize, &Entry)> {
        visit();
        if let Some(found) = self.find_recent(id) {
            return Some(found);
        }
        let mut usual = self.index.usual(id).filter_map(|label| self.entries.find(label));
        usual
            .find(|(_, entry)| entry.has_id(id))
            .or_else(|| self.entries.find(self.index.exceptional(id)?))
    }

    /// Returns the block with this id and its position, if it is one of the last two.
    ///
    /// Most lookups are for these: a new block, the one it follows, the call of a result. In a long
    /// conversation the index is rarely in the processor's cache, so this is several times as fast.
    fn find_recent(&self, id: &BlockId) -> Option<(usize, &Entry)> {
        let length = self.entries.len();
        let at = |at: usize| self.entries.get(at).map(|entry| (at, entry));
        let recent = (length.saturating_sub(2)..length).rev().filter_map(at);
        recent.into_iter().find(|(_, entry)| entry.is_resident(id))
    }

    /// Returns true if an entry of this conversation is the block with this id.
    pub(crate) fn is_block(&self, entry: &Entry, id: &BlockId) -> bool {
        let has_label = |label: Label| label == entry.label;
        // A spilled block is read back only if its id has the same hash.
        entry.is_resident(id)
            || (entry.spilled().is_some()
                && (self.index.usual(id).any(has_label)
                    || self.index.exceptional(id).is_some_and(has_label))
                && entry.has_id(id))
    }

    pub(crate) fn entry(&self, id: &BlockId) -> Option<&Entry> {
        self.locate(id).map(|(_, entry)| entry)
    }

    /// Returns the id of the block before `position`.
    pub(crate) fn id_before(&self, position: usize) -> Option<BlockId> {
        position.checked_sub(1).map(|at| self.entries[at].id().into_owned())
    }

    /// Returns the position of the block that is this call.
    pub(crate) fn call(&self, call: &ToolUseId) -> Option<usize> {
        match self.rare.calls.get(call) {
            Some(block) => self.position(block),
            None => self.position(&BlockId::from(call)),
        }
    }

    /// Returns the position of the block that is this call, if a source reported the block.
    pub(crate) fn reported_call(&self, call: &ToolUseId) -> Option<usize> {
        let position = self.call(call)?;
        let facts = self.entries[position].facts();
        (facts.is_reported() && facts.call_of_block() == Some(call)).then_some(position)
    }

    /// Returns the block that is this call's result.
    pub(crate) fn result(&self, call: &ToolUseId) -> Option<&Entry> {
        match self.rare.results.get(call) {
            Some(block) => self.entry(block),
            None => self.entry(&result_id(call)),
        }
    }

    /// Sets the facts and the shown form of the block at `position`.
    pub(crate) fn set(&mut self, position: usize, facts: Facts, shown: Arc<Block>) {
        let (old, new) = self.replace(position, facts, shown);
        if old.facts().call_of_block() != new.facts().call_of_block()
            || old.result_of() != new.result_of()
        {
            self.forget_call(&old);
        }
        self.name_call(&new);
    }

    /// Sets the block at `position` after a text of it has grown.
    ///
    /// A text is written back at any time, so this must not decide which block a call leads to: by
    /// then, the block that had the call before may be gone.
    pub(crate) fn set_grown(&mut self, position: usize, facts: Facts, shown: Arc<Block>) {
        self.replace(position, facts, shown);
    }

    /// Replaces the block at `position`, and returns the old and the new one.
    fn replace(&mut self, position: usize, facts: Facts, shown: Arc<Block>) -> (Entry, Entry) {
        let before = &self.entries[position];
        let (is_spilled, label) = (before.spilled().is_some(), before.label);
        let was = before.resident();
        let old = Entry { label, residence: Residence::InMemory(was.clone()) };
        // The same shown block has the same hash, which need not be computed again.
        let hash = match Arc::ptr_eq(&was.shown, &shown) {
            true => was.hash.clone(),
            false => OnceLock::new(),
        };
        let new = Entry { label, ..Entry::with_hash(was.id.clone(), facts, shown, hash) };
        self.note_open(&new);
        self.note_edge(Some(&old), &new);
        let entry = match self.shared_spill().filter(|_| is_spilled) {
            Some(shared) => new.clone().spill_again(&shared),
            None => new.clone(),
        };
        self.note_fresh(&entry);
        self.keep_left_path(position, &entry);
        self.entries.set(position, entry);
        (old, new)
    }

    /// Inserts a new block at `position`.
    pub(crate) fn insert(&mut self, position: usize, id: BlockId, facts: Facts, shown: Arc<Block>) {
        let entry = Entry::new(id, facts, shown);
        self.note_open(&entry);
        self.note_edge(None, &entry);
        self.name_call(&entry);
        self.note_fresh(&entry);
        self.put_in(position, entry);
    }

    /// Removes the block at `position`, and every index entry that refers to it.
    pub(crate) fn remove(&mut self, position: usize) -> Entry {
        let entry = self.take_out(position);
        self.open.remove(&*entry.id());
        if let Some(edge) = entry.edge() {
            self.edges.remove(&edge);
        }
        self.forget_call(&entry);
        entry
    }

    /// Moves the block at `from` to `to`.
    pub(crate) fn shift(&mut self, from: usize, to: usize) {
        let entry = self.take_out(from);
        self.put_in(to, entry);
    }

    pub(super) fn take_out(&mut self, position: usize) -> Entry {
        self.trim_left_path(position);
        let entry = self.entries.remove(position).expect("the position was just found");
        self.index.remove(&entry.id(), entry.label);
        entry
    }

    pub(super) fn put_in(&mut self, position: usize, mut entry: Entry) {
        self.split_left_path(position);
        entry.label = self.label_at(position);
        self.newest = entry.label;
        self.index.insert(&entry.id(), entry.label);
        self.entries.insert(position, entry);
        if self.index.is_stale(self.entries.len()) {
            self.index.prune(|label| self.entries.find(label).is_some());
        }
    }

    /// Replaces a block of a restored conversation by the same one in memory. It may be open or
    /// show a subagent; the tables of calls are restored apart from it.
    pub(super) fn bring_in(
        &mut self,
        position: usize,
        id: BlockId,
        facts: Facts,
        shown: Arc<Block>,
    ) {
        let label = self.entries[position].label;
        let entry = Entry { label, ..Entry::new(id, facts, shown) };
        self.note_open(&entry);
        self.note_edge(None, &entry);
        self.note_fresh(&entry);
        self.entries.set(position, entry);
    }

    fn note_fresh(&mut self, entry: &Entry) {
        if let (Some(fresh), Residence::InMemory(block)) = (&mut self.fresh, &entry.residence) {
            fresh.push_back(block.id.clone());
        }
    }

    fn note_open(&mut self, entry: &Entry) {
        let (shown, id) = (entry.shown(), entry.id());
        // While the run is interrupted, a block may be open again as soon as the run is not.
        if shown.status.is_open() || (self.is_interrupted && shown.interrupted) {
            self.open.insert(BlockId::clone(&id));
        } else if !self.open.is_empty() {
            self.open.remove(&*id);
        }
    }

    fn note_edge(&mut self, old: Option<&Entry>, new: &Entry) {
        let (old, new) = (old.and_then(Entry::edge), new.edge());
        if old == new {
            return;
        }
        if let Some(edge) = old {
            self.edges.remove(&edge);
        }
        self.edges.extend(new);
    }

    /// Indexes a call's block where the two ids differ. If two blocks claim a call, the first one
    /// keeps it.
    fn name_call(&mut self, entry: &Entry) {
        let id = entry.id();
        if let Some(call) = entry.facts().call_of_block()
            && call.as_str() != id.as_str()
            && !self.is_claimed(&self.rare.calls, call)
            && self.find(&BlockId::from(call)).is_none()
        {
            let call = call.clone();
            Arc::make_mut(&mut self.rare).calls.insert(call, BlockId::clone(&id));
        }
        if let Some(call) = entry.result_of()
            && *id != result_id(&call)
            && !self.is_claimed(&self.rare.results, &call)
            && self.find(&result_id(&call)).is_none()
        {
            Arc::make_mut(&mut self.rare).results.insert(call, id.into_owned());
        }
    }

    /// Removes the index entry from a call to a block that is no longer the call's.
    fn forget_call(&mut self, entry: &Entry) {
        if self.rare.calls.is_empty() && self.rare.results.is_empty() {
            return;
        }
        let rare = Arc::make_mut(&mut self.rare);
        let id = entry.id();
        if let Some(call) = entry.facts().call_of_block()
            && rare.calls.get(call) == Some(&*id)
        {
            rare.calls.remove(call);
        }
        if let Some(call) = entry.result_of()
            && rare.results.get(&call) == Some(&*id)
        {
            rare.results.remove(&call);
        }
    }

    /// Returns true if the block `id` may show the subagent that `call` spawned.
    pub(crate) fn may_claim(&self, id: &BlockId, call: &ToolUseId) -> bool {
        id.as_str() == call.as_str()
            || match self.rare.calls.get(call) {
                Some(block) => block == id,
                None => self.find(&BlockId::from(call)).is_none(),
            }
    }

    fn is_claimed(&self, claims: &Map<ToolUseId, BlockId>, call: &ToolUseId) -> bool {
        claims.get(call).is_some_and(|block| self.find(block).is_some())
    }

    /// Returns the positions of the blocks that show this call's subagent, in order.
    ///
    /// Usually it is one. Events can let several blocks show one call, and all of them must follow
    /// the subagent.
    pub(crate) fn edges_of(&self, call: &ToolUseId) -> Vec<usize> {
        let start = (Some(call.clone()), BlockId::from(""));
        let of_call = self.edges.range(start..).take_while(|edge| edge.0.as_ref() == Some(call));
        self.positions_of(of_call)
    }

    /// Returns whether blocks show subagents.
    pub(super) fn has_edges(&self) -> bool {
        !self.edges.is_empty()
    }

    /// Returns the positions of all blocks that show subagents, in order.
    pub(crate) fn all_edges(&self) -> Vec<usize> {
        self.positions_of(self.edges.iter())
    }

    fn positions_of<'a>(
        &self,
        edges: impl Iterator<Item = &'a (Option<ToolUseId>, BlockId)>,
    ) -> Vec<usize> {
        let mut positions: Vec<_> = edges.filter_map(|(_, block)| self.find(block)).collect();
        // Changes are reported in the order of the conversation, whatever the ids of the blocks.
        positions.sort_unstable();
        positions
    }
}

/// Returns the usual id of the block that is a call's result.
pub(crate) fn result_id(call: &ToolUseId) -> BlockId {
    ["result:", call.as_str()].concat().into()
}
