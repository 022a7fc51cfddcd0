//! Queries on the items of a slice.

use crate::slice::{Item, Items};

/// A query on the items of one slice.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a, T> {
    items: &'a Items<T>,
}

impl<'a, T: Item> Query<'a, T> {
    /// Returns a query on these items.
    pub fn of(items: &'a Items<T>) -> Self {
        Self { items }
    }

    /// Returns the last item.
    pub fn latest(&self) -> Option<&'a T> {
        self.items.latest()
    }

    /// Returns all items in order.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &'a T> + use<'a, T> {
        self.items.iter()
    }

    /// Returns the items that satisfy a condition, in order.
    pub fn filter(&self, mut is_wanted: impl FnMut(&T) -> bool) -> impl Iterator<Item = &'a T> {
        self.items.iter().filter(move |item| is_wanted(item))
    }
}
