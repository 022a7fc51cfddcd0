//! The parts of a message that a provider would refuse, wherever they stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::turn::{ConversationMessage, MessagePart, MessagePartBody};

use super::super::anthropic::{IMAGE_LIMIT, is_server_call, is_server_result};
use super::super::render::words_of;
use super::super::request::Item;
use super::super::surrogate;
use super::Repair;

/// What of the parts so far must not come again.
#[derive(Default)]
pub(super) struct Parts {
    /// The ids of providers' own items.
    items: BTreeSet<(Arc<str>, String)>,
}

/// What was taken out of a message.
#[derive(Default)]
pub(super) struct Dropped {
    pub(super) repairs: Vec<Repair>,
    /// For each provider that would have been sent it, where the first of it stood.
    pub(super) first: Changed,
}

/// From which part of a message on it is not what a provider was sent before.
#[derive(Clone, Copy, Default)]
pub(super) struct Changed {
    anthropic: Option<usize>,
    openai: Option<usize>,
}

impl Changed {
    /// Everything from here on is another for everybody.
    pub(super) const ALL: Self = Self { anthropic: Some(0), openai: Some(0) };

    /// Takes what comes first of the two.
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

    /// Returns the first part that is not as it was for somebody.
    pub(super) fn first(self) -> Option<usize> {
        [self.anthropic, self.openai].into_iter().flatten().min()
    }

    /// Returns a change that stands behind all parts of a message.
    pub(super) fn behind_all(message: &ConversationMessage) -> Self {
        let end = Some(message.content.len());
        Self { anthropic: end, openai: end }
    }

    /// Returns the same for the messages behind this one.
    pub(super) fn behind(self) -> Self {
        Self { anthropic: self.anthropic.map(|_| 0), openai: self.openai.map(|_| 0) }
    }

    /// Returns a change at a part that only this provider is sent.
    fn of(provider: &str, at: usize) -> Self {
        match provider {
            "anthropic" => Self { anthropic: Some(at), openai: None },
            "openai" => Self { anthropic: None, openai: Some(at) },
            _ => Self::default(),
        }
    }
}

impl Parts {
    /// Takes out of a message what cannot be sent, and tells of each.
    pub(super) fn drop_unsendable(
        &mut self,
        message: &mut ConversationMessage,
        at: usize,
    ) -> Dropped {
        let mut dropped = Dropped::default();
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
                        let first = Changed::of(&provider, kept);
                        (Repair::ItemDropped { provider, message: at }, first)
                    })
                }
                MessagePartBody::Image(image) => {
                    let fits = image.data.as_ref().is_none_or(|data| data.len() <= IMAGE_LIMIT);
                    (!fits).then_some((Repair::ImageDropped { message: at }, Changed::ALL))
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
            let first = Changed::of(&provider, kept);
            let is_alone = alone.contains(&index);
            index += 1;
            kept += usize::from(!is_alone);
            dropped.add(is_alone.then_some((Repair::ItemDropped { provider, message: at }, first)))
        });
        dropped
    }
}

impl Dropped {
    /// Notes what is wrong with a part, and says whether the part stays.
    fn add(&mut self, wrong: Option<(Repair, Changed)>) -> bool {
        let Some((repair, first)) = wrong else { return true };
        self.repairs.push(repair);
        self.first = self.first.or(first);
        false
    }
}

/// Takes out of a message the parts that their provider holds to what is not as it was; says
/// whether there were some.
///
/// With OpenAI's reasoning go the items that were made with it, for they would be refused without
/// it; a message among them is kept as words. A call as its provider spelt it goes with the
/// thinking before it, and the neutral call stays.
pub(super) fn drop_bound(content: &mut Vec<MessagePart>, changed: Changed) -> bool {
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
            *part = MessagePart::text(&words_of(native));
            return true;
        }
        !(is_thinking || is_reasoned)
    });
    is_changed
}

/// Returns the kind of an item of `provider`'s own.
fn own(part: &MessagePart, provider: &str) -> Option<String> {
    match &part.body {
        MessagePartBody::Native(native) if &*native.provider == provider => {
            Some(Item::read(native.item.raw()).word("type"))
        }
        _ => None,
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
        if is_server_call(&kind) {
            open.push((item.word("id"), index));
        } else if is_server_result(&kind) {
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
