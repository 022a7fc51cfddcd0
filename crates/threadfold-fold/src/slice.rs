//! Slices: named, versioned parts of a session's state, each with a reducer over the same records.
//!
//! The built-in slices use the same types as those that a user registers.

mod builtin;
mod change;
mod files;
mod registry;

use std::any::Any;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::Serialize;
use serde::de::DeserializeOwned;
use threadfold_core::{Json, JsonError, SessionEvent};

pub use builtin::{EnvironmentState, QueryState, QueryStatus, TranscriptState};
use change::ItemChange;
pub use change::SliceChange;
pub use files::{FileState, FileStatus};
pub(crate) use registry::Dispatch;
pub use registry::{SliceError, Slices};

/// A value that slices hold, and that can be dispatched.
pub trait Item: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Its name in records and snapshots. It never changes, because stored logs contain it.
    const TYPE: &'static str;
}

/// What happens to a slice when a session is restored to an earlier snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// It is rolled back with the session.
    State,
    /// It stays, because it records what happened.
    Log,
}

impl RestorePolicy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Log => "log",
        }
    }
}

/// The items of a slice. A clone shares them and is cheap.
#[derive(Clone, Debug)]
pub struct Items<T> {
    items: Vector<T>,
    positions: OrdMap<Arc<str>, usize>,
    /// What changed since the slice was last asked.
    changes: Vec<ItemChange>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { items: Vector::new(), positions: OrdMap::new(), changes: Vec::new() }
    }
}

impl<T: Clone> Items<T> {
    /// Appends an item.
    pub fn push(&mut self, item: T) {
        self.changes.push(ItemChange::Set(self.items.len()));
        self.items.push_back(item);
    }

    /// Replaces all items with this one.
    pub fn replace(&mut self, item: T) {
        if self.items.len() == 1 && self.positions.is_empty() {
            self.changes.push(ItemChange::Set(0));
            self.items.set(0, item);
            return;
        }
        self.clear();
        self.push(item);
    }

    /// Replaces the item with this key in its place, or appends the item.
    pub fn upsert(&mut self, key: &str, item: T) {
        match self.positions.get(key) {
            Some(&position) => {
                self.changes.push(ItemChange::Set(position));
                self.items.set(position, item);
            }
            None => {
                self.positions.insert(key.into(), self.items.len());
                self.push(item);
            }
        }
    }

    /// Returns the item with this key.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.items.get(*self.positions.get(key)?)
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        if self.items.is_empty() {
            return;
        }
        // What was set before is gone.
        *self = Self { changes: vec![ItemChange::Cleared], ..Self::default() };
    }

    /// Returns the last item.
    pub fn latest(&self) -> Option<&T> {
        self.items.last()
    }

    /// Returns all items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

type OnEvent<T> = Arc<dyn Fn(&mut Items<T>, &SessionEvent) + Send + Sync>;
type OnItem<T> = Arc<dyn Fn(&mut Items<T>, &Json) -> Result<(), JsonError> + Send + Sync>;
type KeyOf<T> = Arc<dyn Fn(&T) -> String + Send + Sync>;

