//! The rules of OpenAI's Responses API.

use std::collections::BTreeSet;

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
    let items: Vec<_> = request.messages.iter().map(|raw| Item::read(raw)).collect();
    let previous = request.fields.text("previous_response_id");
    let stores = request.fields.get("store").is_some_and(|it| it.get() == "true");
    let mut found = Vec::new();
    if let Some(id) = previous.as_deref().filter(|id| !is_stored(id)) {
        let missing = format!("response `{id}` was not stored");
        found.push(Violation::new(ProviderRule::O5, "previous_response_id", missing));
    }
    calls(&items, previous.is_some(), &mut found);
    reasoning(&items, &mut found);
    if !stores {
        by_id(&items, &mut found);
    }
    found
}

fn calls(items: &[Item<'_>], goes_on: bool, found: &mut Vec<Violation>) {
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add =
        |at, what| found.push(Violation::new(ProviderRule::O2, format!("input.{at}"), what));
    for (at, item) in items.iter().enumerate() {
        let id = item.string("call_id");
        match &*item.string("type") {
            "function_call" => {
                if !seen.insert(id.clone()) {
                    add(at, format!("a second call `{id}`"));
                }
                open.push((id, at));
            }
            "function_call_output" => match open.iter().position(|(call, _)| *call == id) {
                Some(place) => _ = open.remove(place),
                // The call may be part of the previous response.
                None if goes_on && !seen.contains(&id) => {}
                None => add(at, format!("an output for `{id}`, which is not an open call")),
            },
            _ => {}
        }
    }
    open.into_iter().for_each(|(call, at)| add(at, format!("call `{call}` has no output")));
}

fn reasoning(items: &[Item<'_>], found: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let mut add = |what: String| {
            found.push(Violation::new(ProviderRule::O3, format!("input.{at}"), what));
        };
        if let Some(id) = item.text("id").filter(|id| !seen.insert(id.clone())) {
            add(format!("a second item `{id}`"));
        }
        if item.string("type") == "reasoning" && !items.get(at + 1).is_some_and(is_models) {
            add("reasoning without the item that follows it".to_owned());
        }
    }
}

/// Returns true if the model produced the item.
fn is_models(item: &Item<'_>) -> bool {
    match &*item.string("type") {
        "function_call_output" => false,
        "message" | "" => item.string("role") == "assistant",
        kind => kind == "reasoning" || kind.ends_with("_call"),
    }
}

fn by_id(items: &[Item<'_>], found: &mut Vec<Violation>) {
    for (at, item) in items.iter().enumerate() {
        let what = match &*item.string("type") {
            "reasoning" if item.string("encrypted_content").is_empty() => {
                "reasoning without `encrypted_content`"
            }
            "item_reference" => "a reference to an item by id",
            _ => continue,
        };
        found.push(Violation::new(ProviderRule::O4, format!("input.{at}"), what));
    }
}
