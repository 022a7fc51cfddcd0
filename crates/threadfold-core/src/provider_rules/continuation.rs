//! The rules of Anthropic's Messages API that concern two requests: returned content must be
//! unchanged.

use super::anthropic::{Message, read_message};
use super::request::{Item, Request};
use super::violation::{ProviderRule, Violation};

/// Checks that `request` continues the request `before`, which got the answer `answer`.
///
/// Thinking that the model continues from, because it waits for tools, must be present byte for
/// byte and in place. If thinking is returned, everything before it must be unchanged, byte for
/// byte; if that changed, thinking may be absent. Thinking followed only by empty text cannot be
/// returned, because no message may end with it.
pub fn check_anthropic_continuation(
    before: &[u8],
    answer: &[u8],
    request: &[u8],
) -> Vec<Violation> {
    let read = |bytes| Request::read(bytes, "messages");
    let (before, request) = match (read(before), read(request)) {
        (Ok(before), Ok(request)) => (before, request),
        (Err(violation), _) | (_, Err(violation)) => return vec![violation],
    };
    let Ok(answer) = serde_json::from_slice(answer) else {
        return vec![Violation::new(ProviderRule::A7, "", "an answer that is not JSON")];
    };
    let answered = read_message(answer);
    let messages: Vec<_> = request.messages.iter().map(|it| read_message(it)).collect();
    let place = before.messages.len();
    let mut found = Vec::new();

    let given = thinking(Some(&answered));
    let returned = thinking(messages.get(place));
    let changed = changed(&before, &request);
    let waits = answered.blocks.iter().any(|it| it.kind == "tool_use");
    // If another message occupies the answer's position, it was inserted before the answer.
    let is_there = messages.get(place).is_none_or(|it| it.role == "assistant");
    let is_missed = waits && changed.is_empty() && is_there;
    if returned != given && (is_missed || !returned.is_empty()) {
        let count = format!("{} thinking blocks, not as the {} given", returned.len(), given.len());
        found.push(Violation::new(ProviderRule::A5, format!("messages.{place}"), count));
    }
    if !returned.is_empty() {
        found.extend(changed);
    }
    found
}

/// Returns a message's thinking blocks that other content follows, each with its index.
fn thinking<'a>(message: Option<&Message<'a>>) -> Vec<(usize, &'a str)> {
    let blocks = message.map_or(&[][..], |it| &it.blocks);
    let length =
        blocks.iter().rposition(|it| !it.is_thinking() && !it.is_blank()).unwrap_or_default();
    blocks[..length]
        .iter()
        .enumerate()
        .filter(|(_, block)| block.is_thinking())
        .filter_map(|(at, block)| Some((at, block.raw?.get())))
        .collect()
}

/// Returns the parts of `before` that differ in `request`.
fn changed(before: &Request<'_>, request: &Request<'_>) -> Vec<Violation> {
    let text_of = |item: &Item<'_>, name| item.get(name).map(|raw| raw.get().to_owned());
    let parts = ["system", "tools"].into_iter();
    let mut found: Vec<_> = parts
        .filter(|name| text_of(&before.fields, name) != text_of(&request.fields, name))
        .map(|name| {
            Violation::new(ProviderRule::A6, name, "changed since the thinking was produced")
        })
        .collect();
    let first =
        before.messages.iter().enumerate().find(|(at, message)| {
            request.messages.get(*at).map(|it| it.get()) != Some(message.get())
        });
    if let Some((at, _)) = first {
        let place = format!("messages.{at}");
        found.push(Violation::new(
            ProviderRule::A6,
            place,
            "changed since the thinking was produced",
        ));
    }
    found
}