/// A slice of items of one type, with the reducers that produce them.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use threadfold_fold::{Item, RestorePolicy, Slice};
///
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Step { name: String, done: bool }
///
/// impl Item for Step {
///     const TYPE: &'static str = "step";
/// }
///
/// let plan = Slice::<Step>::new("plan").upsert_by(|step| step.name.clone()).policy(RestorePolicy::State);
/// ```
pub struct Slice<T> {
    name: String,
    version: u32,
    policy: RestorePolicy,
    on_event: Vec<OnEvent<T>>,
    on_item: Vec<(&'static str, OnItem<T>)>,
    key: Option<KeyOf<T>>,
    items: Items<T>,
}

impl<T: Item> Slice<T> {
    /// Returns a slice without reducers.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: 1,
            policy: RestorePolicy::State,
            on_event: Vec::new(),
            on_item: Vec::new(),
            key: None,
            items: Items::default(),
        }
    }

    /// Sets the version of the items' JSON; snapshots of another version are not restored.
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets what happens to the slice when the session is restored.
    pub fn policy(mut self, policy: RestorePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Keeps every item that is dispatched.
    pub fn append_all(self) -> Self {
        self.on(|items, item: &T| items.push(item.clone()))
    }

    /// Keeps the item that was dispatched last.
    pub fn replace_latest(self) -> Self {
        self.on(|items, item: &T| items.replace(item.clone()))
    }

    /// Keeps the last item of each key.
    pub fn upsert_by(mut self, key: impl Fn(&T) -> String + Send + Sync + 'static) -> Self {
        let key: KeyOf<T> = Arc::new(key);
        self.key = Some(key.clone());
        self.on(move |items, item: &T| items.upsert(&key(item), item.clone()))
    }

    /// Adds a reducer for dispatched items, of this or another type.
    ///
    /// The reducer must depend on its arguments alone: opening the session runs it again over the
    /// same records.
    pub fn on<E: Item>(
        mut self,
        reducer: impl Fn(&mut Items<T>, &E) + Send + Sync + 'static,
    ) -> Self {
        let on_item: OnItem<T> = Arc::new(move |items, json| {
            reducer(items, &json.read::<E>()?);
            Ok(())
        });
        self.on_item.push((E::TYPE, on_item));
        self
    }

    /// Adds a reducer for the session's events. It must depend on its arguments alone.
    pub fn on_event(
        mut self,
        reducer: impl Fn(&mut Items<T>, &SessionEvent) + Send + Sync + 'static,
    ) -> Self {
        self.on_event.push(Arc::new(reducer));
        self
    }

    fn with_items(&self, items: Vec<T>) -> Items<T> {
        let mut all = Items::default();
        for item in items {
            match &self.key {
                Some(key) => all.upsert(&key(&item), item),
                None => all.push(item),
            }
        }
        all
    }
}

/// A slice of items of any type, so that a session can hold slices of many.
pub(crate) trait AnySlice: Send + Sync {
    fn name(&self) -> &str;
    fn item_type(&self) -> &'static str;
    fn version(&self) -> u32;
    fn policy(&self) -> RestorePolicy;
    fn apply_event(&mut self, event: &SessionEvent);
    /// Returns whether the slice listens to this type.
    fn apply_item(&mut self, item_type: &str, item: &Json) -> Result<bool, JsonError>;
    /// Replaces all items; on an error the slice is unchanged.
    fn seed(&mut self, items: &[Json]) -> Result<(), JsonError>;
    fn clear(&mut self);
    fn items(&self) -> Vec<Json>;
    /// Moves what changed since the last call to `out`.
    fn take_changes(&mut self, out: &mut Vec<SliceChange>);
    /// Drops what changed since the last call: a restored slice has not changed.
    fn forget_changes(&mut self);
    fn fork(&self) -> Box<dyn AnySlice>;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Item> AnySlice for Slice<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn item_type(&self) -> &'static str {
        T::TYPE
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn policy(&self) -> RestorePolicy {
        self.policy
    }

    fn apply_event(&mut self, event: &SessionEvent) {
        self.on_event.iter().for_each(|reducer| reducer(&mut self.items, event));
    }

    fn apply_item(&mut self, item_type: &str, item: &Json) -> Result<bool, JsonError> {
        let mut is_listening = false;
        for (_, reducer) in self.on_item.iter().filter(|(wanted, _)| *wanted == item_type) {
            reducer(&mut self.items, item)?;
            is_listening = true;
        }
        Ok(is_listening)
    }

    fn seed(&mut self, items: &[Json]) -> Result<(), JsonError> {
        let items = items.iter().map(Json::read);
        let mut seeded = self.with_items(items.collect::<Result<_, _>>()?);
        seeded.changes.insert(0, ItemChange::Cleared);
        self.items = seeded;
        Ok(())
    }

    fn clear(&mut self) {
        self.items.clear();
    }

    fn items(&self) -> Vec<Json> {
        self.items.iter().map(Json::of).collect()
    }

    fn forget_changes(&mut self) {
        self.items.changes = Vec::new();
    }

    fn take_changes(&mut self, out: &mut Vec<SliceChange>) {
        if self.items.changes.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.items.changes);
        for change in change::last_of_each(changes) {
            let item = match change {
                ItemChange::Cleared => None,
                ItemChange::Set(index) => {
                    let Some(item) = self.items.items.get(index) else { continue };
                    Some((index, Json::of(item)))
                }
            };
            out.push(SliceChange::new(&self.name, item));
        }
    }

    fn fork(&self) -> Box<dyn AnySlice> {
        Box::new(Self {
            name: self.name.clone(),
            version: self.version,
            policy: self.policy,
            on_event: self.on_event.clone(),
            on_item: self.on_item.clone(),
            key: self.key.clone(),
            items: self.items.clone(),
        })
    }

    fn as_any(&self) -> &dyn Any {
        &self.items
    }
}
