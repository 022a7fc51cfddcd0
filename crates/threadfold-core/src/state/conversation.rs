//! One conversation: its blocks in order, indexed by id.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{OrdSet, Vector};

use crate::block::{Block, BlockBody};
use crate::event::Rank;
use crate::id::{BlockId, ConversationId, ToolUseId};

use super::entry::{Entry, Facts, Residence};
use super::order::Label;

/// A map with structural sharing. Its hasher has no random seed, so two runs behave the same.
pub(crate) type Map<K, V> =
    imbl::GenericHashMap<K, V, BuildHasherDefault<DefaultHasher>, DefaultSharedPtr>;

/// One conversation.
#[derive(Clone)]
pub(crate) struct Conversation {
    /// The name that its blocks carry.
    pub(crate) name: ConversationId,
    pub(super) entries: Vector<Arc<Entry>>,
    pub(super) index: Map<BlockId, Label>,
    /// The blocks whose status is open.
    pub(crate) open: OrdSet<BlockId>,
    /// The blocks that are shown as subagents.
    pub(crate) edges: OrdSet<BlockId>,
    pub(crate) rare: Arc<RareFacts>,
    /// The blocks that changed since the last spill; `None` if nothing was ever spilled.
    pub(super) fresh: Option<Vector<BlockId>>,
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
}

