//! Parts of a sequence that are outside of memory until somebody looks at them.

use std::sync::{Arc, OnceLock};

use super::node::{BRANCH_WIDTH, Child, LEAF_WIDTH, Node};
use super::{Sequence, SequenceItem};

/// How many items a page has, except the last: no more than fit below a branch of branches. Pages
/// are small because whoever looks at one block reads a whole one.
pub(in crate::state) const PAGE_ITEMS: usize = LEAF_WIDTH * BRANCH_WIDTH * 4;
/// How many branches are above each leaf of a page.
const PAGE_DEPTH: usize = 2;

/// Reads the items of a list that is not in memory, page by page.
pub(in crate::state) trait PageSource<T>: Send + Sync {
    /// Returns how many items there are.
    fn count(&self) -> usize;

    /// Returns the key of the item at `position`.
    fn key_at(&self, position: usize) -> u64;

    /// Returns the items of a page, in order: as many as it has, whatever happens.
    fn read(&self, page: usize) -> Vec<T>;
}

/// A page that is read on first use. It stays in memory then, as it would if it had never left.
pub(super) struct StoredPage<T> {
    source: Arc<dyn PageSource<T>>,
    page: usize,
    loaded: OnceLock<Node<T>>,
}

impl<T: SequenceItem> StoredPage<T> {
    pub(super) fn node(&self) -> &Node<T> {
        self.loaded.get_or_init(|| {
            let mut items = self.source.read(self.page).into_iter();
            let mut leaves = Vec::with_capacity(PAGE_ITEMS / LEAF_WIDTH);
            loop {
                let leaf: super::Leaf<T> = items.by_ref().take(LEAF_WIDTH).collect();
                if leaf.is_empty() {
                    break;
                }
                leaves.push(Child::of(Node::Leaf(Arc::new(leaf))));
            }
            let mut level = leaves;
            for _ in 0..PAGE_DEPTH {
                level = branches(level);
            }
            level.pop().map_or_else(|| Node::Leaf(Arc::default()), |only| only.node)
        })
    }
}

impl<T: SequenceItem> Child<T> {
    /// Returns a node with one leaf, as deep as a page.
    pub(super) fn as_deep_as_page(leaf: Self) -> Self {
        (0..PAGE_DEPTH).fold(leaf, |below, _| Self::over([below]))
    }

    fn over(children: impl IntoIterator<Item = Self>) -> Self {
        Self::of(Node::Branch(Arc::new(children.into_iter().collect())))
    }
}

/// Returns the next level above nodes: as few branches as possible.
fn branches<T: SequenceItem>(nodes: Vec<Child<T>>) -> Vec<Child<T>> {
    let mut nodes = nodes.into_iter().peekable();
    let mut level = Vec::new();
    while nodes.peek().is_some() {
        level.push(Child::over(nodes.by_ref().take(BRANCH_WIDTH)));
    }
    level
}

impl<T: SequenceItem> Sequence<T> {
    /// Returns the list of these items, none of which is read before somebody looks at it.
    pub(in crate::state) fn stored(source: &Arc<dyn PageSource<T>>) -> Self {
        let count = source.count();
        let page = |page: usize| Child {
            count: PAGE_ITEMS.min(count - page * PAGE_ITEMS),
            first: source.key_at(page * PAGE_ITEMS),
            node: Node::Stored(Arc::new(StoredPage {
                source: source.clone(),
                page,
                loaded: OnceLock::new(),
            })),
        };
        let mut level: Vec<Child<T>> = (0..count.div_ceil(PAGE_ITEMS)).map(page).collect();
        while level.len() > 1 {
            level = branches(level);
        }
        Self { root: level.pop(), tail: None }
    }
}
