//! The nodes of a sequence: a tree in which every leaf has the same depth.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::SequenceItem;
use super::stored::StoredPage;

/// How many items a leaf holds at most.
pub(super) const LEAF_WIDTH: usize = 8;
/// How many nodes a branch holds at most. More than a leaf, because most lists are only searched:
/// fewer levels are fewer misses of the processor's cache.
pub(super) const BRANCH_WIDTH: usize = 16;

pub(super) type Leaf<T> = ArrayVec<T, LEAF_WIDTH>;
pub(super) type Branch<T> = ArrayVec<Child<T>, BRANCH_WIDTH>;

/// A part of the tree. All leaves below it have the same depth, so recursion is as deep as the
/// logarithm of the length.
pub(super) enum Node<T> {
    Leaf(Arc<Leaf<T>>),
    Branch(Arc<Branch<T>>),
    /// As deep as any page, and not in memory before somebody looks at it.
    Stored(Arc<StoredPage<T>>),
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(items) => Self::Leaf(items.clone()),
            Self::Branch(children) => Self::Branch(children.clone()),
            Self::Stored(page) => Self::Stored(page.clone()),
        }
    }
}

/// A node, and what finding an item in it needs: reading that from the node itself would often
/// miss the processor's cache.
#[derive(Clone)]
pub(super) struct Child<T> {
    /// How many items are below it.
    pub(super) count: usize,
    /// The key of its first item.
    pub(super) first: u64,
    pub(super) node: Node<T>,
}

impl<T> Node<T> {
    /// Returns how many items or nodes are directly in it, and how many can be.
    fn filled(&self) -> (usize, usize) {
        match self {
            Self::Leaf(items) => (items.len(), LEAF_WIDTH),
            Self::Branch(children) => (children.len(), BRANCH_WIDTH),
            // Nothing is merged with a page that nobody has looked at.
            Self::Stored(_) => (BRANCH_WIDTH, BRANCH_WIDTH),
        }
    }

    /// Returns true if it has so few items or nodes that it is to be merged with one beside it.
    fn is_small(&self) -> bool {
        let (filled, width) = self.filled();
        filled < width / 2
    }

    /// Returns true if both fit into one node.
    fn fits_with(&self, other: &Self) -> bool {
        let (filled, width) = self.filled();
        filled + other.filled().0 <= width
    }
}

/// Returns the child with the item at `position`, and the item's position in it.
fn child_at<T>(children: &[Child<T>], mut position: usize) -> (usize, usize) {
    let mut at = 0;
    while at + 1 < children.len() && position >= children[at].count {
        position -= children[at].count;
        at += 1;
    }
    (at, position)
}

impl<T: SequenceItem> Node<T> {
    pub(super) fn get(&self, mut position: usize) -> Option<&T> {
        let mut node = self;
        loop {
            let children = match node {
                Self::Leaf(items) => return items.get(position),
                Self::Branch(children) => children,
                Self::Stored(page) => {
                    node = page.node();
                    continue;
                }
            };
            let (at, within) = child_at(children, position);
            position = within;
            node = &children.get(at)?.node;
        }
    }

    pub(super) fn find(&self, key: u64) -> Option<(usize, &T)> {
        let mut before = 0;
        let mut node = self;
        loop {
            let children = match node {
                Self::Leaf(items) => {
                    let found = items.iter().position(|item| item.key() == key)?;
                    return Some((before + found, &items[found]));
                }
                Self::Branch(children) => children,
                Self::Stored(page) => {
                    node = page.node();
                    continue;
                }
            };
            let beyond = children.iter().take_while(|child| child.first <= key).count();
            let at = beyond.checked_sub(1)?;
            before += children[..at].iter().map(|child| child.count).sum::<usize>();
            node = &children[at].node;
        }
    }

    fn first_key(&self) -> u64 {
        match self {
            Self::Leaf(items) => items.first().map_or(0, SequenceItem::key),
            Self::Branch(children) => children.first().map_or(0, |child| child.first),
            Self::Stored(page) => page.node().first_key(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Branch(children) => children.iter().map(|child| child.count).sum(),
            Self::Stored(page) => page.node().count(),
        }
    }

    /// Returns the node itself, with what it stands for in memory.
    fn in_memory(&mut self) -> &mut Self {
        if let Self::Stored(page) = self {
            *self = page.node().clone();
        }
        self
    }
}

impl<T: SequenceItem> Child<T> {
    pub(super) fn of(node: Node<T>) -> Self {
        Self { count: node.count(), first: node.first_key(), node }
    }
}

impl<T: Clone + SequenceItem> Child<T> {
    pub(super) fn set(&mut self, position: usize, item: T) {
        match self.node.in_memory() {
            Node::Stored(_) => unreachable!("the node is in memory"),
            Node::Leaf(items) => Arc::make_mut(items)[position] = item,
            Node::Branch(children) => {
                let (at, within) = child_at(children, position);
                Arc::make_mut(children)[at].set(within, item);
            }
        }
        self.first = self.node.first_key();
    }

