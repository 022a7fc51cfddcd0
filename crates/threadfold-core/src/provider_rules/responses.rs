//! The rules of OpenAI's Responses API.

use std::sync::Arc;

use imbl::OrdSet;
use serde_json::value::RawValue;

use super::request::{Item, Request};
use super::violation::{ProviderRule, Violation};

/// Checks a request to OpenAI's Responses API, or its list `input`.
///
/// `is_stored` returns whether the provider stored the response with that id. A bare list is
/// checked as a request that is not stored, which is the stricter case. A request alone does not
/// show whether an item lacks the reasoning that it was produced with, so that is not checked.
pub fn check_responses(request: &[u8], is_stored: impl Fn(&str) -> bool) -> Vec<Violation> {
    let request = match Request::read(request, "input") {
        Ok(request) => request,
        Err(violation) => return vec![violation],
    };
    let mut check = ResponsesCheck::default();
    request.messages.iter().for_each(|item| check.push(item));
    check.verdict(&request.fields, is_stored)
}

/// The check of a request, item by item: what later items are compared with, and what was found so
/// far.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponsesCheck {
    length: usize,
    calls: OrdSet<Arc<str>>,
    /// The calls that wait for their output, each with its index.
    open: Vec<(String, usize)>,
    ids: OrdSet<Arc<str>>,
    /// The last item is reasoning, which must be followed by what it led to.
    ends_with_reasoning: bool,
    found: ViolationLists,
}

/// Violations in the order in which they are reported: by rule, then by item.
#[derive(Clone, Debug, Default)]
struct ViolationLists {
    calls: Vec<CallViolation>,
    items: Vec<Violation>,
    by_id: Vec<Violation>,
}

#[derive(Clone, Debug)]
struct CallViolation {
    violation: Violation,
    /// An output whose call may be part of the previous response, if there is one.
    may_be_earlier: bool,
}

impl ResponsesCheck {
    /// Adds an item at the end.
    pub(super) fn push(&mut self, raw: &RawValue) {
        let at = self.length;
        let item = Item::read(raw);
        let kind = item.string("type");
        self.check_call(at, &kind, item.string("call_id"));
        let is_led_to = !self.ends_with_reasoning || is_models(&kind, &item);
        self.found.items.extend((!is_led_to).then(|| reasoning_alone(at - 1)));
        if let Some(id) = item.text("id")
            && self.ids.insert(id.as_str().into()).is_some()
        {
            let what = format!("a second item `{id}`");
            self.found.items.push(Violation::new(ProviderRule::O3, place(at), what));
        }
        self.ends_with_reasoning = kind == "reasoning";
        let by_id = match &*kind {
            "reasoning" if item.string("encrypted_content").is_empty() => {
                Some("reasoning without `encrypted_content`")
            }
            "item_reference" => Some("a reference to an item by id"),
            _ => None,
        };
        let by_id = by_id.map(|what| Violation::new(ProviderRule::O4, place(at), what));
        self.found.by_id.extend(by_id);
        self.length += 1;
    }

    fn check_call(&mut self, at: usize, kind: &str, id: String) {
        let mut add = |what: String, may_be_earlier: bool| {
            let violation = Violation::new(ProviderRule::O2, place(at), what);
            self.found.calls.push(CallViolation { violation, may_be_earlier });
        };
        match kind {
            "function_call" => {
                if self.calls.insert(id.as_str().into()).is_some() {
                    add(format!("a second call `{id}`"), false);
                }
                self.open.push((id, at));
            }
            "function_call_output" => match self.open.iter().position(|(call, _)| *call == id) {
                Some(place) => _ = self.open.remove(place),
                None => add(
                    format!("an output for `{id}`, which is not an open call"),
                    !self.calls.contains(&*id),
                ),
            },
            _ => {}
        }
    }

    /// Returns the rules that a request with these items and fields breaks.
    pub(super) fn verdict(
        &self,
        fields: &Item<'_>,
        is_stored: impl Fn(&str) -> bool,
    ) -> Vec<Violation> {
        let previous = fields.text("previous_response_id");
        let stores = fields.get("store").is_some_and(|it| it.get() == "true");
        let mut found = Vec::new();
        if let Some(id) = previous.as_deref().filter(|id| !is_stored(id)) {
            let missing = format!("response `{id}` was not stored");
            found.push(Violation::new(ProviderRule::O5, "previous_response_id", missing));
        }
        let calls = self.found.calls.iter();
        let calls = calls.filter(|it| previous.is_none() || !it.may_be_earlier);
        found.extend(calls.map(|it| it.violation.clone()));
        found.extend(self.open.iter().map(|(call, at)| {
            Violation::new(ProviderRule::O2, place(*at), format!("call `{call}` has no output"))
        }));
        found.extend(self.found.items.iter().cloned());
        found.extend(self.ends_with_reasoning.then(|| reasoning_alone(self.length - 1)));
        if !stores {
            found.extend(self.found.by_id.iter().cloned());
        }
        found
    }
}

fn place(at: usize) -> String {
    format!("input.{at}")
}

fn reasoning_alone(at: usize) -> Violation {
    Violation::new(ProviderRule::O3, place(at), "reasoning without the item that follows it")
}

/// Returns true if the model produced the item.
fn is_models(kind: &str, item: &Item<'_>) -> bool {
    match kind {
        "function_call_output" => false,
        "message" | "" => item.string("role") == "assistant",
        kind => kind == "reasoning" || kind.ends_with("_call"),
    }
}
