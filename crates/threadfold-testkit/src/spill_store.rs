//! An in-memory spill store that can be made to fail.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use threadfold_core::{ConversationState, SnapshotPart, SpillStore};

/// Stores text in memory.
#[derive(Default)]
pub struct MemorySpillStore {
    text: Mutex<Vec<u8>>,
    is_broken: AtomicBool,
    fetched: AtomicUsize,
}

impl MemorySpillStore {
    /// Returns the number of stored bytes.
    pub fn len(&self) -> usize {
        self.text().len()
    }

    /// Returns whether nothing was stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many bytes were fetched.
    pub fn fetched(&self) -> usize {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Overwrites all stored bytes.
    pub fn damage(&self) {
        self.text().fill(b'?');
    }

    /// Returns whether it fails every request.
    pub fn is_broken(&self) -> bool {
        self.works().is_none()
    }

    /// Makes every request fail from now on.
    pub fn break_down(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    fn text(&self) -> MutexGuard<'_, Vec<u8>> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn works(&self) -> Option<()> {
        (!self.is_broken.load(Ordering::Relaxed)).then_some(())
    }
}

impl SpillStore for MemorySpillStore {
    fn put(&self, text: &[u8]) -> Option<u64> {
        self.works()?;
        let mut all = self.text();
        let place = all.len() as u64;
        all.extend_from_slice(text);
        Some(place)
    }

    fn fetch(&self, place: u64, length: usize) -> Option<Vec<u8>> {
        self.works()?;
        let start = usize::try_from(place).ok()?;
        self.fetched.fetch_add(length, Ordering::Relaxed);
        self.text().get(start..start.checked_add(length)?).map(<[u8]>::to_vec)
    }

    fn report_corruption(&self, _: u64) {
        self.break_down();
    }
}

/// Returns the JSON of a state's snapshot, assembled from its parts, and how many parts were
/// spilled.
pub fn snapshot_of_parts(state: &ConversationState) -> (String, usize) {
    let (mut json, mut away) = (Vec::new(), 0);
    for part in state.snapshot_parts() {
        match part {
            SnapshotPart::Text(text) => json.extend(text.into_bytes()),
            SnapshotPart::Spilled { store, place, length } => {
                let length = usize::try_from(length).expect("it was in memory");
                json.extend(store.fetch(place, length).expect("the store has what was put"));
                away += 1;
            }
        }
    }
    (String::from_utf8(json).expect("JSON is text"), away)
}

/// Returns a spill store for states.
pub fn spill_store() -> (Arc<MemorySpillStore>, Arc<dyn SpillStore>) {
    let store = Arc::new(MemorySpillStore::default());
    (store.clone(), store)
}
