//! One mutant for each rule: a valid request with one change that violates only that rule.

use threadfold_core::{
    ProviderRule, check_anthropic, check_anthropic_continuation, check_chat, check_responses,
};
use threadfold_testkit::strict::{Endpoint, ResponseStorage, StrictProvider, StrictServer};

use super::client::Client;

/// What was sent before the request to Anthropic, and what was answered.
const ASKED: &str =
    r#"{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":"look"}]}"#;
const ANSWERED: &str = r#"{"content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[]},{"type":"tool_use","id":"c1","name":"Bash","input":{}},{"type":"tool_use","id":"c2","name":"Bash","input":{}}]}"#;
const MESSAGES: &str = r#"{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":"look"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[]},{"type":"tool_use","id":"c1","name":"Bash","input":{}},{"type":"tool_use","id":"c2","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"out"},{"type":"tool_result","tool_use_id":"c2","content":"out"},{"type":"text","text":"go on"}]}]}"#;

const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"look"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"Bash","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"Bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"out"},{"role":"tool","tool_call_id":"c2","content":"out"}]}"#;

/// An answer of Responses, and the next request, which contains it.
const OUTPUT: &str = r#"{"id":"resp_1","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AA=="},{"type":"function_call","id":"fc_1","call_id":"c1","name":"Bash","arguments":"{}"}]}"#;
const STORED: &str = r#"{"id":"resp_0","output":[]}"#;
const RESPONSES: &str = r#"{"model":"m","store":false,"previous_response_id":"resp_0","input":[{"type":"message","role":"user","content":"look"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AA=="},{"type":"function_call","id":"fc_1","call_id":"c1","name":"Bash","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"out"}]}"#;

/// Returns the mutant of a rule; a rule without one stops the build.
fn mutant(rule: ProviderRule) -> (Endpoint, String) {
    let messages = |from: &str, to: &str| (Endpoint::Messages, changed(MESSAGES, from, to));
    let responses = |from: &str, to: &str| (Endpoint::Responses, changed(RESPONSES, from, to));
    let mark = r#""cache_control":{"type":"ephemeral"}"#;
    match rule {
        ProviderRule::A1 => messages(r#",{"type":"tool_result","tool_use_id":"c2","content":"out"}"#, ""),
        ProviderRule::A2 => {
            messages(r#""content":"out"},{"type":"text""#, r#""content":"out"},{"type":"tool_result","tool_use_id":"c9","content":"out"},{"type":"text""#)
        }
        ProviderRule::A3 => (
            Endpoint::Messages,
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":"hi"}]}"#.to_owned(),
        ),
        ProviderRule::A4 => messages("go on", r"\n "),
        ProviderRule::A5 => messages(r#""thinking":"hm""#, r#""thinking":"Hm""#),
        ProviderRule::A6 => messages(r#""content":"look""#, r#""content":"look!""#),
        ProviderRule::A7 => messages("go on", r"go \ud800 on"),
        ProviderRule::A8 => messages("go on", &"a".repeat(32_000_000)),
        ProviderRule::A9 => messages(
            r#"{"type":"text","text":"go on"}"#,
            &vec![format!(r#"{{"type":"text","text":"go on",{mark}}}"#); 5].join(","),
        ),
        ProviderRule::A10 => (
            Endpoint::Messages,
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"look"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},{"type":"text","text":"hi"}]}]}"#.to_owned(),
        ),
        ProviderRule::O1 => (
            Endpoint::ChatCompletions,
            changed(CHAT, r#",{"role":"tool","tool_call_id":"c2","content":"out"}"#, ""),
        ),
        ProviderRule::O2 => responses(r#",{"type":"function_call_output","call_id":"c1","output":"out"}"#, ""),
        ProviderRule::O3 => responses(
            r#""encrypted_content":"AA=="},"#,
            r#""encrypted_content":"AA=="},{"type":"message","role":"user","content":"wait"},"#,
        ),
        ProviderRule::O4 => responses(r#","encrypted_content":"AA==""#, ""),
        ProviderRule::O5 => responses("resp_0", "resp_9"),
    }
}

fn changed(request: &str, from: &str, to: &str) -> String {
    assert_eq!(request.matches(from).count(), 1, "{from}");
    request.replace(from, to)
}

fn remember(provider: &StrictProvider) {
    provider.gave_message(ASKED.as_bytes(), ANSWERED.as_bytes());
    provider.gave_response(OUTPUT.as_bytes(), ResponseStorage::NotStored);
    provider.gave_response(STORED.as_bytes(), ResponseStorage::Stored);
}

/// Returns the rules that a request breaks, as the core's validator has it.
fn validated(endpoint: Endpoint, body: &str) -> Vec<String> {
    let body = body.as_bytes();
    let found = match endpoint {
        Endpoint::Messages => {
            let (asked, answered) = (ASKED.as_bytes(), ANSWERED.as_bytes());
            let mut found = check_anthropic(body);
            if found.is_empty() {
                found = check_anthropic_continuation(asked, answered, body);
            }
            found
        }
        Endpoint::ChatCompletions => check_chat(body),
        Endpoint::Responses => check_responses(body, |id| id == "resp_0"),
    };
    let mut rules: Vec<_> = found.iter().map(|it| it.rule.to_string()).collect();
    rules.dedup();
    rules
}

#[test]
fn the_unmutated_requests_are_accepted() {
    let server = StrictServer::start().unwrap();
    remember(server.provider());
    let mut client = Client::connect(&server);
    for (endpoint, body) in [
        (Endpoint::Messages, MESSAGES),
        (Endpoint::ChatCompletions, CHAT),
        (Endpoint::Responses, RESPONSES),
    ] {
        let (status, told) = client.post(endpoint, body.as_bytes());
        assert_eq!((status, validated(endpoint, body)), (200, Vec::new()), "{told}");
    }
}

#[test]
fn each_rule_has_a_mutant_that_breaks_it_and_no_other() {
    let server = StrictServer::start().unwrap();
    remember(server.provider());
    let mut client = Client::connect(&server);
    for rule in ProviderRule::ALL {
        let (endpoint, body) = mutant(*rule);
        let name = rule.to_string();
        let refusals = server.provider().judge(endpoint, body.as_bytes());
        assert!(!refusals.is_empty(), "{name} is not noticed");
        assert!(refusals.iter().all(|it| it.rule == name), "{name}: {refusals:?}");
        let (status, told) = client.post(endpoint, body.as_bytes());
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let message = told["error"]["message"].as_str().unwrap();
        assert_eq!((status, message.split(':').next()), (400, Some(&*name)), "{message}");
        assert_eq!(told["error"]["type"], "invalid_request_error");
        assert_eq!(validated(endpoint, &body), [name], "the validator");
    }
    assert_eq!(server.refused(), ProviderRule::ALL.len() as u64);
}
