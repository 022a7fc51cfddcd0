//! The rule of OpenAI's Chat Completions API.

use super::request::{Item, Request};
use super::violation::{ProviderRule, Violation};

/// Checks a request to OpenAI's Chat Completions API, or its list of messages.
pub fn check_chat(request: &[u8]) -> Vec<Violation> {
    let request = match Request::read(request, "messages") {
        Ok(request) => request,
        Err(violation) => return vec![violation],
    };
    let mut found = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for (at, raw) in request.messages.iter().enumerate() {
        let message = Item::read(raw);
        let mut add = |found_here: String| {
            found.push(Violation::new(ProviderRule::O1, format!("messages.{at}"), found_here));
        };
        if message.string("role") == "tool" {
            let id = message.string("tool_call_id");
            match open.iter().position(|call| *call == id) {
                Some(place) => _ = open.remove(place),
                None => add(format!("a result for `{id}`, which is not an open call")),
            }
            continue;
        }
        open.drain(..)
            .for_each(|call| add(format!("call `{call}` has no result before this message")));
        for call in message.items("tool_calls") {
            let id = call.string("id");
            if open.contains(&id) {
                add(format!("a second call `{id}`"));
            }
            open.push(id);
        }
    }
    let end = format!("messages.{}", request.messages.len());
    let left = open.into_iter().map(|call| format!("call `{call}` has no result"));
    found.extend(left.map(|it| Violation::new(ProviderRule::O1, &*end, it)));
    found
}
