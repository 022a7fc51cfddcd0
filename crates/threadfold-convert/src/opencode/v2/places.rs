//! The places of messages: their numbers order them, because ids of queued prompts are too early.

use std::sync::Arc;

use threadfold_core::{Block, ConversationId, RemoveReason};

use crate::opencode::emitter::{Emitter, LAST};
use crate::opencode::order::Key;

/// How the keys of version 1 begin, which are ids of messages.
const OLDER: &str = "msg_";

/// A message, with the conversation and the place that its blocks have.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) conversation: ConversationId,
    pub(super) message: Arc<str>,
    /// The first part of the keys of its blocks.
    position: Arc<str>,
}

impl Place {
    /// Returns the key of a message that is one block.
    pub(super) fn whole(&self) -> Key {
        self.numbered(0)
    }

    /// Returns the key of an item by its number.
    pub(super) fn numbered(&self, number: u64) -> Key {
        (self.position.clone(), format!("{number:06}").into(), 0)
    }

    /// Returns the key of the block after that of an item.
    pub(super) fn after(&self, number: u64) -> Key {
        (self.position.clone(), format!("{number:06}").into(), 1)
    }

    /// Returns the key after all items.
    pub(super) fn last(&self) -> Key {
        (self.position.clone(), LAST.into(), 0)
    }
}

impl Emitter<'_> {
    /// Returns the place of a message, which its first report decides.
    ///
    /// A message of an export or of the API has no number: it follows the messages before it.
    pub(super) fn place(
        &mut self,
        conversation: &ConversationId,
        message: &str,
        seq: Option<u64>,
    ) -> Place {
        let side = self.side();
        let position = match side.places.get(message) {
            Some(position) => position.clone(),
            None => {
                let tail = side.tails.entry(conversation.clone()).or_insert_with(|| "".into());
                let position: Arc<str> = match seq {
                    Some(seq) => format!("{seq:012}").into(),
                    None => following(tail).into(),
                };
                if position > *tail {
                    *tail = position.clone();
                }
                side.places.insert(message.into(), position.clone());
                position
            }
        };
        Place { conversation: conversation.clone(), message: message.into(), position }
    }

    /// Returns the place of a message that was reported before.
    pub(super) fn known_place(
        &mut self,
        conversation: &ConversationId,
        message: &str,
    ) -> Option<Place> {
        let position = self.side().places.get(message)?.clone();
        Some(Place { conversation: conversation.clone(), message: message.into(), position })
    }

    /// Returns the place of a prompt that waits in the inbox: after all messages.
    pub(super) fn waiting_place(&self, conversation: &ConversationId, message: &str) -> Place {
        let position = format!("~{message}").into();
        Place { conversation: conversation.clone(), message: message.into(), position }
    }

    /// Returns the number of an item of a message that is being streamed: items have the order in
    /// which they began.
    pub(super) fn number_of(&mut self, place: &Place, block: &str) -> u64 {
        let order = self.side().order.entry(place.conversation.clone()).or_default();
        let known = order.key_of(&block.into()).filter(|key| key.0 == place.position);
        match known.and_then(|key| key.1.parse().ok()) {
            Some(number) => number,
            None => order.next_number(&place.position),
        }
    }

    /// Emits a block of a message.
    pub(super) fn emit_at(&mut self, place: &Place, key: Key, mut block: Block) {
        block.message_id = Some(place.message.clone().into());
        self.emit_block(&place.conversation, key, block);
    }

    /// Emits a block of a message that is not complete.
    pub(super) fn emit_preview_at(&mut self, place: &Place, key: Key, mut block: Block) {
        block.message_id = Some(place.message.clone().into());
        self.emit_preview(&place.conversation, key, block);
    }

    /// Removes everything that version 1 reported of a conversation, at its first record of version
    /// 2: that has copied all of it, under the same ids of messages.
    pub(super) fn supersede_older(&mut self, conversation: &ConversationId) {
        let side = self.side();
        if side.tails.contains_key(conversation) {
            return;
        }
        side.tails.insert(conversation.clone(), "".into());
        let Some(order) = side.order.get(conversation) else { return };
        let older = order.since_message(OLDER).take_while(|(key, _)| key.0.starts_with(OLDER));
        let older: Vec<_> = older.map(|it| it.1.clone()).collect();
        for block in older {
            self.side().open.remove(&block);
            self.emit_remove(conversation, block, RemoveReason::Superseded);
        }
    }

    /// Removes the blocks of a message.
    pub(super) fn remove_blocks(&mut self, place: &Place) {
        let Some(order) = self.side().order.get(&place.conversation) else { return };
        let blocks: Vec<_> = order.of_message(&place.position).cloned().collect();
        for block in blocks {
            self.side().open.remove(&block);
            self.emit_remove(&place.conversation, block, RemoveReason::Deleted);
        }
    }

    /// Removes a message and everything after it.
    pub(super) fn remove_since(&mut self, conversation: &ConversationId, message: &str) {
        let Some(place) = self.known_place(conversation, message) else {
            return self.remove_later(conversation, message);
        };
        let side = self.side();
        // Messages of version 1 and prompts that wait have other positions.
        let is_numbered =
            |position: &str| position.starts_with(|it: char| it == '.' || it.is_ascii_digit());
        let Some(order) = side.order.get(conversation) else { return };
        let later = order.since_message(&place.position);
        let later: Vec<_> =
            later.take_while(|(key, _)| is_numbered(&key.0)).map(|it| it.1.clone()).collect();
        for block in later {
            self.side().open.remove(&block);
            self.emit_remove(conversation, block, RemoveReason::Deleted);
        }
    }
}

impl Emitter<'_> {
    /// Removes the messages of a later time than one that was never received: ids ascend with time,
    /// except for prompts that waited.
    fn remove_later(&mut self, conversation: &ConversationId, message: &str) {
        let places = &self.side().places;
        let later: Vec<_> = places.keys().filter(|id| ***id > *message).cloned().collect();
        for message in later {
            if let Some(place) = self.known_place(conversation, &message) {
                self.remove_blocks(&place);
            }
        }
    }
}

/// Returns a position after `tail` and before the next numbered one.
fn following(tail: &str) -> String {
    let (number, last) = tail.split_once('.').unwrap_or((tail, "0"));
    let next = last.parse::<u64>().unwrap_or(0) + 1;
    format!("{number}.{next:06}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_a_number_follows_those_before_it() {
        let positions = ["000000000004", "000000000004.000001", "000000000004.000002"];
        assert_eq!(following(positions[0]), positions[1]);
        assert_eq!(following(positions[1]), positions[2]);
        assert!(positions.is_sorted() && positions[2] < "000000000005");
        assert_eq!(following(""), ".000001");
    }
}
