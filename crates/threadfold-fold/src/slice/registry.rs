//! The slices of a session, by name.

use std::collections::BTreeMap;

use threadfold_core::{Json, JsonError, SessionEvent};

use super::{AnySlice, Item, Items, RestorePolicy, Slice, SliceChange, builtin, files};

/// The slices of a session: the built-in ones, and those that a user registered.
pub struct Slices {
    slices: BTreeMap<String, Box<dyn AnySlice>>,
}

/// Why an operation on slices failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// Choose another name, or another type of items.
    #[error("slice `{name}` with items `{item_type}` conflicts with the existing slice `{other}`")]
    Twice {
        /// The slice to register.
        name: String,
        /// Its items.
        item_type: &'static str,
        /// The existing slice.
        other: String,
    },
    /// Register it before the session is opened.
    #[error("no slice for items of type `{item_type}` is registered")]
    Unknown {
        /// The type, or the name of the slice, that was asked for.
        item_type: String,
    },
    /// Pass items that the slice can deserialize.
    #[error("the items cannot be deserialized for slice `{name}`")]
    Unfit {
        /// The slice.
        name: String,
        /// What is wrong with them.
        source: JsonError,
    },
}

/// The names of the fold's own slices in snapshots.
pub(crate) const RESERVED: [&str; 6] =
    ["conversation", "converter", "metadata", "reportedTurns", "sources", "turns"];

impl Default for Slices {
    /// Returns the built-in slices.
    fn default() -> Self {
        let own: [Box<dyn AnySlice>; 4] = [
            Box::new(builtin::query()),
            Box::new(builtin::environment()),
            Box::new(files::files()),
            Box::new(builtin::transcript()),
        ];
        Self { slices: own.into_iter().map(|slice| (slice.name().to_owned(), slice)).collect() }
    }
}

/// The outcome of a dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dispatch {
    /// At least one slice applied the item.
    Accepted,
    /// No slice listens to its type.
    NoListener,
    /// A slice could not deserialize the item.
    Unreadable(String),
}

impl Slices {
    /// Adds a user's slice.
    ///
    /// Names and item types are unique, because records and queries find slices by them.
    pub fn register<T: Item>(&mut self, slice: Slice<T>) -> Result<(), SliceError> {
        let is_taken =
            |other: &&dyn AnySlice| other.name() == slice.name() || other.item_type() == T::TYPE;
        let taken = self.iter().find(is_taken).map(|it| it.name().to_owned());
        let reserved = RESERVED.contains(&slice.name()).then(|| slice.name().to_owned());
        if let Some(other) = taken.or(reserved) {
            let name = slice.name().to_owned();
            return Err(SliceError::Twice { name, item_type: T::TYPE, other });
        }
        self.slices.insert(slice.name().to_owned(), Box::new(slice));
        Ok(())
    }

    /// Returns independent slices with the same items.
    #[must_use]
    pub fn fork(&self) -> Self {
        let forks = self.iter().map(|slice| (slice.name().to_owned(), slice.fork()));
        Self { slices: forks.collect() }
    }

    /// Returns the items of this type.
    pub fn items<T: Item>(&self) -> Result<&Items<T>, SliceError> {
        let mut slices = self.slices.values();
        let found = slices.find_map(|slice| slice.as_any().downcast_ref::<Items<T>>());
        found.ok_or_else(|| SliceError::Unknown { item_type: T::TYPE.to_owned() })
    }

    /// Returns the name of the slice with items of this type.
    pub fn name_of<T: Item>(&self) -> Result<&str, SliceError> {
        let mut slices = self.slices.values();
        let found = slices.find(|slice| slice.item_type() == T::TYPE).map(|slice| slice.name());
        found.ok_or_else(|| SliceError::Unknown { item_type: T::TYPE.to_owned() })
    }

    pub(crate) fn apply_event(&mut self, event: &SessionEvent) {
        self.slices.values_mut().for_each(|slice| slice.apply_event(event));
    }

    /// Moves what changed since the last call to `out`.
    pub(crate) fn take_changes(&mut self, out: &mut Vec<SliceChange>) {
        self.slices.values_mut().for_each(|slice| slice.take_changes(out));
    }

    pub(crate) fn forget_changes(&mut self) {
        self.slices.values_mut().for_each(|slice| slice.forget_changes());
    }

    /// Returns the items of each slice, by its name.
    pub fn to_json(&self) -> BTreeMap<&str, Vec<Json>> {
        self.iter().map(|slice| (slice.name(), slice.items())).collect()
    }

    pub(crate) fn apply_item(&mut self, item_type: &str, item: &Json) -> Dispatch {
        let mut outcome = Dispatch::NoListener;
        for slice in self.slices.values_mut() {
            match slice.apply_item(item_type, item) {
                Ok(true) if outcome == Dispatch::NoListener => outcome = Dispatch::Accepted,
                Ok(_) => {}
                Err(error) => {
                    let name = slice.name();
                    let why = format!("slice `{name}` cannot read the item: {error}");
                    outcome = Dispatch::Unreadable(why);
                }
            }
        }
        outcome
    }

    pub(crate) fn seed(&mut self, name: &str, items: &[Json]) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        slice.seed(items).map_err(|source| SliceError::Unfit { name: name.to_owned(), source })
    }

    pub(crate) fn clear(&mut self, name: &str) -> Result<(), SliceError> {
        self.slice_mut(name)?.clear();
        Ok(())
    }

    /// Removes all items of the slices that a restore rolls back.
    pub(crate) fn clear_states(&mut self) {
        let states =
            self.slices.values_mut().filter(|slice| slice.policy() == RestorePolicy::State);
        states.for_each(|slice| slice.clear());
    }

    pub(crate) fn get(&self, name: &str) -> Option<&dyn AnySlice> {
        self.slices.get(name).map(Box::as_ref)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn AnySlice> {
        self.slices.values().map(Box::as_ref)
    }

    fn slice_mut(&mut self, name: &str) -> Result<&mut Box<dyn AnySlice>, SliceError> {
        let found = self.slices.get_mut(name);
        found.ok_or_else(|| SliceError::Unknown { item_type: name.to_owned() })
    }
}
