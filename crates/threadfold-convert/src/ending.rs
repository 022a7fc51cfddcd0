//! The conversations that end with a feed, portion by portion.

use crate::EndProgress;

/// How many conversations end in one portion.
const PORTION: usize = 1024;

/// The names of what is still to be ended. Not part of a converter's memory: nothing is read between
/// two portions.
#[derive(Clone, Debug)]
pub(crate) struct Ending<T> {
    names: Option<std::vec::IntoIter<T>>,
}

impl<T> Default for Ending<T> {
    fn default() -> Self {
        Self { names: None }
    }
}

impl<T> Ending<T> {
    /// Returns whether the feed's end has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.names.is_some()
    }

    /// Begins with all names, in order.
    pub(crate) fn begin(&mut self, names: Vec<T>) {
        self.names = Some(names.into_iter());
    }

    /// Returns the next names, and whether there are more.
    pub(crate) fn next_portion(&mut self) -> (Vec<T>, EndProgress) {
        let Some(names) = &mut self.names else { return (Vec::new(), EndProgress::Complete) };
        let portion = names.by_ref().take(PORTION).collect();
        let remaining = if names.len() > 0 { EndProgress::More } else { EndProgress::Complete };
        if remaining == EndProgress::Complete {
            self.names = None;
        }
        (portion, remaining)
    }
}