    /// Inserts an item. If the node is full, returns its right half.
    pub(super) fn insert(&mut self, position: usize, item: T) -> Option<Self> {
        let right = match self.node.in_memory() {
            Node::Stored(_) => unreachable!("the node is in memory"),
            Node::Leaf(items) => {
                let items = Arc::make_mut(items);
                insert_or_split(items, position, item).map(|it| Node::Leaf(Arc::new(it)))
            }
            Node::Branch(children) => {
                let (at, within) = child_at(children, position);
                let children = Arc::make_mut(children);
                let split = children[at].insert(within, item);
                let right = split.and_then(|it| insert_or_split(children, at + 1, it));
                right.map(|it| Node::Branch(Arc::new(it)))
            }
        };
        self.count_after_split(right)
    }

    /// Appends a leaf. If the node is full, returns a node to its right. Nodes to the left stay
    /// full, because most lists only grow at their end.
    pub(super) fn push_leaf(&mut self, leaf: Self) -> Option<Self> {
        let added = leaf.count;
        let right = match &mut self.node {
            Node::Leaf(_) => Some(leaf),
            Node::Stored(_) => Some(Self::as_deep_as_page(leaf)),
            Node::Branch(children) => {
                let children = Arc::make_mut(children);
                let last = children.last_mut().expect("a branch has children");
                let right = last.push_leaf(leaf);
                match right {
                    Some(right) if children.len() == BRANCH_WIDTH => {
                        let branch = ArrayVec::from_iter([right]);
                        Some(Self::of(Node::Branch(Arc::new(branch))))
                    }
                    Some(right) => {
                        children.push(right);
                        None
                    }
                    None => None,
                }
            }
        };
        if right.is_none() {
            self.count += added;
        }
        right
    }

    /// Removes the item at `position`, which exists.
    pub(super) fn remove(&mut self, position: usize) -> T {
        let removed = match self.node.in_memory() {
            Node::Stored(_) => unreachable!("the node is in memory"),
            Node::Leaf(items) => Arc::make_mut(items).remove(position),
            Node::Branch(children) => {
                let (at, within) = child_at(children, position);
                let children = Arc::make_mut(children);
                let removed = children[at].remove(within);
                if children[at].node.is_small() {
                    merge(children, at);
                }
                removed
            }
        };
        self.count -= 1;
        self.first = self.node.first_key();
        removed
    }

    /// Updates what is known of the node after an insertion.
    fn count_after_split(&mut self, right: Option<Node<T>>) -> Option<Self> {
        let right = right.map(Self::of);
        self.count = self.count + 1 - right.as_ref().map_or(0, |right| right.count);
        self.first = self.node.first_key();
        right
    }
}

/// Inserts an element. If there is no room, returns the right half.
fn insert_or_split<E, const WIDTH: usize>(
    elements: &mut ArrayVec<E, WIDTH>,
    at: usize,
    element: E,
) -> Option<ArrayVec<E, WIDTH>> {
    if elements.len() < WIDTH {
        elements.insert(at, element);
        return None;
    }
    let half = WIDTH / 2;
    let mut right: ArrayVec<E, WIDTH> = elements.drain(half..).collect();
    match at.checked_sub(half) {
        Some(at) if at > 0 => right.insert(at, element),
        _ => elements.insert(at, element),
    }
    Some(right)
}

/// Merges the child at `at`, which became small, with the one beside it, if both fit into one node.
fn merge<T: Clone + SequenceItem>(children: &mut Branch<T>, at: usize) {
    if children[at].count == 0 {
        children.remove(at);
        return;
    }
    for left in [at.checked_sub(1), Some(at)].into_iter().flatten() {
        let fits =
            children.get(left + 1).is_some_and(|right| children[left].node.fits_with(&right.node));
        if fits {
            let right = children.remove(left + 1);
            let left = &mut children[left];
            match (&mut left.node, right.node) {
                (Node::Leaf(items), Node::Leaf(more)) => {
                    Arc::make_mut(items).extend(Arc::unwrap_or_clone(more));
                }
                (Node::Branch(nodes), Node::Branch(more)) => {
                    Arc::make_mut(nodes).extend(Arc::unwrap_or_clone(more));
                }
                _ => unreachable!("all leaves have the same depth"),
            }
            left.count += right.count;
            return;
        }
    }
}
