//! The rules of OpenAI's Responses.

use std::collections::BTreeSet;

use super::request::{Item, Request};
use super::violation::{Rule, Violation};

/// Checks a request to OpenAI's Responses, or its list `input`.
///
/// `is_stored` says whether a response of that id was stored. A bare list counts as a request
/// that is not to be stored, for that is the stricter case. Whether an item lacks the reasoning
/// that it was made with cannot be told from a request: only whoever gave the item out knows it.
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
        let told = format!("response `{id}` was not stored");
        found.push(Violation::new(Rule::O5, "previous_response_id", told));
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
    let mut add = |at, told| found.push(Violation::new(Rule::O2, format!("input.{at}"), told));
    for (at, item) in items.iter().enumerate() {
        let id = item.word("call_id");
        match &*item.word("type") {
            "function_call" => {
                if !seen.insert(id.clone()) {
                    add(at, format!("a second call `{id}`"));
                }
                open.push((id, at));
            }
            "function_call_output" => match open.iter().position(|(call, _)| *call == id) {
                Some(place) => _ = open.remove(place),
                // A response that is gone on from may have made the call.
                None if goes_on && !seen.contains(&id) => {}
                None => add(at, format!("an output for `{id}`, which waits for none")),
            },
            _ => {}
        }
    }
    open.into_iter().for_each(|(call, at)| add(at, format!("call `{call}` has no output")));
}

fn reasoning(items: &[Item<'_>], found: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let mut add = |told: String| {
            found.push(Violation::new(Rule::O3, format!("input.{at}"), told));
        };
        if let Some(id) = item.text("id").filter(|id| !seen.insert(id.clone())) {
            add(format!("a second item `{id}`"));
        }
        if item.word("type") == "reasoning" && !items.get(at + 1).is_some_and(is_models) {
            add("reasoning without the item that it belongs to".to_owned());
        }
    }
}

/// Says whether an item is the model's own.
fn is_models(item: &Item<'_>) -> bool {
    match &*item.word("type") {
        "function_call_output" => false,
        "message" | "" => item.word("role") == "assistant",
        kind => kind == "reasoning" || kind.ends_with("_call"),
    }
}

fn by_id(items: &[Item<'_>], found: &mut Vec<Violation>) {
    for (at, item) in items.iter().enumerate() {
        let told = match &*item.word("type") {
            "reasoning" if item.word("encrypted_content").is_empty() => {
                "reasoning without `encrypted_content`"
            }
            "item_reference" => "an item by its id",
            _ => continue,
        };
        found.push(Violation::new(Rule::O4, format!("input.{at}"), told));
    }
}
