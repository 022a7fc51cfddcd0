//! Messages rendered for each provider.

use super::*;

fn history() -> Vec<ConversationMessage> {
    let mut answer = calling(&["c1"]);
    answer.content = vec![
        MessagePart::thinking("hm", "sig"),
        native("anthropic", r#"{ "type":"redacted_thinking","data":"AA==" }"#),
        native("openai", r#"{ "type":"reasoning","id":"r1","encrypted_content":"AA==" }"#),
        MessagePart::text("I look."),
        MessagePart::text(" "),
    ];
    answer.tool_calls.push(ToolCall::new("c2", "Bash", r#"{ "z": 1.0, "a": "\ud800" }"#));
    answer.tool_calls.push(ToolCall::new("c3", "Bash", "{ not json"));
    let mut prompt = user("look");
    prompt.content.push(serde_part(r#"{"type":"image","mediaType":"image/png","data":"AA=="}"#));
    let mut failed = ConversationMessage::result("c2", "");
    failed.is_error = true;
    vec![
        ConversationMessage::text(Role::System, "be kind"),
        prompt,
        answer,
        result("c1"),
        failed,
        result("c3"),
        user("thanks"),
    ]
}

fn serde_part(part: &str) -> MessagePart {
    let message = format!(r#"{{"role":"user","content":[{part}]}}"#);
    ConversationMessage::from_json(&message).unwrap().content.remove(0)
}

#[test]
fn for_anthropic() {
    assert_snapshot!(render_anthropic(&history()), @r#"[{"role":"user","content":[{"type":"text","text":"be kind"}]},{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{ "type":"redacted_thinking","data":"AA==" },{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"Bash","input":{}},{"type":"tool_use","id":"c2","name":"Bash","input":{ "z": 1.0, "a": "\ufffd" }},{"type":"tool_use","id":"c3","name":"Bash","input":{"arguments":"{ not json"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"out"}]},{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"(no output)"}],"is_error":true},{"type":"tool_result","tool_use_id":"c3","content":[{"type":"text","text":"out"}]}]},{"role":"user","content":[{"type":"text","text":"thanks"}]}]"#);
}

#[test]
fn for_chat_completions() {
    assert_snapshot!(render_chat(&history()), @r#"[{"role":"system","content":"be kind"},{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},{"role":"assistant","content":"I look. ","tool_calls":[{"id":"c1","type":"function","function":{"name":"Bash","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"Bash","arguments":"{ \"z\": 1.0, \"a\": \"\\ud800\" }"}},{"id":"c3","type":"function","function":{"name":"Bash","arguments":"{ not json"}}]},{"role":"tool","content":"out","tool_call_id":"c1"},{"role":"tool","content":"(no output)","tool_call_id":"c2"},{"role":"tool","content":"out","tool_call_id":"c3"},{"role":"user","content":"thanks"}]"#);
}

#[test]
fn for_responses() {
    assert_snapshot!(render_responses(&history()), @r#"[{"type":"message","role":"system","content":[{"type":"input_text","text":"be kind"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]},{ "type":"reasoning","id":"r1","encrypted_content":"AA==" },{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},{"type":"function_call","call_id":"c1","name":"Bash","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"Bash","arguments":"{ \"z\": 1.0, \"a\": \"\\ud800\" }"},{"type":"function_call","call_id":"c3","name":"Bash","arguments":"{ not json"},{"type":"function_call_output","call_id":"c1","output":"out"},{"type":"function_call_output","call_id":"c2","output":"(no output)"},{"type":"function_call_output","call_id":"c3","output":"out"},{"type":"message","role":"user","content":[{"type":"input_text","text":"thanks"}]}]"#);
}

#[test]
fn native_calls_are_returned_verbatim() {
    let mut answer = calling(&["c1"]);
    answer.content = vec![
        native("anthropic", r#"{ "type":"tool_use","id":"c1","name":"Bash","input":{ } }"#),
        native(
            "openai",
            r#"{ "type":"function_call","id":"f1","call_id":"c1","name":"Bash","arguments":"{}" }"#,
        ),
    ];
    let rendered = [render_anthropic(&[user("u"), answer.clone()]), render_responses(&[answer])];
    assert_snapshot!(rendered.map(|it| it.to_string()).join("\n"), @r#"
    [{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":[{ "type":"tool_use","id":"c1","name":"Bash","input":{ } }]}]
    [{ "type":"function_call","id":"f1","call_id":"c1","name":"Bash","arguments":"{}" }]
    "#);
}

#[test]
fn call_ids_are_made_valid_for_anthropic() {
    let calls = ["functions.list:0", "functions_list:0", "call_1"];
    let answer = calling(&calls);
    let history = [vec![user("u"), answer], calls.map(result).to_vec()].concat();
    let rendered = render_anthropic(&history);
    let request = format!(r#"{{"max_tokens":1,"messages":{rendered}}}"#);
    assert_eq!(check_anthropic(request.as_bytes()), []);
    let named = |field: &str| -> Vec<String> {
        let mark = format!(r#""{field}":""#);
        let parts = rendered.as_str().split(&mark).skip(1);
        parts.map(|it| it.split('"').next().unwrap().to_owned()).collect()
    };
    assert_eq!(named("id"), named("tool_use_id"));
    assert_snapshot!(named("id").join(" "), @"functions_list_0-f5e06bcc functions_list_0-05e7f099 call_1");
}

#[test]
fn unencrypted_or_trailing_reasoning_is_omitted() {
    let encrypted = r#"{"type":"reasoning","id":"r1","encrypted_content":"AA=="}"#;
    let mut answer = ConversationMessage::new(Role::Assistant);
    answer.content = vec![
        native("openai", r#"{"type":"reasoning","id":"r0"}"#),
        MessagePart::text("hi"),
        native("openai", encrypted),
        MessagePart::text(" "),
    ];
    assert_snapshot!(render_responses(&[answer]), @r#"[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}]"#);
}

#[test]
fn a_leading_answer_gets_a_user_message_before_it() {
    let rendered = render_anthropic(&[user(" "), ConversationMessage::text(Role::Assistant, "hi")]);
    assert_eq!(check_anthropic(rendered.as_str().as_bytes()), []);
    assert_snapshot!(rendered, @r#"[{"role":"user","content":[{"type":"text","text":"(continued)"}]},{"role":"assistant","content":[{"type":"text","text":"hi"}]}]"#);
}

#[test]
fn appending_to_a_blank_prompt_does_not_change_the_first_message() {
    let blank = user(" ");
    let alone = render_anthropic(std::slice::from_ref(&blank));
    assert_snapshot!(alone, @r#"[{"role":"user","content":[{"type":"text","text":"(continued)"}]}]"#);
    let more = render_anthropic(&[blank, user("hi")]);
    assert!(more.as_str().starts_with(alone.as_str().trim_end_matches(']')), "{more}");
}

#[test]
fn items_without_their_reasoning_are_sent_without_ids() {
    let mut answer = calling(&["c1"]);
    answer.content = vec![
        native("openai", r#"{"type":"reasoning","id":"r1","summary":[]}"#),
        native("openai", r#"{"type":"web_search_call","id":"w1"}"#),
        native(
            "openai",
            r#"{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"I look."}]}"#,
        ),
        native(
            "openai",
            r#"{"type":"function_call","id":"f1","call_id":"c1","name":"Bash","arguments":"{}"}"#,
        ),
    ];
    assert_snapshot!(render_responses(&[answer]), @r#"[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},{"type":"function_call","call_id":"c1","name":"Bash","arguments":"{}"}]"#);
}

#[test]
fn text_is_returned_to_its_provider_as_the_native_item() {
    let block = r#"{"type":"text","text":"hi","citations":[{ "z":1 }]}"#;
    let item = r#"{"id":"m1","type":"message","content":[{"type":"output_text","text":"hi"}]}"#;
    let rendered = |provider: &str, item: &str| {
        let mut answer = ConversationMessage::new(Role::Assistant);
        let item = Json::parse(item).unwrap();
        answer.content = vec![MessagePart::text("hi").with_native(provider, item)];
        answer
    };
    let plain = ConversationMessage::text(Role::Assistant, "hi");
    let both = [rendered("anthropic", block), rendered("openai", item)];
    assert_eq!(
        Dialect::Anthropic.items(&both[..1])[0].as_str(),
        format!(r#"{{"role":"assistant","content":[{block}]}}"#)
    );
    assert_eq!(Dialect::Responses.items(&both[1..])[0].as_str(), item);
    let others = [Dialect::Anthropic.items(&both[1..]), Dialect::Responses.items(&both[..1])];
    let of_plain =
        [Dialect::Anthropic, Dialect::Responses].map(|it| it.items(std::slice::from_ref(&plain)));
    assert_eq!(others, of_plain);
    let again = ConversationMessage::from_json(Json::of(&both[0]).as_str()).unwrap();
    assert_eq!(again, both[0]);
}

#[test]
fn images_in_tool_output_are_sent_or_replaced_by_a_placeholder() {
    let image = serde_part(r#"{"type":"image","mediaType":"image/png","data":"AA=="}"#);
    let gave = |words: &str| {
        let mut gave = ConversationMessage::result("c1", words);
        gave.content.push(image.clone());
        gave
    };
    let histories = ["", "seen"].map(|words| [user("look"), calling(&["c1"]), gave(words)]);
    assert_eq!(histories.each_ref().map(|it| broken(it)).concat(), []);
    let rendered =
        histories.map(|it| [Dialect::Chat.items(&it[2..]), Dialect::Responses.items(&it[2..])]);
    let rendered = rendered.concat().concat();
    assert_snapshot!(rendered.iter().map(Json::as_str).collect::<Vec<_>>().join("\n"), @r#"
    {"role":"tool","content":"(an image, which cannot be shown here)","tool_call_id":"c1"}
    {"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}
    {"role":"tool","content":"seen\n(an image, which cannot be shown here)","tool_call_id":"c1"}
    {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"seen"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}
    "#);
}
