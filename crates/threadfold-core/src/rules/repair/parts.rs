//! The parts of a message that a provider would refuse, wherever they stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::turn::{ConversationMessage, MessagePart, MessagePartBody};

use super::super::anthropic::IMAGE_LIMIT;
use super::super::request::Item;
use super::super::surrogate;
use super::Repair;

/// What of the parts so far must not come again.
#[derive(Default)]
pub(super) struct Parts {
    /// The ids of providers' own items.
    items: BTreeSet<(Arc<str>, String)>,
}

impl Parts {
    /// Takes out of a message what cannot be sent, and tells of each.
    pub(super) fn drop_unsendable(
        &mut self,
        message: &mut ConversationMessage,
        at: usize,
    ) -> Vec<Repair> {
        let mut repairs = Vec::new();
        let dropped =
            |provider: &Arc<str>| Repair::ItemDropped { provider: provider.clone(), message: at };
        message.content.retain(|part| match &part.body {
            MessagePartBody::Native(native) => {
                let id = Item::read(native.item.raw()).text("id");
                let is_new = id.is_none_or(|id| self.items.insert((native.provider.clone(), id)));
                let is_sendable = is_new && !surrogate::has_lone(native.item.as_str());
                if !is_sendable {
                    repairs.push(dropped(&native.provider));
                }
                is_sendable
            }
            MessagePartBody::Image(image) => {
                let fits = image.data.as_ref().is_none_or(|data| data.len() <= IMAGE_LIMIT);
                if !fits {
                    repairs.push(Repair::ImageDropped { message: at });
                }
                fits
            }
            MessagePartBody::Text(_) | MessagePartBody::Thinking(_) | MessagePartBody::Other(_) => {
                true
            }
        });
        let alone = alone(&message.content);
        let mut index = 0;
        message.content.retain(|part| {
            let is_alone = alone.contains(&index);
            index += 1;
            if let MessagePartBody::Native(native) = &part.body
                && is_alone
            {
                repairs.push(dropped(&native.provider));
            }
            !is_alone
        });
        repairs
    }
}

/// Says whether a part is held by its provider to what stood before it.
///
/// A call as its provider spelt it belongs to the thinking before it, and goes with that; the
/// neutral call stays.
pub(super) fn is_bound(part: &MessagePart) -> bool {
    match &part.body {
        MessagePartBody::Thinking(_) => true,
        MessagePartBody::Native(native) => matches!(
            &*Item::read(native.item.raw()).word("type"),
            "thinking" | "redacted_thinking" | "reasoning" | "tool_use" | "function_call"
        ),
        MessagePartBody::Text(_) | MessagePartBody::Image(_) | MessagePartBody::Other(_) => false,
    }
}

/// Returns which parts are a tool at the provider's side without its result, or the reverse.
fn alone(parts: &[MessagePart]) -> BTreeSet<usize> {
    let mut alone = BTreeSet::new();
    let mut open: Vec<(String, usize)> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let MessagePartBody::Native(native) = &part.body else { continue };
        if &*native.provider != "anthropic" {
            continue;
        }
        let item = Item::read(native.item.raw());
        let kind = item.word("type");
        if kind == "server_tool_use" {
            open.push((item.word("id"), index));
        } else if kind.ends_with("_tool_result") {
            let call = item.word("tool_use_id");
            match open.iter().position(|(id, _)| *id == call) {
                Some(place) => _ = open.remove(place),
                None => _ = alone.insert(index),
            }
        }
    }
    alone.extend(open.into_iter().map(|(_, index)| index));
    alone
}
