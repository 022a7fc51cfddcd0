//! Shortens what an agent's maker wrote, and keeps every key.
//!
//! Transcripts of newer versions contain the system prompt, the descriptions of tools and the
//! requests. They are not ours to publish, and no test needs their words.

use serde_json::Value;

/// How many characters of a vendor's text are kept.
const KEPT: usize = 40;
/// How many items of a vendor's list are kept.
const ITEMS: usize = 3;

/// Attachments that contain parts of the conversation, or output of the user's own programs.
const CONVERSATION: &[&str] =
    &["queued_command", "file", "edited_text_file", "command_permissions"];

/// Shortens the records of a transcript; a line without anything to shorten stays as it is.
pub(super) fn abridge(transcript: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(transcript.len());
    for line in transcript.split_inclusive(|it| *it == b'\n') {
        match abridged_record(line) {
            Some(record) => {
                all.extend_from_slice(record.to_string().as_bytes());
                all.push(b'\n');
            }
            None => all.extend_from_slice(line),
        }
    }
    all
}

/// Returns the record shortened, if it is one of the vendor's and has something to shorten.
fn abridged_record(line: &[u8]) -> Option<Value> {
    let mut record: Value = serde_json::from_slice(line).ok()?;
    let before = record.clone();
    let kind = record["type"].as_str()?.to_owned();
    let is_vendors = match kind.as_str() {
        // Newer versions repeat an attachment beside it, as it was `rendered` for the model.
        "attachment" => !is_conversation(&record["attachment"]),
        "session_meta" | "turn_context" | "world_state" => true,
        "response_item" => is_instruction(&record["payload"]),
        _ => kind.starts_with("api-request"),
    };
    if is_vendors {
        shorten(&mut record);
    }
    let kept = record.pointer_mut("/payload/replacement_history").and_then(Value::as_array_mut);
    for item in kept.into_iter().flatten() {
        if is_instruction(item) {
            shorten(item);
        }
    }
    (record != before).then_some(record)
}

/// Returns whether an item of Codex is its maker's: instructions, and the tools of code mode. Older
/// versions send instructions in the user's name.
fn is_instruction(item: &Value) -> bool {
    let text = item.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
    item["role"] == "developer"
        || item["type"] == "additional_tools"
        || text.starts_with("# AGENTS.md instructions")
}

fn is_conversation(attachment: &Value) -> bool {
    let kind = attachment["type"].as_str().unwrap_or_default();
    CONVERSATION.contains(&kind) || kind.contains("hook")
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            // An id or a hash is longer than what is kept of a text, and has no space.
            let count = text.chars().count();
            if count > 2 * KEPT && text.contains(char::is_whitespace) {
                let kept: String = text.chars().take(KEPT).collect();
                *text = format!("{kept}<{} more characters>", count - KEPT);
            }
        }
        Value::Array(items) => {
            let more = items.len().saturating_sub(ITEMS);
            // Ids are kept whole, texts and objects are the vendor's.
            let is_text =
                |it: &Value| it.is_object() || it.as_str().is_some_and(|it| it.len() > KEPT);
            if more > 0 && items.iter().any(is_text) {
                items.truncate(ITEMS);
                items.push(Value::String(format!("<{more} more items>")));
            }
            items.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    // The machine's own, and nobody else's business.
                    "osVersion" => *value = Value::from(std::env::consts::OS),
                    _ => shorten(value),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn abridged(record: &Value) -> Value {
        let bytes = abridge(format!("{record}\n").as_bytes());
        assert_eq!(bytes.last(), Some(&b'\n'));
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn a_vendors_prompt_is_shortened_and_keeps_its_keys() {
        let long = "You are an agent. ".repeat(20);
        let tool = json!({"name": "Bash", "schema": {"description": long}});
        let snapshot = json!({"type": "prompt_snapshot", "systemPrompt": [long],
            "tools": [tool, tool, tool, tool, tool]});
        let record = json!({"type": "attachment", "uuid": "u1", "attachment": snapshot,
            "rendered": [{"content": long}]});
        let short = "You are an agent. You are an agent. You <320 more characters>";
        let tool = json!({"name": "Bash", "schema": {"description": short}});
        let snapshot = json!({"type": "prompt_snapshot", "systemPrompt": [short],
            "tools": [tool, tool, tool, "<2 more items>"]});
        assert_eq!(
            abridged(&record),
            json!({"type": "attachment", "uuid": "u1", "attachment": snapshot,
                "rendered": [{"content": short}]})
        );

        let environment = json!({"type": "environment", "snapshot": {"osVersion": "Kernel 1.2.3"}});
        let environment = abridged(&json!({"type": "attachment", "attachment": environment}));
        assert_eq!(environment["attachment"]["snapshot"]["osVersion"], std::env::consts::OS);

        let request = abridged(&json!({"type": "api-request-blob", "data": {"text": long}}));
        assert_eq!(request["data"]["text"], short);
    }

    #[test]
    fn instructions_in_a_rollout_are_shortened_and_prompts_are_not() {
        let long = "You are an agent. ".repeat(20);
        let short = "You are an agent. You are an agent. You <320 more characters>";
        let message = |role: &str, text: &str| {
            let content = json!([{"type": "input_text", "text": text}]);
            json!({"type": "message", "role": role, "content": content})
        };
        let item = |role, text| json!({"type": "response_item", "payload": message(role, text)});
        assert_eq!(abridged(&item("developer", &long)), item("developer", short));
        assert_eq!(abridged(&item("user", &long)), item("user", &long));
        let project = abridged(&item("user", &format!("# AGENTS.md instructions for /p\n{long}")));
        assert!(project.to_string().len() < long.len(), "{project}");

        let meta = |text: &str| {
            let instructions = json!({"text": text});
            json!({"type": "session_meta", "payload": {"id": "t1", "base_instructions": instructions}})
        };
        assert_eq!(abridged(&meta(&long)), meta(short));

        let compacted = |text: &str| {
            let history = json!([message("developer", text), message("user", &long)]);
            json!({"type": "compacted", "payload": {"replacement_history": history}})
        };
        assert_eq!(abridged(&compacted(&long)), compacted(short));
    }

    #[test]
    fn what_the_session_said_stays_as_it_is() {
        let long = "A long answer. ".repeat(40);
        let records = [
            json!({"type": "assistant", "message": {"content": [{"type": "text", "text": long}]}}),
            json!({"type": "attachment",
                "attachment": {"type": "queued_command", "prompt": long}}),
            json!({"type": "attachment", "attachment": {"type": "hook_success", "stdout": long}}),
        ];
        for record in records {
            assert_eq!(abridged(&record), record);
        }
        assert_eq!(abridge(b"{\"type\": \"half\nno json\n"), b"{\"type\": \"half\nno json\n");
    }
}
