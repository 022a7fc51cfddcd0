//! Every rule is broken once and detected.

use super::*;

/// A valid request, from which the invalid ones are derived.
const GOOD: &str = r#"{"system":[{"type":"text","text":"s"}],"messages":[
    {"role":"user","content":"look"},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},
        {"type":"server_tool_use","id":"s1","name":"web_search","input":{}},
        {"type":"web_search_tool_result","tool_use_id":"s1","content":[]},
        {"type":"tool_use","id":"c1","name":"Bash","input":{}},
        {"type":"tool_use","id":"c2","name":"Bash","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"out"},
        {"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"out"}]},
        {"type":"text","text":"go on"}]}]}"#;

fn mutant(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let found = check_anthropic(GOOD.replace(from, to).as_bytes());
    format!("{}\n", list(&found))
}

#[test]
fn a_valid_anthropic_request_has_no_violations() {
    assert_eq!(check_anthropic(GOOD.as_bytes()), []);
    assert_eq!(check_anthropic(b"[]"), []);
}

#[test]
fn every_anthropic_rule_is_detected() {
    let mutants = [
        mutant(r#"{"type":"tool_result","tool_use_id":"c1","content":"out"},"#, ""),
        mutant(
            r#"[{"type":"tool_result","tool_use_id":"c1","content":"out"}"#,
            r#"[{"type":"text","text":"no"},{"type":"tool_result","tool_use_id":"c1","content":"out"}"#,
        ),
        mutant(
            r#""tool_use_id":"c1","content":"out"}"#,
            r#""tool_use_id":"c1","content":"out"},{"type":"tool_result","tool_use_id":"c9","content":"out"}"#,
        ),
        mutant(
            r#""tool_use_id":"c1","content":"out"}"#,
            r#""tool_use_id":"c1","content":"out"},{"type":"tool_result","tool_use_id":"c1","content":"out"}"#,
        ),
        mutant(r#""id":"c2""#, r#""id":"c1""#),
        mutant(r#"{"role":"user","content":"look"},"#, ""),
        mutant(
            r#"{"role":"user","content":"look"}"#,
            r#"{"role":"user","content":"look"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"}]}"#,
        ),
        mutant(r#""role":"user","content":"look""#, r#""role":"system","content":"look""#),
        mutant(r#""content":"look""#, r#""content":" \n""#),
        mutant(r#""content":"look""#, r#""content":[]"#),
        mutant(r#""content":"out""#, r#""content":"""#),
        mutant(r#""content":"out""#, r#""content":[]"#),
        mutant(r#","signature":"sig""#, ""),
        mutant(r#""signature":"sig""#, r#""signature":"sig","cache_control":{"type":"ephemeral"}"#),
        mutant("look", r"look \ud800"),
        mutant(r#"{"role":"user","content":"look"},"#, r#"{"role":"user","content":"look"},,"#),
        mutant(r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]},"#, ""),
        mutant(r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},"#, ""),
    ];
    assert_snapshot!(mutants.concat(), @"
    A1 at `messages.1`: call `c1` has no result in the next message
    A1 at `messages.2.content.2`: a result after `text`
    A2 at `messages.2`: a result for `c9`, which the previous message did not call
    A2 at `messages.2`: a second result for `c1`
    A2 at `messages.1`: a second call `c1`
    A2 at `messages.2`: a result for `c2`, which the previous message did not call
    A3 at `messages.0`: the first message is from `assistant`
    A3 at `messages.1`: the message ends with `thinking`
    A3 at `messages.0`: the role `system`
    A3 at `messages.0`: the first message is from `system`
    A4 at `messages.0.content.0`: an empty text
    A4 at `messages.0`: no content
    A4 at `messages.2.content.0`: an empty output
    A4 at `messages.2.content.0`: an empty output
    A5 at `messages.1.content.0`: `thinking` without `signature`
    A5 at `messages.1.content.0`: `thinking` with `cache_control`
    A7: a lone surrogate
    A7: expected value at line 2 column 38
    A10 at `messages.1.content.1`: `s1` has no result
    A10 at `messages.1.content.1`: a result for `s1` without its call
    ");
}

#[test]
fn every_rule_is_documented() {
    let page = include_str!("../../../../../docs/reference/provider-rules.md");
    let documented: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let rules: Vec<_> = ProviderRule::ALL.iter().map(ProviderRule::to_string).collect();
    assert_eq!(documented, rules);
}

#[test]
fn invalid_utf8_is_refused() {
    assert_eq!(check_anthropic(b"[\"\xff\"]")[0].rule, ProviderRule::A7);
    assert_eq!(check_chat(b"[\"\xff\"]")[0].rule, ProviderRule::A7);
    assert_eq!(check_responses(b"[\"\xff\"]", |_| true)[0].rule, ProviderRule::A7);
}

#[test]
fn surrogate_pairs_and_escaped_backslashes_are_valid() {
    assert_eq!(check_anthropic(br#"[{"role":"user","content":"\ud83d\ude00 \\ud800"}]"#), []);
}

#[test]
fn oversized_requests_and_images_are_refused() {
    let data = "A".repeat(5_000_001);
    let image = format!(
        r#"[{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}]}}]"#
    );
    assert_eq!(check_anthropic(image.as_bytes())[0].rule, ProviderRule::A8);
    let text = format!(r#"[{{"role":"user","content":"{}"}}]"#, "a".repeat(32_000_000));
    assert_eq!(check_anthropic(text.as_bytes())[0].rule, ProviderRule::A8);
}

#[test]
fn a_fifth_cache_control_mark_is_refused() {
    let request = |marks: usize| {
        let block = r#"{"type":"text","text":"t","cache_control":{"type":"ephemeral"}}"#;
        let blocks = vec![block; marks].join(",");
        format!(r#"{{"system":[{block}],"messages":[{{"role":"user","content":[{blocks}]}}]}}"#)
    };
    assert_eq!(check_anthropic(request(3).as_bytes()), []);
    assert_eq!(check_anthropic(request(4).as_bytes())[0].rule, ProviderRule::A9);
}

#[test]
fn thinking_and_everything_before_it_must_be_unchanged() {
    let before =
        r#"{"system":"s","tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"look"}]}"#;
    let answer = r#"{"content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"tool_use","id":"c1","name":"Bash","input":{}}]}"#;
    let after = r#"{"system":"s","tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"look"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"tool_use","id":"c1","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"out"}]}]}"#;
    let check = |from: &str, to: &str| {
        assert!(after.contains(from), "{from}");
        let request = after.replacen(from, to, 1);
        let found =
            check_anthropic_continuation(before.as_bytes(), answer.as_bytes(), request.as_bytes());
        format!("{}\n", list(&found))
    };
    assert_eq!(check("look", "look"), "\n");
    let found = [
        check(r#""thinking":"hm""#, r#""thinking": "hm""#),
        check(r#"{"type":"thinking","thinking":"hm","signature":"sig"},"#, ""),
        check(r#""system":"s""#, r#""system":"t""#),
        check(r#"{"name":"Bash"}"#, r#"{ "name":"Bash"}"#),
        check("look", "look!"),
    ];
    assert_snapshot!(found.concat(), @"
    A5 at `messages.1`: 1 thinking blocks, not as the 1 given
    A5 at `messages.1`: 0 thinking blocks, not as the 1 given
    A6 at `system`: changed since the thinking was produced
    A6 at `tools`: changed since the thinking was produced
    A6 at `messages.0`: changed since the thinking was produced
    ");
}

#[test]
fn every_openai_rule_is_detected() {
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1"},{"id":"c2"}]}"#;
    let result = |id: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"o"}}"#);
    let user = r#"{"role":"user","content":"u"}"#;
    let chat = |messages: &[&str]| {
        let request = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        format!("{}\n", list(&check_chat(request.as_bytes())))
    };
    let (first, second) = (result("c1"), result("c2"));
    assert_eq!(chat(&[user, call, &second, &first, user]), "\n");
    let item = |kind: &str, rest: &str| format!(r#"{{"type":"{kind}",{rest}}}"#);
    let call_item = item("function_call", r#""call_id":"c1","name":"Bash","arguments":"{}""#);
    let output = item("function_call_output", r#""call_id":"c1","output":"o""#);
    let reasoning = item("reasoning", r#""id":"r1","summary":[],"encrypted_content":"AA==""#);
    let by_id = item("reasoning", r#""id":"r1","summary":[]"#);
    let prompt = item("message", r#""role":"user","content":[]"#);
    let responses = |fields: &str, items: &[&str]| {
        let request = format!(r#"{{{fields}"input":[{}]}}"#, items.join(","));
        let found = check_responses(request.as_bytes(), |id| id == "kept");
        format!("{}\n", list(&found))
    };
    assert_eq!(responses("", &[&prompt, &reasoning, &call_item, &output]), "\n");
    assert_eq!(responses(r#""store":true,"#, &[&prompt, &by_id, &call_item, &output]), "\n");
    assert_eq!(responses(r#""previous_response_id":"kept","#, &[&output]), "\n");
    let found = [
        chat(&[user, call, &first, user]),
        chat(&[user, call, &first]),
        chat(&[user, &first]),
        chat(&[user, call, &first, &first, &second]),
        responses("", &[&prompt, &call_item]),
        responses("", &[&prompt, &output]),
        responses("", &[&output, &call_item]),
        responses("", &[&call_item, &output, &call_item, &output]),
        responses("", &[&prompt, &reasoning]),
        responses("", &[&reasoning, &prompt]),
        responses("", &[&reasoning, &reasoning, &call_item, &output]),
        responses("", &[&by_id, &call_item, &output]),
        responses("", &[r#"{"type":"item_reference","id":"x"}"#]),
        responses(r#""previous_response_id":"gone","#, &[&prompt]),
    ];
    assert_snapshot!(found.concat(), @"
    O1 at `messages.3`: call `c2` has no result before this message
    O1 at `messages.3`: call `c2` has no result
    O1 at `messages.1`: a result for `c1`, which is not an open call
    O1 at `messages.3`: a result for `c1`, which is not an open call
    O2 at `input.1`: call `c1` has no output
    O2 at `input.1`: an output for `c1`, which is not an open call
    O2 at `input.0`: an output for `c1`, which is not an open call
    O2 at `input.1`: call `c1` has no output
    O2 at `input.2`: a second call `c1`
    O3 at `input.1`: reasoning without the item that follows it
    O3 at `input.0`: reasoning without the item that follows it
    O3 at `input.1`: a second item `r1`
    O4 at `input.0`: reasoning without `encrypted_content`
    O4 at `input.0`: a reference to an item by id
    O5 at `previous_response_id`: response `gone` was not stored
    ");
}

#[test]
fn server_tool_calls_and_results_must_be_paired() {
    let call = r#"{"type":"mcp_tool_use","id":"m1","name":"ask","server_name":"s","input":{}}"#;
    let result = r#"{"type":"mcp_tool_result","tool_use_id":"m1","content":[]}"#;
    let check = |blocks: &[&str]| {
        let blocks = blocks.join(",");
        let request = format!(
            r#"[{{"role":"user","content":"u"}},{{"role":"assistant","content":[{blocks}]}}]"#
        );
        list(&check_anthropic(request.as_bytes()))
    };
    assert_eq!(check(&[call, result]), "");
    let found = [check(&[call]), check(&[result]), check(&[call, result, call, result])];
    assert_snapshot!(found.join("\n"), @"
    A10 at `messages.1.content.0`: `m1` has no result
    A10 at `messages.1.content.0`: a result for `m1` without its call
    A2 at `messages.1`: a second call `m1`
    ");
}

#[test]
fn empty_message_lists_and_system_prompts_are_refused() {
    let found = [
        check_anthropic(br#"{"system":"s","messages":[]}"#),
        check_anthropic(
            br#"{"system":[{"type":"text","text":" "}],"messages":[{"role":"user","content":"u"}]}"#,
        ),
    ];
    assert_snapshot!(list(&found.concat()), @"
    A3 at `messages`: an empty list of messages
    A4 at `system.0`: an empty text
    ");
}

#[test]
fn thinking_that_cannot_be_returned_may_be_absent() {
    let before = r#"{"messages":[{"role":"user","content":"look"}]}"#;
    let check = |answer: &str, request: &str| {
        check_anthropic_continuation(before.as_bytes(), answer.as_bytes(), request.as_bytes())
    };
    let call = r#"{"type":"tool_use","id":"c1","name":"Bash","input":{}}"#;
    let thinking = r#"{"type":"thinking","thinking":"hm","signature":"sig"}"#;
    let result =
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"o"}]}"#;
    let request = |prompt: &str, answer: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"{prompt}"}},{{"role":"assistant","content":[{answer}]}},{result}]}}"#
        )
    };
    let answer = |blocks: &[&str]| format!(r#"{{"content":[{}]}}"#, blocks.join(","));

    let at_the_end = answer(&[call, thinking]);
    assert_eq!(check(&at_the_end, &request("look", call)), []);
    let before_nothing = answer(&[call, thinking, r#"{"type":"text","text":"\n"}"#]);
    assert_eq!(check(&before_nothing, &request("look", call)), []);
    let behind_a_change = answer(&[thinking, call]);
    assert_eq!(check(&behind_a_change, &request("look there", call)), []);
    assert_eq!(check(&behind_a_change, &request("look", call))[0].rule, ProviderRule::A5);
}
