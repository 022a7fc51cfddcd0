//! The subagents of a session. Those that are quiet can be spilled as a whole.
//!
//! A session may have a hundred thousand subagents of one short line each. A spilled one is the
//! JSON that a snapshot has of it, and what is derived from other subagents; the list keeps its
//! location. A state with spilled subagents is equal to one without.

use std::num::NonZeroU8;
use std::ops::Index;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use imbl::{OrdSet, Vector};

use super::snapshot::{LARGEST_TEXT, read_subagent, write_subagent};
use super::spill::{SpillStore, split_place};
use super::subagent::Subagent;
use crate::work::visit;

/// How many subagents that may be spilled stay in memory.
pub(super) const MOST_RESIDENT: usize = 256;
/// How many subagents one step may change before they are spilled: an import changes half of them
/// between two spills at most.
const MOST_CHANGED: usize = 8192;
/// How much text is collected before it is written to the store.
const BATCH: usize = 1 << 20;

/// The subagents of a session, by index. Cloning the list is O(1).
#[derive(Clone, Default)]
pub(crate) struct Subagents {
    places: Vector<Place>,
    /// Those that may have changed since the last spill; `None` if nothing was ever spilled.
    changed: Option<OrdSet<usize>>,
    /// Those in memory that may be spilled, and that did not change since the last spill.
    resident: OrdSet<usize>,
    /// The stores that subagents were spilled to: nearly always one.
    stores: Vector<Arc<SubagentStore>>,
}

/// Where a subagent is held. It is 24 bytes, and a spilled subagent takes nothing else.
#[derive(Clone)]
enum Place {
    InMemory(Arc<Subagent>),
    Spilled(SpilledSubagent),
}

/// What remains in memory of a spilled subagent.
#[derive(Clone)]
struct SpilledSubagent {
    /// The subagent, if it was read without being loaded since the last spill.
    cache: OnceLock<Arc<Subagent>>,
    /// The offset of its text, in two parts.
    place_low: u32,
    place_high: u8,
    /// The number of its store, from 1.
    store: NonZeroU8,
    /// The length of its text, and its flags.
    length: u16,
}

/// Flags beside the length of a text, which has at most [`LARGEST_TEXT`] bytes.
const IS_UNITED: u16 = 1 << 15;
const IS_INTERRUPTED: u16 = 1 << 14;
const CALLS_OTHERS: u16 = 1 << 13;
const LENGTH: u16 = CALLS_OTHERS - 1;

const _: () = assert!(size_of::<Place>() <= 24 && LARGEST_TEXT <= LENGTH as usize);

/// What the subagents share that were spilled to one store.
struct SubagentStore {
    store: Arc<dyn SpillStore>,
    /// The subagents whose caches were filled since the last spill.
    read_back: Mutex<Vec<u32>>,
    /// The subagent that was read last, by its offset: a reader asks for its parts one by one.
    last: Mutex<Option<(u64, Arc<Subagent>)>>,
}

impl SubagentStore {
    fn of(store: &Arc<dyn SpillStore>) -> Arc<Self> {
        let (read_back, last) = Default::default();
        Arc::new(Self { store: store.clone(), read_back, last })
    }

    fn read(&self, spilled: &SpilledSubagent) -> Arc<Subagent> {
        if let Some(cached) = spilled.cache.get() {
            return cached.clone();
        }
        let place = spilled.place();
        let known = lock(&self.last).clone();
        if let Some((_, subagent)) = known.filter(|(offset, _)| *offset == place) {
            return subagent;
        }
        visit();
        let text = self.store.fetch(place, usize::from(spilled.length & LENGTH));
        let subagent = text.map(|text| {
            read_subagent(&text).unwrap_or_else(|| {
                self.store.report_corruption(place);
                Subagent::nameless()
            })
        });
        // It can only be missing if the store has failed, and then the state is invalid.
        let subagent = Arc::new(subagent.unwrap_or_else(Subagent::nameless));
        *lock(&self.last) = Some((place, subagent.clone()));
        subagent
    }
}

impl SpilledSubagent {
    /// Returns a subagent whose text begins at `place`; nothing if that is beyond the first terabyte.
    fn at(place: u64, length: u16, store: NonZeroU8, subagent: &Subagent) -> Option<Self> {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        let length = length
            | flag(subagent.united, IS_UNITED)
            | flag(subagent.conversation.is_interrupted, IS_INTERRUPTED)
            | flag(subagent.conversation.has_edges(), CALLS_OTHERS);
        let (place_low, place_high) = split_place(place)?;
        Some(Self { cache: OnceLock::new(), place_low, place_high, store, length })
    }

