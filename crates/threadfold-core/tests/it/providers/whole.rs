//! The rules of a single request a second time: a pass over the whole list for each rule, on parsed
//! values. Slow, plain, and without any code of the validators.

use std::collections::BTreeSet;

use serde_json::Value;
use threadfold_core::Dialect;

/// Returns the violations of a request, as they are displayed.
pub(super) fn check(dialect: Dialect, request: &str) -> Vec<String> {
    // The parser refuses lone surrogates, and nothing else that is JSON.
    let Ok(request) = serde_json::from_str::<Value>(request) else {
        return vec!["A7: a lone surrogate".to_owned()];
    };
    let items = request[dialect.list()].as_array().expect("a list").clone();
    match dialect {
        Dialect::Anthropic => anthropic(&request, &items),
        Dialect::Chat => chat(&items),
        Dialect::Responses => responses(&request, &items),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn is_blank(value: &Value, name: &str) -> bool {
    text(value, name).trim().is_empty()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the blocks of a message; a plain string is one of text.
fn blocks(message: &Value) -> Vec<Value> {
    match message["content"].as_str() {
        Some(text) => vec![serde_json::json!({ "type": "text", "text": text })],
        None => list(message, "content").to_vec(),
    }
}

fn ids(message: &Value, kind: &str, id: &str) -> Vec<String> {
    let blocks = blocks(message);
    let blocks = blocks.iter().filter(|it| text(it, "type") == kind);
    blocks.map(|it| text(it, id).to_owned()).collect()
}

fn anthropic(request: &Value, messages: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let results = messages.get(at + 1).map(|it| ids(it, "tool_result", "tool_use_id"));
        let results = results.unwrap_or_default();
        for call in ids(message, "tool_use", "id").iter().filter(|it| !results.contains(it)) {
            found.push(format!(
                "A1 at `messages.{at}`: call `{call}` has no result in the next message"
            ));
        }
        let blocks = blocks(message);
        let is_result = |block: &Value| text(block, "type") == "tool_result";
        let first_other = blocks.iter().position(|it| !is_result(it));
        let last_result = blocks.iter().rposition(is_result);
        if let (Some(other), Some(last)) = (first_other, last_result)
            && other < last
        {
            let kind = text(&blocks[other], "type");
            found.push(format!("A1 at `messages.{at}.content.{last}`: a result after `{kind}`"));
        }
    }
    let mut seen = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let server = blocks(message);
        let server = server.iter().filter(|it| text(it, "type").ends_with("_tool_use"));
        let server = server.map(|it| text(it, "id").to_owned());
        for call in ids(message, "tool_use", "id").into_iter().chain(server) {
            if !seen.insert(call.clone()) {
                found.push(format!("A2 at `messages.{at}`: a second call `{call}`"));
            }
        }
        let made = at.checked_sub(1).map(|before| ids(&messages[before], "tool_use", "id"));
        let made = made.unwrap_or_default();
        let mut answered = BTreeSet::new();
        for result in ids(message, "tool_result", "tool_use_id") {
            if !made.contains(&result) {
                found.push(format!("A2 at `messages.{at}`: a result for `{result}`, which the previous message did not call"));
            } else if !answered.insert(result.clone()) {
                found.push(format!("A2 at `messages.{at}`: a second result for `{result}`"));
            }
        }
    }
    for (at, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if !["user", "assistant"].contains(&role) {
            found.push(format!("A3 at `messages.{at}`: the role `{role}`"));
        }
        if at == 0 && role != "user" {
            found.push(format!("A3 at `messages.{at}`: the first message is from `{role}`"));
        }
        let last = blocks(message).last().map(|it| text(it, "type").to_owned());
        if role == "assistant"
            && let Some("thinking" | "redacted_thinking") = last.as_deref()
        {
            let kind = last.unwrap_or_default();
            found.push(format!("A3 at `messages.{at}`: the message ends with `{kind}`"));
        }
    }
    for (at, message) in messages.iter().enumerate() {
        let blocks = blocks(message);
        if blocks.is_empty() {
            found.push(format!("A4 at `messages.{at}`: no content"));
        }
        for (index, block) in blocks.iter().enumerate() {
            for what in block_alone(text(message, "role"), block) {
                let (rule, what) = what.split_at(2);
                found.push(format!("{rule} at `messages.{at}.content.{index}`:{what}"));
            }
        }
    }
    for (at, block) in list(request, "system").iter().enumerate() {
        if text(block, "type") == "text" && is_blank(block, "text") {
            found.push(format!("A4 at `system.{at}`: an empty text"));
        }
    }
    if messages.is_empty() {
        found.push("A3 at `messages`: an empty list of messages".to_owned());
    }
    for (at, message) in messages.iter().enumerate() {
        let mut open = BTreeSet::new();
        for (index, block) in blocks(message).iter().enumerate() {
            let place = format!("messages.{at}.content.{index}");
            if text(block, "type").ends_with("_tool_use") {
                open.insert((text(block, "id").to_owned(), place));
            } else if text(block, "type").ends_with("_tool_result") {
                let id = text(block, "tool_use_id");
                match open.iter().find(|(call, _)| call == id).cloned() {
                    Some(call) => _ = open.remove(&call),
                    None => found
                        .push(format!("A10 at `{place}`: a result for `{id}` without its call")),
                }
            }
        }
        let left = open.iter().map(|(id, place)| format!("A10 at `{place}`: `{id}` has no result"));
        found.extend(left);
    }
    let of_messages: Vec<_> = messages.iter().flat_map(blocks).collect();
    let in_results = of_messages.iter().flat_map(|it| list(it, "content"));
    let marked = list(request, "system").iter().chain(list(request, "tools"));
    let marked = marked.chain(&of_messages).chain(in_results);
    let marks = marked.filter(|it| !it["cache_control"].is_null()).count();
    if marks > 4 {
        found.push(format!("A9: {marks} `cache_control` marks"));
    }
    found
}

/// Returns what is wrong with a block by itself, each with its rule.
fn block_alone(role: &str, block: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match text(block, "type") {
        "text" if is_blank(block, "text") => found.push("A4 an empty text".to_owned()),
        "tool_result" => {
            let parts = list(block, "content");
            let texts = parts.iter().filter(|it| text(it, "type") == "text");
            let blank = match &block["content"] {
                Value::String(text) => usize::from(text.trim().is_empty()),
                _ if parts.is_empty() => 1,
                _ => texts.filter(|it| is_blank(it, "text")).count(),
            };
            found.extend(std::iter::repeat_n("A4 an empty output".to_owned(), blank));
        }
        kind @ ("thinking" | "redacted_thinking") => {
            let mark = if kind == "thinking" { "signature" } else { "data" };
            if is_blank(block, mark) {
                found.push(format!("A5 `{kind}` without `{mark}`"));
            }
            if !block["cache_control"].is_null() {
                found.push(format!("A5 `{kind}` with `cache_control`"));
            }
            if role != "assistant" {
                found.push(format!("A5 `{kind}` outside an assistant message"));
            }
        }
        _ => {}
    }
    found
}

fn chat(messages: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let mut add = |what: String| found.push(format!("O1 at `messages.{at}`: {what}"));
        if text(message, "role") == "tool" {
            let id = text(message, "tool_call_id");
            match open.iter().position(|call| call == id) {
                Some(place) => _ = open.remove(place),
                None => add(format!("a result for `{id}`, which is not an open call")),
            }
            continue;
        }
        for call in std::mem::take(&mut open) {
            add(format!("call `{call}` has no result before this message"));
        }
        for call in list(message, "tool_calls") {
            let id = text(call, "id").to_owned();
            if open.contains(&id) {
                add(format!("a second call `{id}`"));
            }
            open.push(id);
        }
    }
    let end = messages.len();
    let left = open.iter().map(|it| format!("O1 at `messages.{end}`: call `{it}` has no result"));
    found.extend(left);
    found
}

