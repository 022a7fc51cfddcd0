//! The rule of OpenAI's Chat Completions API.

use serde_json::value::RawValue;

use super::request::{Item, Request};
use super::violation::{ProviderRule, Violation};

/// Checks a request to OpenAI's Chat Completions API, or its list of messages.
pub fn check_chat(request: &[u8]) -> Vec<Violation> {
    let request = match Request::read(request, "messages") {
        Ok(request) => request,
        Err(violation) => return vec![violation],
    };
    let mut check = ChatCheck::default();
    request.messages.iter().for_each(|message| check.push(message));
    check.verdict()
}

/// The check of a request, message by message.
#[derive(Clone, Debug, Default)]
pub(super) struct ChatCheck {
    length: usize,
    /// The calls that wait for their result.
    open: Vec<String>,
    found: Vec<Violation>,
}

impl ChatCheck {
    /// Adds a message at the end.
    pub(super) fn push(&mut self, raw: &RawValue) {
        let place = format!("messages.{}", self.length);
        self.length += 1;
        let message = Item::read(raw);
        let (open, found) = (&mut self.open, &mut self.found);
        let mut add = |what: String| found.push(Violation::new(ProviderRule::O1, &*place, what));
        if message.string("role") == "tool" {
            let id = message.string("tool_call_id");
            match open.iter().position(|call| *call == id) {
                Some(place) => _ = open.remove(place),
                None => add(format!("a result for `{id}`, which is not an open call")),
            }
            return;
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

    /// Returns the rules that a request with these messages breaks.
    pub(super) fn verdict(&self) -> Vec<Violation> {
        let end = format!("messages.{}", self.length);
        let left = self.open.iter().map(|call| format!("call `{call}` has no result"));
        let left = left.map(|it| Violation::new(ProviderRule::O1, &*end, it));
        self.found.iter().cloned().chain(left).collect()
    }
}
