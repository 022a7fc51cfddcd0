//! Validates requests to OpenAI's Chat Completions.

use super::{Refusal, json::Value};

pub(super) fn judge(request: &Value<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if request.word("model").is_empty() {
        refusals.push(Refusal::shape("`model` is not there"));
    }
    let messages = request.items("messages");
    if messages.is_empty() {
        refusals.push(Refusal::shape("`messages` is not a list of messages"));
    }
    // The calls of the last answer that have no result yet.
    let mut waiting: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let Some(found) = misshapen(message) {
            refusals.push(Refusal::shape(format!("messages.{at}: {found}")));
        }
        if message.word("role") == "tool" {
            let id = message.word("tool_call_id");
            let before = waiting.len();
            waiting.retain(|call| *call != id);
            if waiting.len() == before {
                let found = format!("messages.{at}: `{id}` is no call that waits for a result");
                refusals.push(Refusal::new("O1", found));
            }
            continue;
        }
        refusals.extend(unanswered(&waiting, at));
        waiting = message.items("tool_calls").iter().map(|call| call.word("id")).collect();
        let mut names = waiting.clone();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            refusals.push(Refusal::new("O1", format!("messages.{at}: two calls have one id")));
        }
    }
    refusals.extend(unanswered(&waiting, messages.len()));
    refusals
}

fn unanswered(waiting: &[&str], before: usize) -> Option<Refusal> {
    let found = format!("before messages.{before}: no `tool` message for {}", waiting.join(", "));
    (!waiting.is_empty()).then(|| Refusal::new("O1", found))
}

/// Returns the violations of a single message.
fn misshapen(message: &Value<'_>) -> Option<String> {
    let content = message.get("content");
    let is_said = content.is_some_and(|it| it.as_text().is_some() || is_parts(it));
    match message.word("role") {
        "system" | "developer" | "user" if is_said => None,
        "tool" if is_said && !message.word("tool_call_id").is_empty() => None,
        "assistant" => {
            let calls = message.items("tool_calls");
            if calls.is_empty() && (message.get("tool_calls").is_some() || !is_said) {
                return Some("neither `content` nor `tool_calls`".to_owned());
            }
            let is_call = |call: &Value<'_>| {
                let function = call.get("function");
                let has = |name| function.is_some_and(|it| !it.word(name).is_empty());
                let arguments = function.and_then(|it| it.get("arguments"));
                call.word("type") == "function"
                    && !call.word("id").is_empty()
                    && has("name")
                    && arguments.is_some_and(|it| it.as_text().is_some())
            };
            (!calls.iter().all(is_call)).then(|| "a call that is none".to_owned())
        }
        role => Some(format!("`{role}` has no content, or is not allowed")),
    }
}

fn is_parts(content: &Value<'_>) -> bool {
    let is_part = |part: &Value<'_>| match part.word("type") {
        "text" => !part.word("text").is_empty(),
        "image_url" => part.get("image_url").is_some_and(|it| !it.word("url").is_empty()),
        _ => false,
    };
    content.as_list().is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_part))
}