impl Conversation {
    pub(crate) fn named(name: ConversationId) -> Self {
        Self {
            name,
            entries: Vector::new(),
            index: Map::default(),
            open: OrdSet::new(),
            edges: OrdSet::new(),
            rare: Arc::default(),
            fresh: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.entries.iter()
    }

    pub(crate) fn at(&self, position: usize) -> Option<&Arc<Entry>> {
        self.entries.get(position)
    }

    /// Returns the current id of the block that `id` refers to.
    pub(crate) fn resolve<'a>(&'a self, id: &'a BlockId) -> &'a BlockId {
        if self.rare.aliases.is_empty() || self.index.contains_key(id) {
            return id;
        }
        self.rare.aliases.get(id).unwrap_or(id)
    }

    pub(crate) fn position(&self, id: &BlockId) -> Option<usize> {
        let label = *self.index.get(self.resolve(id))?;
        self.position_of(label)
    }

    pub(crate) fn entry(&self, id: &BlockId) -> Option<&Arc<Entry>> {
        self.position(id).map(|position| &self.entries[position])
    }

    /// Returns the id of the block before `position`.
    pub(crate) fn id_before(&self, position: usize) -> Option<BlockId> {
        position.checked_sub(1).map(|at| self.entries[at].id.clone())
    }

    /// Returns the position of the block that is this call.
    pub(crate) fn call(&self, call: &ToolUseId) -> Option<usize> {
        match self.rare.calls.get(call) {
            Some(block) => self.position(block),
            None => self.position(&BlockId::from(call)),
        }
    }

    /// Returns the block that is this call's result.
    pub(crate) fn result(&self, call: &ToolUseId) -> Option<&Arc<Entry>> {
        match self.rare.results.get(call) {
            Some(block) => self.entry(block),
            None => self.entry(&result_id(call)),
        }
    }

    /// Sets the facts and the shown form of the block at `position`.
    pub(crate) fn set(&mut self, position: usize, facts: Facts, shown: Arc<Block>) {
        let store = self.entries[position].spilled().map(|spilled| spilled.store().clone());
        let old = self.entries[position].loaded();
        let mut entry = Entry::new(old.id.clone(), facts, shown);
        entry.label = old.label;
        // The same shown block has the same hash, which need not be computed again.
        if Arc::ptr_eq(&old.shown(), &entry.shown()) {
            entry.hash = old.hash.clone();
        }
        self.enlist(&entry);
        if old.facts().call_of_block() != entry.facts().call_of_block()
            || old.result_of() != entry.result_of()
        {
            self.forget_call(&old);
        }
        self.name_call(&entry);
        if let Some(store) = store {
            entry = entry.spill_again(&self.name, &store);
        }
        self.note_fresh(&entry);
        self.entries.set(position, Arc::new(entry));
    }

    /// Inserts a new block at `position`.
    pub(crate) fn insert(&mut self, position: usize, id: BlockId, facts: Facts, shown: Arc<Block>) {
        let entry = Entry::new(id, facts, shown);
        self.enlist(&entry);
        self.name_call(&entry);
        self.note_fresh(&entry);
        self.put_in(position, entry);
    }

    /// Removes the block at `position`, and every index entry that refers to it.
    pub(crate) fn remove(&mut self, position: usize) -> Entry {
        let entry = self.take_out(position);
        self.open.remove(&entry.id);
        self.edges.remove(&entry.id);
        self.forget_call(&entry);
        entry
    }

    /// Moves the block at `from` to `to`.
    pub(crate) fn shift(&mut self, from: usize, to: usize) {
        let entry = self.take_out(from);
        self.put_in(to, entry);
    }

    pub(super) fn take_out(&mut self, position: usize) -> Entry {
        let entry = self.entries.remove(position);
        self.index.remove(&entry.id);
        Arc::unwrap_or_clone(entry)
    }

    pub(super) fn put_in(&mut self, position: usize, mut entry: Entry) {
        entry.label = self.label_at(position);
        self.index.insert(entry.id.clone(), entry.label);
        // Appending is the common case, and cheaper than a general insertion.
        if position == self.entries.len() {
            self.entries.push_back(Arc::new(entry));
        } else {
            self.entries.insert(position, Arc::new(entry));
        }
    }

    fn note_fresh(&mut self, entry: &Entry) {
        if let (Some(fresh), Residence::InMemory { .. }) = (&mut self.fresh, &entry.residence) {
            fresh.push_back(entry.id.clone());
        }
    }

    fn enlist(&mut self, entry: &Entry) {
        let shown = entry.shown();
        if shown.status.is_open() {
            self.open.insert(entry.id.clone());
        } else if !self.open.is_empty() {
            self.open.remove(&entry.id);
        }
        if let BlockBody::Subagent(_) = shown.body {
            self.edges.insert(entry.id.clone());
        } else if !self.edges.is_empty() {
            self.edges.remove(&entry.id);
        }
    }

    /// Indexes a call's block where the two ids differ. If two blocks claim a call, the first one
    /// keeps it.
    fn name_call(&mut self, entry: &Entry) {
        if let Some(call) = entry.facts().call_of_block()
            && call.as_str() != entry.id.as_str()
            && !self.is_claimed(&self.rare.calls, call)
        {
            let call = call.clone();
            Arc::make_mut(&mut self.rare).calls.insert(call, entry.id.clone());
        }
        if let Some(call) = entry.result_of()
            && entry.id != result_id(&call)
            && !self.is_claimed(&self.rare.results, &call)
        {
            Arc::make_mut(&mut self.rare).results.insert(call, entry.id.clone());
        }
    }

    /// Removes the index entry from a call to a block that is no longer the call's.
    fn forget_call(&mut self, entry: &Entry) {
        if self.rare.calls.is_empty() && self.rare.results.is_empty() {
            return;
        }
        let rare = Arc::make_mut(&mut self.rare);
        if let Some(call) = entry.facts().call_of_block()
            && rare.calls.get(call) == Some(&entry.id)
        {
            rare.calls.remove(call);
        }
        if let Some(call) = entry.result_of()
            && rare.results.get(&call) == Some(&entry.id)
        {
            rare.results.remove(&call);
        }
    }

    /// Returns true if the block `id` may show the subagent that `call` spawned.
    pub(crate) fn may_claim(&self, id: &BlockId, call: &ToolUseId) -> bool {
        id.as_str() == call.as_str() || self.rare.calls.get(call).is_none_or(|block| block == id)
    }

    fn is_claimed(&self, claims: &Map<ToolUseId, BlockId>, call: &ToolUseId) -> bool {
        claims.get(call).is_some_and(|block| self.index.contains_key(block))
    }

    /// Returns the positions of the blocks that show this call's subagent.
    pub(crate) fn edges_of(&self, call: &ToolUseId) -> impl Iterator<Item = usize> {
        let named = self.rare.calls.get(call).and_then(|block| self.position(block));
        let usual = self.position(&BlockId::from(call)).filter(|at| Some(*at) != named);
        let shows = |&at: &usize| self.entries[at].call() == Some(call);
        named.into_iter().chain(usual).filter(shows)
    }
}

/// Returns the usual id of the block that is a call's result.
pub(crate) fn result_id(call: &ToolUseId) -> BlockId {
    ["result:", call.as_str()].concat().into()
}
