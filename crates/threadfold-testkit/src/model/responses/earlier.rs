//! Fills values that an agent's earlier outputs contain into the arguments of a call.
//!
//! A script cannot know the ids that an agent chooses at runtime: of its subagents, and of
//! processes that outlive their call.

use serde_json::{Value, json};

/// Returns `arguments` with its placeholders replaced: `"{{agents}}"` by the list of the subagents
/// that the request mentions, `"{{first agent}}"` and `"{{agent}}"` by the first and the last of them,
/// `"{{process}}"` by the last process that is still running.
pub(super) fn fill(arguments: &str, request: &Value) -> String {
    if !arguments.contains("{{") {
        return arguments.to_owned();
    }
    let outputs: Vec<String> = request["input"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["type"] == "function_call_output")
        .filter_map(|it| it["output"].as_str().map(str::to_owned))
        .collect();
    let agents: Vec<String> = outputs
        .iter()
        .filter_map(|it| serde_json::from_str::<Value>(it).ok())
        .filter_map(|it| it["agent_id"].as_str().map(str::to_owned))
        .collect();
    let [first, last] = [agents.first(), agents.last()].map(|it| json!(it));
    let process = outputs.iter().rev().find_map(|it| process_in(it)).unwrap_or_default();
    arguments
        .replace("\"{{agents}}\"", &json!(agents).to_string())
        .replace("\"{{first agent}}\"", &first.to_string())
        .replace("\"{{agent}}\"", &last.to_string())
        .replace("\"{{process}}\"", &process.to_string())
}

fn process_in(output: &str) -> Option<u64> {
    let (_, rest) = output.split_once("session ID ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_earlier_outputs_replace_placeholders() {
        let output = |text: &str| json!({ "type": "function_call_output", "output": text });
        let request = json!({ "input": [
            output("{\"agent_id\":\"a1\"}"),
            output("{\"agent_id\":\"a2\"}"),
            output("Process running with session ID 417\nOutput:\n"),
        ] });
        let filled = |arguments: &str| fill(arguments, &request);
        assert_eq!(filled(r#"{"ids":"{{agents}}"}"#), r#"{"ids":["a1","a2"]}"#);
        assert_eq!(filled(r#"{"id":"{{first agent}}"}"#), r#"{"id":"a1"}"#);
        assert_eq!(filled(r#"{"id":"{{agent}}"}"#), r#"{"id":"a2"}"#);
        assert_eq!(filled(r#"{"session_id":"{{process}}"}"#), r#"{"session_id":417}"#);
        assert_eq!(filled(r#"{"cmd":"ls"}"#), r#"{"cmd":"ls"}"#);
    }
}