    fn place(&self) -> u64 {
        u64::from(self.place_high) << 32 | u64::from(self.place_low)
    }

    fn has(&self, flag: u16) -> bool {
        self.length & flag != 0
    }
}

/// A subagent of a state, for a reader.
pub(crate) enum SubagentView<'a> {
    InMemory(&'a Arc<Subagent>),
    ReadBack(Arc<Subagent>),
}

impl std::ops::Deref for SubagentView<'_> {
    type Target = Subagent;

    fn deref(&self) -> &Subagent {
        match self {
            Self::InMemory(subagent) => subagent,
            Self::ReadBack(subagent) => subagent,
        }
    }
}

impl Subagents {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns a subagent, which is not kept in memory for it. Whoever reads many reads them so.
    pub(crate) fn view(&self, index: usize) -> SubagentView<'_> {
        match &self.places[index] {
            Place::InMemory(subagent) => SubagentView::InMemory(subagent),
            Place::Spilled(spilled) => SubagentView::ReadBack(self.read(spilled)),
        }
    }

    fn read(&self, spilled: &SpilledSubagent) -> Arc<Subagent> {
        self.store_of(spilled).read(spilled)
    }

    fn store_of(&self, spilled: &SpilledSubagent) -> &SubagentStore {
        &self.stores[usize::from(spilled.store.get()) - 1]
    }

    /// Returns the subagents in the order of their indexes.
    pub(super) fn iter(&self) -> impl Iterator<Item = SubagentView<'_>> {
        (0..self.len()).map(|index| self.view(index))
    }

    pub(crate) fn is_united(&self, index: usize) -> bool {
        match &self.places[index] {
            Place::InMemory(subagent) => subagent.united,
            Place::Spilled(spilled) => spilled.has(IS_UNITED),
        }
    }

    /// Returns whether its conversation is interrupted.
    pub(super) fn is_interrupted(&self, index: usize) -> bool {
        match &self.places[index] {
            Place::InMemory(subagent) => subagent.conversation.is_interrupted,
            Place::Spilled(spilled) => spilled.has(IS_INTERRUPTED),
        }
    }

    /// Returns whether its conversation has blocks that show subagents.
    pub(super) fn calls_others(&self, index: usize) -> bool {
        match &self.places[index] {
            Place::InMemory(subagent) => subagent.conversation.has_edges(),
            Place::Spilled(spilled) => spilled.has(CALLS_OTHERS),
        }
    }

    /// Adds a subagent, and returns its index.
    pub(crate) fn push(&mut self, subagent: Subagent) -> usize {
        let index = self.len();
        self.places.push_back(Place::InMemory(Arc::new(subagent)));
        self.note_change(index);
        index
    }

    /// Holds a subagent in memory until the next spill.
    pub(crate) fn load(&mut self, index: usize) {
        self.note_change(index);
        if let Place::Spilled(spilled) = &self.places[index] {
            let subagent = self.read(spilled);
            self.places[index] = Place::InMemory(subagent);
        }
    }

    /// Returns a subagent to change it.
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Subagent {
        self.load(index);
        match &mut self.places[index] {
            Place::InMemory(subagent) => Arc::make_mut(subagent),
            Place::Spilled(_) => unreachable!("it was just loaded"),
        }
    }

    fn note_change(&mut self, index: usize) {
        if let Some(changed) = &mut self.changed
            && !changed.contains(&index)
        {
            changed.insert(index);
        }
    }

    /// Returns the indexes of those that may have changed since the last spill.
    pub(super) fn changed(&self) -> Vec<usize> {
        match &self.changed {
            None => (0..self.len()).collect(),
            Some(changed) => changed.iter().copied().collect(),
        }
    }

    /// Returns true if nothing is to be spilled.
    pub(super) fn is_unchanged(&self) -> bool {
        let has_read = |shared: &Arc<SubagentStore>| !lock(&shared.read_back).is_empty();
        self.changed.as_ref().is_some_and(OrdSet::is_empty) && !self.stores.iter().any(has_read)
    }

    /// Returns the store if so many changed since the last spill that a step should not go on before
    /// the next.
    pub(super) fn store_if_crowded(&self) -> Option<Arc<dyn SpillStore>> {
        let is_crowded = self.changed.as_ref().is_some_and(|it| it.len() > MOST_CHANGED);
        let latest = self.stores.back().filter(|_| is_crowded)?;
        Some(latest.store.clone())
    }

    pub(crate) fn is_in_memory(&self, index: usize) -> bool {
        matches!(self.places[index], Place::InMemory(_))
    }

    /// Notes that everything so far was spilled, or stays in memory.
    pub(super) fn note_spill(&mut self) {
        self.changed = Some(OrdSet::new());
    }

    /// Spills small subagents until about `most` are in memory, first those that did not change
    /// since the last spill. A subagent with a text that is growing stays.
    pub(super) fn spill(
        &mut self,
        store: &Arc<dyn SpillStore>,
        most: usize,
        is_growing: impl Fn(usize) -> bool,
    ) {
        self.forget_read();
        let changed = self.changed();
        changed.iter().for_each(|index| {
            self.resident.remove(index);
        });
        let mut quiet = Vec::new();
        if self.resident.len() + changed.len() > most {
            quiet.extend(self.resident.iter().copied());
            self.resident.clear();
        }
        if changed.len() > most {
            quiet.extend(changed);
        } else {
            self.resident.extend(changed);
        }
        let mut batch = PendingSubagents { texts: Vec::new(), subagents: Vec::new() };
        for index in quiet {
            visit();
            let Place::InMemory(subagent) = &self.places[index] else { continue };
            if is_growing(index) {
                self.resident.insert(index);
            } else {
                batch.add(index, subagent);
            }
            if batch.texts.len() >= BATCH {
                self.write(store, &mut batch);
            }
        }
        self.write(store, &mut batch);
    }

    fn write(&mut self, store: &Arc<dyn SpillStore>, batch: &mut PendingSubagents) {
        let texts = std::mem::take(&mut batch.texts);
        let pending = std::mem::take(&mut batch.subagents);
        // What cannot be written stays in memory.
        let Some(number) = (!pending.is_empty()).then(|| self.number_of(store)).flatten() else {
            return;
        };
        let Some(start) = store.put(&texts) else { return };
        for PendingSubagent { index, start: offset, length } in pending {
            let Place::InMemory(subagent) = &self.places[index] else { continue };
            let place = start + offset as u64;
            if let Some(spilled) = SpilledSubagent::at(place, length, number, subagent) {
                self.places[index] = Place::Spilled(spilled);
            }
        }
    }

    /// Returns the number of a store; nothing if there are too many.
    fn number_of(&mut self, store: &Arc<dyn SpillStore>) -> Option<NonZeroU8> {
        let known = self.stores.iter().position(|it| Arc::ptr_eq(&it.store, store));
        let number = known.unwrap_or(self.stores.len()) + 1;
        let number = u8::try_from(number).ok().and_then(NonZeroU8::new)?;
        if known.is_none() {
            self.stores.push_back(SubagentStore::of(store));
        }
        Some(number)
    }

    /// Forgets the spilled subagents that were read since the last spill.
    fn forget_read(&mut self) {
        for store in &self.stores {
            *lock(&store.last) = None;
            for index in std::mem::take(&mut *lock(&store.read_back)) {
                // The list may contain subagents that only other states have.
                let index = index as usize;
                if let Some(Place::Spilled(spilled)) = self.places.get(index)
                    && spilled.cache.get().is_some()
                {
                    let spilled = SpilledSubagent { cache: OnceLock::new(), ..*spilled };
                    self.places[index] = Place::Spilled(spilled);
                }
            }
        }
    }
}

