//! Removes the parts of a message that a provider would refuse.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::turn::{ConversationMessage, MessagePart, MessagePartBody};

use super::super::anthropic::{IMAGE_LIMIT, is_server_call, is_server_result};
use super::super::render::text_of;
use super::super::request::Item;
use super::super::surrogate;
use super::Repair;

/// The native items seen so far.
#[derive(Default)]
pub(super) struct Parts {
    /// The provider and id of each item, because no item may be sent twice.
    items: BTreeSet<(Arc<str>, String)>,
}

/// What was removed from a message.
#[derive(Default)]
pub(super) struct DroppedPart {
    pub(super) repairs: Vec<Repair>,
    /// The index of the first removed part, for each provider that would have received it.
    pub(super) first: ChangedParts,
}

/// The index from which a message differs from what each provider was sent before.
#[derive(Clone, Copy, Default)]
pub(super) struct ChangedParts {
    anthropic: Option<usize>,
    openai: Option<usize>,
}

impl ChangedParts {
    /// Everything from here on differs, for every provider.
    pub(super) const ALL: Self = Self { anthropic: Some(0), openai: Some(0) };

    /// Returns the earlier change of the two, for each provider.
    pub(super) fn or(self, other: Self) -> Self {
        let first = |one: Option<usize>, two: Option<usize>| match (one, two) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Self {
            anthropic: first(self.anthropic, other.anthropic),
            openai: first(self.openai, other.openai),
        }
    }

    /// Returns the first part that differs for any provider.
    pub(super) fn first(self) -> Option<usize> {
        [self.anthropic, self.openai].into_iter().flatten().min()
    }

    /// Returns a change after all parts of a message.
    pub(super) fn behind_all(message: &ConversationMessage) -> Self {
        let end = Some(message.content.len());
        Self { anthropic: end, openai: end }
    }

    /// Returns the resulting change to the messages after this one.
    pub(super) fn behind(self) -> Self {
        Self { anthropic: self.anthropic.map(|_| 0), openai: self.openai.map(|_| 0) }
    }

    /// Returns a change to a part that only this provider receives.
    fn of(provider: &str, at: usize) -> Self {
        match provider {
            "anthropic" => Self { anthropic: Some(at), openai: None },
            "openai" => Self { anthropic: None, openai: Some(at) },
            _ => Self::default(),
        }
    }
}

impl Parts {
    /// Removes from a message what cannot be sent, and reports each removal.
    pub(super) fn drop_unsendable(
        &mut self,
        message: &mut ConversationMessage,
        at: usize,
    ) -> DroppedPart {
        let mut dropped = DroppedPart::default();
        let mut kept = 0;
        message.content.retain(|part| {
            let wrong = match &part.body {
                MessagePartBody::Native(native) => {
                    let id = Item::read(native.item.raw()).text("id");
                    let is_new =
                        id.is_none_or(|id| self.items.insert((native.provider.clone(), id)));
                    let is_sendable = is_new && !surrogate::has_lone(native.item.as_str());
                    (!is_sendable).then(|| {
                        let provider = native.provider.clone();
                        let first = ChangedParts::of(&provider, kept);
                        (Repair::ItemDropped { provider, message: at }, first)
                    })
                }
                MessagePartBody::Image(image) => {
                    let fits = image.data.as_ref().is_none_or(|data| data.len() <= IMAGE_LIMIT);
                    (!fits).then_some((Repair::ImageDropped { message: at }, ChangedParts::ALL))
                }
                MessagePartBody::Text(_)
                | MessagePartBody::Thinking(_)
                | MessagePartBody::Other(_) => None,
            };
            kept += usize::from(wrong.is_none());
            dropped.add(wrong)
        });
        let alone = alone(&message.content);
        let mut index = 0;
        let mut kept = 0;
        message.content.retain(|_| {
            let provider: Arc<str> = "anthropic".into();
            let first = ChangedParts::of(&provider, kept);
            let is_alone = alone.contains(&index);
            index += 1;
            kept += usize::from(!is_alone);
            dropped.add(is_alone.then_some((Repair::ItemDropped { provider, message: at }, first)))
        });
        dropped
    }
}

impl DroppedPart {
    /// Records why a part cannot be sent. Returns true if the part stays.
    fn add(&mut self, wrong: Option<(Repair, ChangedParts)>) -> bool {
        let Some((repair, first)) = wrong else { return true };
        self.repairs.push(repair);
        self.first = self.first.or(first);
        false
    }
}

/// Removes the parts that their provider binds to content that changed. Returns true if there were
/// any.
///
/// OpenAI's reasoning is removed together with the items produced with it, because they would be
/// refused without it; a message among them is kept as text. A native call is removed with the
/// thinking before it, and the neutral call stays.
pub(super) fn drop_bound(content: &mut Vec<MessagePart>, changed: ChangedParts) -> bool {
    let has_reasoning = content.iter().any(|it| own(it, "openai").as_deref() == Some("reasoning"));
    let mut is_changed = false;
    let mut index = 0;
    content.retain_mut(|part| {
        let is_behind = |first: Option<usize>| first.is_some_and(|first| first <= index);
        let is_thinking = matches!(part.body, MessagePartBody::Thinking(_))
            || own(part, "anthropic").is_some_and(|kind| {
                matches!(&*kind, "thinking" | "redacted_thinking" | "tool_use")
            });
        let is_thinking = is_thinking && is_behind(changed.anthropic);
        index += 1;
        let is_reasoned =
            has_reasoning && changed.openai.is_some() && own(part, "openai").is_some();
        is_changed |= is_thinking || is_reasoned;
        if is_reasoned
            && let MessagePartBody::Native(native) = &part.body
            && own(part, "openai").as_deref() == Some("message")
        {
            *part = MessagePart::text(&text_of(native));
            return true;
        }
        !(is_thinking || is_reasoned)
    });
    is_changed
}

/// Returns the type of an item native to `provider`.
fn own(part: &MessagePart, provider: &str) -> Option<String> {
    match &part.body {
        MessagePartBody::Native(native) if &*native.provider == provider => {
            Some(Item::read(native.item.raw()).string("type"))
        }
        _ => None,
    }
}

/// Returns the server-side tool calls without a result, and the results without a call.
fn alone(parts: &[MessagePart]) -> BTreeSet<usize> {
    let mut alone = BTreeSet::new();
    let mut open: Vec<(String, usize)> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let MessagePartBody::Native(native) = &part.body else { continue };
        if &*native.provider != "anthropic" {
            continue;
        }
        let item = Item::read(native.item.raw());
        let kind = item.string("type");
        if is_server_call(&kind) {
            open.push((item.string("id"), index));
        } else if is_server_result(&kind) {
            let call = item.string("tool_use_id");
            match open.iter().position(|(id, _)| *id == call) {
                Some(place) => _ = open.remove(place),
                None => _ = alone.insert(index),
            }
        }
    }
    alone.extend(open.into_iter().map(|(_, index)| index));
    alone
}
