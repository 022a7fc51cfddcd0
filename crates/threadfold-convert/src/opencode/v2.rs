//! OpenCode 2: its events, and its stored sessions.
//!
//! A message is one object with a list of items, and neither texts nor thoughts have ids: a block is
//! named by its message, its kind and its number among the items of that kind. The events that
//! stream a message and the stored message are converted by the same functions.

mod assistant;
mod blocks;
mod calls;
mod fact_steps;
mod facts;
mod live;
mod messages;
mod places;
mod sessions;
mod stored;
mod wire;

pub(super) use assistant::convert_delta;
pub(super) use calls::untagged;
pub(super) use facts::{EventFacts, state_message, state_session};
pub(super) use live::convert as convert_event;
pub(super) use stored::{convert as convert_stored, mark_continuation};
pub(super) use wire::{Delta, EventHead};
