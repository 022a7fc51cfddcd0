//! Equality of states: two states are equal if they show the same.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::block::Block;

use super::{Blocks, ConversationState, Slot};

/// Two states are equal if they show the same blocks and subagents, whichever source reported them.
///
/// A subagent's conversation has several names, and the one that it is shown under is the one that
/// came first; it does not count.
impl PartialEq for ConversationState {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.settled, &other.settled)
            && Arc::ptr_eq(&self.open, &other.open)
            && self.lengths == other.lengths
        {
            return true;
        }
        let (mine, its) = (self.settled.order(), other.settled.order());
        mine.len() == its.len()
            && same_blocks(self, Slot::Main, other, Slot::Main)
            && mine.iter().zip(&its).all(|(&a, &b)| {
                self.settled.subagents.view(a).header() == other.settled.subagents.view(b).header()
                    && same_blocks(self, Slot::Subagent(a), other, Slot::Subagent(b))
            })
    }
}

fn same_blocks(a: &ConversationState, at: Slot, b: &ConversationState, there: Slot) -> bool {
    let (a, b) = (Blocks::new(a, at), Blocks::new(b, there));
    let is_same =
        |(a, b): (Cow<'_, Block>, Cow<'_, Block>)| std::ptr::eq(&*a, &*b) || a.shows_same(&b);
    a.len() == b.len() && a.iter().zip(b.iter()).all(is_same)
}

impl fmt::Debug for ConversationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?;
        f.write_str(&json)
    }
}
