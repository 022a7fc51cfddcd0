//! Validates requests to OpenAI's Responses.

use std::collections::HashSet;

use super::{
    Refusal,
    json::Value,
    memory::{GivenItem, Memory},
};

pub(super) fn judge(request: &Value<'_>, memory: &Memory) -> Vec<Refusal> {
    let mut judge =
        ResponsesValidator { memory, is_stored: !request.denies("store"), refusals: Vec::new() };
    if request.word("model").is_empty() {
        judge.refusals.push(Refusal::shape("`model` is not there"));
    }
    let input = request.get("input");
    if !input.is_some_and(|it| it.as_text().is_some() || it.as_list().is_some()) {
        judge.refusals.push(Refusal::shape("`input` is neither text nor a list"));
    }
    let mut waiting = Vec::new();
    if let Some(previous) = request.get("previous_response_id").and_then(Value::as_text) {
        match memory.stored(previous) {
            Some(calls) => waiting.extend(calls.iter().map(String::as_str)),
            None => judge.refuse("O5", 0, format!("no response `{previous}` was stored")),
        }
    }
    let items = request.items("input");
    judge.calls(items, waiting);
    judge.order(items);
    for (at, item) in items.iter().enumerate() {
        judge.item(at, item);
    }
    judge.refusals
}

struct ResponsesValidator<'m> {
    memory: &'m Memory,
    /// The request may refer to stored items.
    is_stored: bool,
    refusals: Vec<Refusal>,
}

/// Returns an item's type; a message may omit it.
fn kind<'v>(item: &'v Value<'_>) -> &'v str {
    match item.word("type") {
        "" if !item.word("role").is_empty() => "message",
        kind => kind,
    }
}

/// Returns whether these are text and images that a tool's output may contain.
fn are_inputs(parts: &[Value<'_>]) -> bool {
    let has = |part: &Value<'_>, name| part.get(name).is_some_and(|it| it.as_text().is_some());
    let is_input = |part: &Value<'_>| match part.word("type") {
        "input_text" => has(part, "text"),
        "input_image" => has(part, "image_url") || has(part, "file_id"),
        _ => false,
    };
    !parts.is_empty() && parts.iter().all(is_input)
}

impl<'m> ResponsesValidator<'m> {
    fn refuse(&mut self, rule: &'static str, at: usize, found: impl Into<String>) {
        self.refusals.push(Refusal::new(rule, format!("input.{at}: {}", found.into())));
    }

    /// Validates an item by itself.
    fn item(&mut self, at: usize, item: &Value<'_>) {
        let has = |name: &str| item.get(name).is_some_and(|it| it.as_text().is_some());
        let is_whole = match kind(item) {
            "message" => {
                let content = item.get("content");
                matches!(item.word("role"), "user" | "assistant" | "system" | "developer")
                    && content.is_some_and(|it| {
                        it.as_text().is_some() || it.as_list().is_some_and(|it| !it.is_empty())
                    })
            }
            "function_call" => has("call_id") && has("name") && has("arguments"),
            "function_call_output" => {
                let parts = item.get("output").and_then(Value::as_list);
                has("call_id") && (has("output") || parts.is_some_and(are_inputs))
            }
            "reasoning" => {
                self.reasoning(at, item);
                item.get("summary").is_some_and(|it| it.as_list().is_some())
            }
            "item_reference" => {
                self.reference(at, item.word("id"));
                true
            }
            "web_search_call" | "file_search_call" => has("id"),
            _ => false,
        };
        if !is_whole {
            let found = format!("input.{at}: no `{}` that is whole", kind(item));
            self.refusals.push(Refusal::shape(found));
        }
    }

    /// Validates that reasoning can be read again.
    fn reasoning(&mut self, at: usize, item: &Value<'_>) {
        let encrypted = item.word("encrypted_content");
        let is_known = match encrypted {
            "" => self.is_stored && self.is_kept(item.word("id")),
            _ => self.memory.items_named(encrypted).any(|it| it.encrypted == encrypted),
        };
        if !is_known {
            self.refuse("O4", at, "reasoning without content that was not stored");
        }
    }