/// Reads through a cache that the next spill empties, where nobody has loaded the subagent. Other
/// states share the cache, so whoever has many of them read loads them instead.
impl Index<usize> for Subagents {
    type Output = Subagent;

    fn index(&self, index: usize) -> &Subagent {
        match &self.places[index] {
            Place::InMemory(subagent) => subagent,
            Place::Spilled(spilled) => spilled.cache.get_or_init(|| {
                let store = self.store_of(spilled);
                lock(&store.read_back).push(index as u32);
                store.read(spilled)
            }),
        }
    }
}

/// Subagents that are about to be spilled together.
struct PendingSubagents {
    texts: Vec<u8>,
    subagents: Vec<PendingSubagent>,
}

struct PendingSubagent {
    index: usize,
    start: usize,
    length: u16,
}

impl PendingSubagents {
    /// Adds a subagent, unless it is so large that it stays in memory.
    fn add(&mut self, index: usize, subagent: &Subagent) {
        let start = self.texts.len();
        let written = write_subagent(&mut self.texts, subagent);
        let length = u16::try_from(self.texts.len() - start).ok().filter(|_| written);
        match length {
            Some(length) => self.subagents.push(PendingSubagent { index, start, length }),
            None => self.texts.truncate(start),
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both values are valid after every change, so a panic elsewhere cannot leave half of one.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
