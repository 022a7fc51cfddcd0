//! Questions to a slice.

use crate::slice::{Item, Items};

/// A question to the slice of one type of items.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a, T> {
    items: &'a Items<T>,
}

impl<'a, T: Item> Query<'a, T> {
    /// Returns a question to these items.
    pub fn of(items: &'a Items<T>) -> Self {
        Self { items }
    }

    /// Returns the item that came last.
    pub fn latest(&self) -> Option<&'a T> {
        self.items.latest()
    }

    /// Returns all items in their order.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &'a T> + use<'a, T> {
        self.items.iter()
    }

    /// Returns the items that fulfil a condition, in their order.
    pub fn filter(&self, mut is_wanted: impl FnMut(&T) -> bool) -> impl Iterator<Item = &'a T> {
        self.items.iter().filter(move |item| is_wanted(item))
    }
}