    fn reference(&mut self, at: usize, id: &str) {
        if !(self.is_stored && self.is_kept(id)) {
            self.refuse("O4", at, format!("`{id}` was not stored"));
        }
    }

    fn is_kept(&self, id: &str) -> bool {
        self.memory.items_named(id).any(|it| it.is_stored && it.id == id)
    }

    fn calls<'v>(&mut self, items: &'v [Value<'_>], mut waiting: Vec<&'v str>)
    where
        'm: 'v,
    {
        let mut names: HashSet<&str> = waiting.iter().copied().collect();
        for (at, item) in items.iter().enumerate() {
            let call = item.word("call_id");
            match kind(item) {
                "function_call" => {
                    if !names.insert(call) {
                        self.refuse("O2", at, format!("a second call `{call}`"));
                    }
                    waiting.push(call);
                }
                "function_call_output" => match waiting.iter().position(|it| *it == call) {
                    Some(place) => _ = waiting.swap_remove(place),
                    None => self.refuse("O2", at, format!("`{call}` is not an open call")),
                },
                _ => {}
            }
        }
        for call in waiting {
            self.refuse("O2", items.len(), format!("no output for the call `{call}`"));
        }
    }

    /// Validates that reasoning and its items are in their original order.
    fn order(&mut self, items: &[Value<'_>]) {
        let mut ids = HashSet::new();
        for (at, item) in items.iter().enumerate() {
            let id = item.word("id");
            if !id.is_empty() && kind(item) != "item_reference" && !ids.insert(id) {
                self.refuse("O3", at, format!("a second item `{id}`"));
            }
            if kind(item) == "reasoning" {
                self.followed(at, item, items.get(at + 1));
            }
            self.led(at, id, at.checked_sub(1).and_then(|at| items.get(at)));
        }
    }

    /// Reasoning must be followed by its original successor.
    fn followed(&mut self, at: usize, item: &Value<'_>, next: Option<&Value<'_>>) {
        let encrypted = item.word("encrypted_content");
        let name = if encrypted.is_empty() { item.word("id") } else { encrypted };
        let mut given =
            self.memory.items_named(name).filter(|it| it.kind == "reasoning").peekable();
        // Unknown items are refused elsewhere.
        if given.peek().is_none() {
            return;
        }
        let fits = |it: &GivenItem| {
            let is_named = item.word("id").is_empty() || item.word("id") == it.id;
            let after = self.memory.item(it.after);
            is_named && next.is_some_and(|next| after.is_some_and(|it| is_given(it, next)))
        };
        if !given.any(fits) {
            self.refuse("O3", at, "reasoning without the item that it belongs to");
        }
    }

    /// An item that is sent back by id must be preceded by its original reasoning.
    fn led(&mut self, at: usize, id: &str, before: Option<&Value<'_>>) {
        let mut given = self.memory.items_named(id).filter(|it| it.id == id).peekable();
        if id.is_empty() || given.peek().is_none() {
            return;
        }
        let fits = |it: &GivenItem| match self.memory.item(it.before) {
            Some(reasoning) => before.is_some_and(|before| is_given(reasoning, before)),
            None => true,
        };
        if !given.any(fits) {
            self.refuse("O3", at, format!("`{id}` without its reasoning"));
        }
    }
}

/// Returns whether an item is the given one. Its id may be missing, but not different.
fn is_given(given: &GivenItem, item: &Value<'_>) -> bool {
    let is_named = |name: &str, was: &str| name.is_empty() || name == was;
    match kind(item) {
        "item_reference" => item.word("id") == given.id,
        kind => {
            kind == given.kind
                && is_named(item.word("id"), &given.id)
                && item.word("call_id") == given.call
                && is_named(item.word("encrypted_content"), &given.encrypted)
                && (kind != "message" || item.word("role") == "assistant")
        }
    }
}
