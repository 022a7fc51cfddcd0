//! What the state is compared with: a list that is copied, persistent collections alone, and
//! collections that are changed in place.
//!
//! None of them does what a reducer does: they take a block and put it where it belongs.

use std::collections::HashMap;
use std::sync::Arc;

use threadfold_core::{BlockId, Payload, SessionEvent};
use threadfold_testkit::naive::NaiveBlock;

/// A vector and a map of `imbl`, with structural sharing.
#[derive(Clone, Default)]
pub(crate) struct Persistent {
    blocks: imbl::Vector<Arc<NaiveBlock>>,
    index: imbl::HashMap<BlockId, usize>,
}

/// A vector and a map that are changed in place. No old state remains, so nobody can hold one.
#[derive(Clone, Default)]
pub(crate) struct Mutable {
    blocks: Vec<NaiveBlock>,
    index: HashMap<BlockId, usize>,
}

/// A state that events are applied to.
pub(crate) trait Baseline: Clone + Default {
    fn upsert(&mut self, block: NaiveBlock);
    fn append(&mut self, id: &BlockId, delta: &str);

    fn apply(&mut self, event: &SessionEvent) {
        match &event.payload {
            Payload::BlockUpsert(upsert) => {
                let content = match &upsert.block.body {
                    threadfold_core::BlockBody::AssistantText(body) => body.content.to_string(),
                    _ => String::new(),
                };
                self.upsert(NaiveBlock { id: upsert.block.id.clone(), content });
            }
            Payload::BlockDelta(delta) => self.append(&delta.block_id, &delta.delta),
            _ => {}
        }
    }

    fn of(events: &[SessionEvent]) -> Self {
        let mut state = Self::default();
        events.iter().for_each(|event| state.apply(event));
        state
    }
}

impl Baseline for Persistent {
    fn upsert(&mut self, block: NaiveBlock) {
        match self.index.get(&block.id) {
            Some(&at) => {
                self.blocks.set(at, Arc::new(block));
            }
            None => {
                self.index.insert(block.id.clone(), self.blocks.len());
                self.blocks.push_back(Arc::new(block));
            }
        }
    }

    fn append(&mut self, id: &BlockId, delta: &str) {
        if let Some(block) = self.index.get(id).and_then(|&at| self.blocks.get_mut(at)) {
            Arc::make_mut(block).content.push_str(delta);
        }
    }
}

impl Baseline for Mutable {
    fn upsert(&mut self, block: NaiveBlock) {
        match self.index.get(&block.id) {
            Some(&at) => self.blocks[at] = block,
            None => {
                self.index.insert(block.id.clone(), self.blocks.len());
                self.blocks.push(block);
            }
        }
    }

    fn append(&mut self, id: &BlockId, delta: &str) {
        if let Some(&at) = self.index.get(id) {
            self.blocks[at].content.push_str(delta);
        }
    }
}