fn responses(request: &Value, items: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let previous = request["previous_response_id"].as_str();
    if let Some(id) = previous {
        found.push(format!("O5 at `previous_response_id`: response `{id}` was not stored"));
    }
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let id = text(item, "call_id").to_owned();
        match text(item, "type") {
            "function_call" => {
                if !seen.insert(id.clone()) {
                    found.push(format!("O2 at `input.{at}`: a second call `{id}`"));
                }
                open.push((id, at));
            }
            "function_call_output" => match open.iter().position(|(call, _)| *call == id) {
                Some(place) => _ = open.remove(place),
                None if previous.is_some() && !seen.contains(&id) => {}
                None => found.push(format!(
                    "O2 at `input.{at}`: an output for `{id}`, which is not an open call"
                )),
            },
            _ => {}
        }
    }
    for (call, at) in open {
        found.push(format!("O2 at `input.{at}`: call `{call}` has no output"));
    }
    let mut ids = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        if let Some(id) = item["id"].as_str().filter(|id| !ids.insert(id.to_owned())) {
            found.push(format!("O3 at `input.{at}`: a second item `{id}`"));
        }
        let is_led_to = items.get(at + 1).is_some_and(|next| match text(next, "type") {
            "function_call_output" => false,
            "message" | "" => text(next, "role") == "assistant",
            kind => kind == "reasoning" || kind.ends_with("_call"),
        });
        if text(item, "type") == "reasoning" && !is_led_to {
            found.push(format!("O3 at `input.{at}`: reasoning without the item that follows it"));
        }
    }
    if request["store"] != Value::Bool(true) {
        for (at, item) in items.iter().enumerate() {
            match text(item, "type") {
                "reasoning" if text(item, "encrypted_content").is_empty() => {
                    found.push(format!("O4 at `input.{at}`: reasoning without `encrypted_content`"))
                }
                "item_reference" => {
                    found.push(format!("O4 at `input.{at}`: a reference to an item by id"));
                }
                _ => {}
            }
        }
    }
    found
}
