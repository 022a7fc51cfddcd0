//! A sequence behaves like a vector, and a step copies a few nodes only.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::{PAGE_ITEMS, PageSource, Sequence, SequenceItem};

thread_local! {
    static COPIES: Cell<usize> = const { Cell::new(0) };
    static PAGES: Cell<usize> = const { Cell::new(0) };
}

/// An item that counts how often any item is copied.
#[derive(Debug, PartialEq)]
struct Item(u64, u32);

impl Clone for Item {
    fn clone(&self) -> Self {
        COPIES.with(|it| it.set(it.get() + 1));
        Self(self.0, self.1)
    }
}

impl SequenceItem for Item {
    fn key(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Debug)]
enum Act {
    Push,
    Insert(usize),
    Remove(usize),
    Set(usize),
    Hold,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Push),
        3 => any::<usize>().prop_map(Act::Insert),
        2 => any::<usize>().prop_map(Act::Remove),
        2 => any::<usize>().prop_map(Act::Set),
        1 => Just(Act::Hold),
    ]
}

const GAP: u64 = 1 << 40;

/// So many items that are read page by page.
struct PagedItems(usize);

impl PagedItems {
    fn items(&self, range: Range<usize>) -> Vec<Item> {
        range.map(|it| Item(self.key_at(it), 0)).collect()
    }
}

impl PageSource<Item> for PagedItems {
    fn count(&self) -> usize {
        self.0
    }

    fn key_at(&self, position: usize) -> u64 {
        (position as u64 + 1) * GAP
    }

    fn read(&self, page: usize) -> Vec<Item> {
        PAGES.with(|it| it.set(it.get() + 1));
        self.items(page * PAGE_ITEMS..self.0.min((page + 1) * PAGE_ITEMS))
    }
}

/// Returns a key between those beside `at`, and none if there is no room.
fn key_at(items: &[Item], at: usize) -> Option<u64> {
    let left = at.checked_sub(1).map_or(0, |it| items[it].0);
    let right = items.get(at).map_or(left + 2 * GAP, |it| it.0);
    (right - left > 1).then(|| left + (right - left) / 2)
}

fn check(sequence: &Sequence<Item>, items: &[Item]) {
    assert_eq!(sequence.len(), items.len());
    assert!(sequence.iter().eq(items));
    assert!(sequence.iter().rev().eq(items.iter().rev()));
    assert!(sequence.clone().into_iter().eq(items.iter().cloned()));
    assert_eq!(sequence.back(), items.last());
    for (position, item) in items.iter().enumerate() {
        assert_eq!(sequence.get(position), Some(item));
        assert_eq!(sequence.find(item.0), Some((position, item)));
        assert_eq!(sequence.find(item.0 + 1), None);
    }
    assert_eq!(sequence.get(items.len()), None);
    assert_eq!(sequence.find(0), None);
}

proptest! {
    #[test]
    fn it_behaves_like_a_vector_and_old_ones_stay_valid(
        start in prop_oneof![0_usize..600, 0..3 * PAGE_ITEMS],
        is_stored in any::<bool>(),
        acts in prop::collection::vec(act(), 0..200),
    ) {
        let mut items = PagedItems(start).items(0..start);
        let mut sequence = Sequence::default();
        if is_stored {
            let source: Arc<dyn PageSource<Item>> = Arc::new(PagedItems(start));
            sequence = Sequence::stored(&source);
        } else {
            items.iter().cloned().for_each(|item| sequence.push_back(item));
        }
        let mut held = Vec::new();
        for (number, act) in acts.into_iter().enumerate() {
            let number = number as u32;
            match act {
                Act::Push => {
                    let item = Item(items.last().map_or(GAP, |it| it.0 + GAP), number);
                    items.push(item.clone());
                    sequence.push_back(item);
                }
                Act::Insert(at) => {
                    let at = at % (items.len() + 1);
                    if let Some(key) = key_at(&items, at) {
                        items.insert(at, Item(key, number));
                        sequence.insert(at, Item(key, number));
                    }
                }
                Act::Remove(at) if !items.is_empty() => {
                    let at = at % items.len();
                    prop_assert_eq!(sequence.remove(at), Some(items.remove(at)));
                }
                Act::Set(at) if !items.is_empty() => {
                    let at = at % items.len();
                    items[at].1 = number;
                    sequence.set(at, items[at].clone());
                }
                Act::Hold if held.len() < 3 => held.push((sequence.clone(), items.clone())),
                _ => {}
            }
        }
        check(&sequence, &items);
        held.iter().for_each(|(sequence, items)| check(sequence, items));
    }
}

type ListStep<'a> = &'a dyn Fn(&mut Sequence<Item>);

/// A step that is taken while the old list is held copies one leaf of items, at any length.
#[test]
fn a_step_copies_as_many_items_of_a_long_list_as_of_a_short_one() {
    for length in [20, 1_000, 50_000] {
        let mut sequence = Sequence::default();
        for index in 0..length {
            sequence.push_back(Item((index + 1) * GAP, 0));
        }
        let middle = length as usize / 2;
        let between = Item(sequence[middle].0 - 1, 1);
        let steps: [ListStep<'_>; 4] = [
            &|it| it.push_back(Item((length + 1) * GAP, 1)),
            &|it| it.set(middle, Item(it[middle].0, 1)),
            &|it| it.insert(middle, Item(between.0, 1)),
            &|it| assert!(it.remove(middle).is_some()),
        ];
        for step in steps {
            let mut next = sequence.clone();
            COPIES.with(|it| it.set(0));
            step(&mut next);
            let copies = COPIES.with(Cell::get);
            assert!(copies <= 3 * super::LEAF_WIDTH, "{copies} items of {length} are copied");
        }
    }
}

#[test]
fn removing_everything_leaves_an_empty_list() {
    let mut sequence = Sequence::default();
    (1..=1_000).for_each(|key| sequence.push_back(Item(key, 0)));
    for _ in 0..1_000 {
        let middle = sequence.len() / 2;
        assert!(sequence.remove(middle).is_some());
    }
    assert_eq!((sequence.len(), sequence.back()), (0, None));
    sequence.push_back(Item(7, 0));
    check(&sequence, &[Item(7, 0)]);
}

#[test]
fn a_page_is_read_once_and_only_if_somebody_looks_at_it() {
    let count = 100 * PAGE_ITEMS + 7;
    let source: Arc<dyn PageSource<Item>> = Arc::new(PagedItems(count));
    let mut sequence = Sequence::stored(&source);
    let pages = || PAGES.with(Cell::get);
    // Appending needs no page.
    for number in 0..50 {
        sequence.push_back(Item(source.key_at(count + number), 1));
    }
    assert_eq!((sequence.len(), pages()), (count + 50, 0));
    assert_eq!(sequence.find(source.key_at(count + 3)), Some((count + 3, &sequence[count + 3])));
    assert_eq!(pages(), 0);
    let other = sequence.clone();
    assert_eq!(sequence.get(PAGE_ITEMS).map(|it| it.0), Some(source.key_at(PAGE_ITEMS)));
    assert_eq!(other.find(source.key_at(PAGE_ITEMS + 9)).map(|it| it.0), Some(PAGE_ITEMS + 9));
    assert_eq!(pages(), 1);
    sequence.set(5 * PAGE_ITEMS, Item(source.key_at(5 * PAGE_ITEMS), 2));
    assert!(sequence.remove(5 * PAGE_ITEMS + 1).is_some());
    assert_eq!((sequence[5 * PAGE_ITEMS].1, other[5 * PAGE_ITEMS].1, pages()), (2, 0, 2));
}
