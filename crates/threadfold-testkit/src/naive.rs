//! A reducer that copies its list on every event, as most programs do: a baseline.

use std::sync::Arc;

use threadfold_core::BlockId;

/// A block of the naive state.
#[derive(Clone, Debug)]
pub struct NaiveBlock {
    /// Its id.
    pub id: BlockId,
    /// Its text.
    pub content: String,
}

/// A list of blocks; a step never changes an existing list.
pub type NaiveState = Arc<Vec<Arc<NaiveBlock>>>;

/// Returns the list with `delta` appended to the block `id`.
pub fn append(state: &NaiveState, id: &BlockId, delta: &str) -> NaiveState {
    let copied = state.iter().map(|block| {
        if block.id != *id {
            return block.clone();
        }
        let content = format!("{}{delta}", block.content);
        Arc::new(NaiveBlock { id: block.id.clone(), content })
    });
    Arc::new(copied.collect())
}

/// Returns the list with `block` replacing the one with its id, or appended.
pub fn upsert(state: &NaiveState, block: NaiveBlock) -> NaiveState {
    let mut blocks: Vec<_> = state.iter().cloned().collect();
    match blocks.iter_mut().find(|known| known.id == block.id) {
        Some(known) => *known = Arc::new(block),
        None => blocks.push(Arc::new(block)),
    }
    Arc::new(blocks)
}
