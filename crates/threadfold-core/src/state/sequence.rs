//! A list with structural sharing whose nodes are small.
//!
//! A step that changes one item while a reader holds the old list copies the nodes on the path to
//! it. Copying a node touches every item in it, because each is counted by its owners; in a long
//! list most of them are not in the processor's cache. So a step costs as much as its nodes are
//! wide, times the levels, and narrow nodes are cheapest. The last few items are outside the tree:
//! most steps concern them, and then only they are copied.

use std::ops::Index;
use std::sync::Arc;

use arrayvec::ArrayVec;

mod iter;
mod node;
mod stored;
#[cfg(test)]
mod tests;

pub(super) use iter::{IntoIter, Iter};
use node::{Child, LEAF_WIDTH, Leaf, Node};
pub(super) use stored::{PAGE_ITEMS, PageSource};

/// An item with a number that increases along the list.
pub(super) trait SequenceItem {
    fn key(&self) -> u64;
}

/// A list in the order of its items' keys. Cloning it is O(1).
#[derive(Clone)]
pub(super) struct Sequence<T> {
    /// All items but the last few.
    root: Option<Child<T>>,
    /// The items after those of the tree.
    tail: Option<Arc<Leaf<T>>>,
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Self { root: None, tail: None }
    }
}

impl<T> Sequence<T> {
    pub(super) fn len(&self) -> usize {
        self.tree_len() + self.tail().len()
    }

    fn tree_len(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.count)
    }

    fn tail(&self) -> &[T] {
        self.tail.as_deref().map_or(&[], |tail| tail)
    }
}

impl<T: SequenceItem> Sequence<T> {
    pub(super) fn get(&self, position: usize) -> Option<&T> {
        match position.checked_sub(self.tree_len()) {
            Some(position) => self.tail().get(position),
            None => self.root.as_ref()?.node.get(position),
        }
    }

    pub(super) fn back(&self) -> Option<&T> {
        self.len().checked_sub(1).and_then(|last| self.get(last))
    }

    pub(super) fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// Returns the item with this key, and its position.
    pub(super) fn find(&self, key: u64) -> Option<(usize, &T)> {
        let tail = self.tail();
        if tail.first().is_some_and(|first| first.key() <= key) {
            let found = tail.iter().position(|item| item.key() == key)?;
            return Some((self.tree_len() + found, &tail[found]));
        }
        self.root.as_ref()?.node.find(key)
    }
}

impl<T: Clone + SequenceItem> Sequence<T> {
    pub(super) fn push_back(&mut self, item: T) {
        let tail = self.tail.get_or_insert_default();
        if tail.len() == LEAF_WIDTH {
            let full = std::mem::replace(tail, Arc::new(ArrayVec::from_iter([item])));
            self.push_leaf(full);
        } else {
            Arc::make_mut(tail).push(item);
        }
    }

    /// Replaces the item at `position`, which exists. Its key stays between those beside it.
    pub(super) fn set(&mut self, position: usize, item: T) {
        match position.checked_sub(self.tree_len()) {
            Some(position) => {
                if let Some(tail) = &mut self.tail {
                    Arc::make_mut(tail)[position] = item;
                }
            }
            None => {
                if let Some(root) = &mut self.root {
                    root.set(position, item);
                }
            }
        }
    }

    /// Inserts an item at a position that is at most the length.
    pub(super) fn insert(&mut self, position: usize, item: T) {
        let tree = self.tree_len();
        if position == tree + self.tail().len() {
            return self.push_back(item);
        }
        if position >= tree && self.tail().len() < LEAF_WIDTH {
            let tail = self.tail.get_or_insert_default();
            return Arc::make_mut(tail).insert(position - tree, item);
        }
        if position >= tree
            && let Some(full) = self.tail.take()
        {
            self.push_leaf(full);
        }
        if let Some(root) = &mut self.root
            && let Some(right) = root.insert(position, item)
        {
            self.grow(right);
        }
    }

    /// Removes the item at `position`, which exists.
    pub(super) fn remove(&mut self, position: usize) -> Option<T> {
        match position.checked_sub(self.tree_len()) {
            Some(position) => {
                let tail = Arc::make_mut(self.tail.as_mut()?);
                (position < tail.len()).then(|| tail.remove(position))
            }
            None => {
                let removed = self.root.as_mut()?.remove(position);
                self.shrink();
                Some(removed)
            }
        }
    }

    /// Moves a full tail into the tree.
    fn push_leaf(&mut self, leaf: Arc<Leaf<T>>) {
        let leaf = Child::of(Node::Leaf(leaf));
        match &mut self.root {
            None => self.root = Some(leaf),
            Some(root) => {
                if let Some(right) = root.push_leaf(leaf) {
                    self.grow(right);
                }
            }
        }
    }

    /// Adds a level, because the root was split.
    fn grow(&mut self, right: Child<T>) {
        if let Some(left) = self.root.take() {
            let children = ArrayVec::from_iter([left, right]);
            self.root = Some(Child::of(Node::Branch(Arc::new(children))));
        }
    }

    /// Drops the levels at the top that have only one node.
    fn shrink(&mut self) {
        while let Some(root) = &self.root {
            let only = match &root.node {
                _ if root.count == 0 => None,
                Node::Branch(children) if children.len() == 1 => Some(children[0].clone()),
                _ => return,
            };
            self.root = only;
        }
    }
}

impl<T: SequenceItem> Index<usize> for Sequence<T> {
    type Output = T;

    fn index(&self, position: usize) -> &T {
        self.get(position).expect("the position is in the list")
    }
}

impl<T: Clone + SequenceItem> IntoIterator for Sequence<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter::new(self)
    }
}
