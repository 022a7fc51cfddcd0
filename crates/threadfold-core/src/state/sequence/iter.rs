//! Iteration over a sequence, from both ends.

use super::{Node, Sequence, SequenceItem};

/// The items of a sequence in order.
pub(in crate::state) struct Iter<'a, T> {
    sequence: &'a Sequence<T>,
    start: usize,
    end: usize,
    /// The items of a leaf, which are usually asked for one after another.
    front: Span<'a, T>,
    back: Span<'a, T>,
}

/// Items that are side by side, and the position of the first.
struct Span<'a, T> {
    start: usize,
    items: &'a [T],
}

impl<'a, T> Span<'a, T> {
    fn get(&self, position: usize) -> Option<&'a T> {
        self.items.get(position.checked_sub(self.start)?)
    }
}

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(sequence: &'a Sequence<T>) -> Self {
        let nothing = || Span { start: 0, items: &[] };
        Self { sequence, start: 0, end: sequence.len(), front: nothing(), back: nothing() }
    }
}

impl<'a, T: SequenceItem> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.start == self.end {
            return None;
        }
        let at = self.start;
        self.start += 1;
        if self.front.get(at).is_none() {
            self.front = self.sequence.span(at);
        }
        self.front.get(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.start, Some(self.end - self.start))
    }
}

impl<T: SequenceItem> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.start == self.end {
            return None;
        }
        self.end -= 1;
        if self.back.get(self.end).is_none() {
            self.back = self.sequence.span(self.end);
        }
        self.back.get(self.end)
    }
}

impl<T: SequenceItem> ExactSizeIterator for Iter<'_, T> {}

impl<T: SequenceItem> Sequence<T> {
    /// Returns the items beside the one at `position`, with it.
    fn span(&self, position: usize) -> Span<'_, T> {
        let tree = self.tree_len();
        match &self.root {
            Some(root) if position < tree => root.node.span(position),
            _ => Span { start: tree, items: self.tail() },
        }
    }
}

impl<T: SequenceItem> Node<T> {
    fn span(&self, position: usize) -> Span<'_, T> {
        let (mut start, mut node) = (0, self);
        loop {
            match node {
                Self::Leaf(items) => return Span { start, items },
                Self::Stored(page) => node = page.node(),
                Self::Branch(children) => {
                    let mut rest = children.iter();
                    let found = rest.find(|child| {
                        let is_before = start + child.count <= position;
                        start += if is_before { child.count } else { 0 };
                        !is_before
                    });
                    match found {
                        Some(child) => node = &child.node,
                        None => return Span { start, items: &[] },
                    }
                }
            }
        }
    }
}

/// The items of a sequence in order, owned.
pub(in crate::state) struct IntoIter<T> {
    sequence: Sequence<T>,
    next: usize,
}

impl<T> IntoIter<T> {
    pub(super) fn new(sequence: Sequence<T>) -> Self {
        Self { sequence, next: 0 }
    }
}

impl<T: Clone + SequenceItem> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let item = self.sequence.get(self.next)?.clone();
        self.next += 1;
        Some(item)
    }
}
