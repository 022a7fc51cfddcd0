//! Repairs of truncated histories, and their reports.

use super::*;

/// Describes a repaired history and its repairs.
fn describe(history: &[ConversationMessage]) -> String {
    let RepairedHistory { messages, repairs, untouched } = repair(history);
    let lines = messages.iter().map(|it| {
        let calls: Vec<_> = it.tool_calls.iter().map(|call| call.call_id.as_str()).collect();
        let answers = it.tool_call_id.as_ref().map_or("", |call| call.as_str());
        let error = if it.is_error { " error" } else { "" };
        format!("{} {}{}{error} {:?}", it.role, calls.join(","), answers, it.to_text())
    });
    let mut lines: Vec<_> = lines.collect();
    lines.insert(untouched, "---".to_owned());
    lines.extend(repairs.iter().map(|it| format!("! {it}")));
    lines.join("\n")
}

#[test]
fn a_trailing_call_gets_a_result_and_nothing_else_changes() {
    assert_snapshot!(describe(&[user("u"), thinking_and_calling("c1")]), @r#"
    user  "u"
    assistant c1 ""
    ---
    tool c1 error "interrupted; its outcome is not known"
    ! added a result for call `c1`, which had none
    "#);
    let thinking = ConversationMessage {
        content: vec![MessagePart::thinking("hm", "sig")],
        ..calling(&["c1", "c2"])
    };
    assert_snapshot!(describe(&[user("u"), thinking, result("c2")]), @r#"
    user  "u"
    assistant c1,c2 ""
    tool c2 "out"
    ---
    tool c1 error "interrupted; its outcome is not known"
    ! added a result for call `c1`, which had none
    "#);
}

#[test]
fn a_defect_drops_the_thinking_after_it() {
    let history = [
        user("u"),
        thinking_and_calling("c1"),
        result("c1"),
        thinking_and_calling("c2"),
        user("and now"),
        thinking_and_calling("c3"),
        result("c3"),
    ];
    assert_snapshot!(describe(&history), @r#"
    user  "u"
    assistant c1 ""
    tool c1 "out"
    assistant c2 ""
    ---
    tool c2 error "interrupted; its outcome is not known"
    user  "and now"
    assistant c3 ""
    tool c3 "out"
    ! added a result for call `c2`, which had none
    ! dropped thinking from message 5
    "#);
    assert_eq!(repair(&history).messages[3], history[3], "made before the defect");
}

#[test]
fn native_thinking_is_dropped_and_the_call_stays() {
    let mut late = thinking_and_calling("c2");
    late.content.extend([
        native("anthropic", r#"{"type":"redacted_thinking","data":"AA=="}"#),
        native("openai", r#"{"type":"reasoning","id":"r1","encrypted_content":"AA=="}"#),
        native("openai", r#"{"type":"function_call","id":"f1","call_id":"c2"}"#),
        MessagePart::text("I look."),
    ]);
    let history = [user("u"), calling(&["c1"]), user("and now"), late, result("c2")];
    let kept = &repair(&history).messages[4];
    assert_eq!(kept.content, [MessagePart::text("I look.")]);
    assert_eq!(kept.tool_calls, calling(&["c2"]).tool_calls);
}

#[test]
fn late_results_are_moved_and_stray_results_dropped() {
    let history =
        [user("u"), calling(&["c1"]), user("and now"), result("c1"), result("c1"), result("c9")];
    assert_snapshot!(describe(&history), @r#"
    user  "u"
    assistant c1 ""
    ---
    tool c1 "out"
    user  "and now"
    ! moved the result of call `c1` to its call
    ! dropped message 4: no open call `c1` for this result
    ! dropped message 5: no open call `c9` for this result
    "#);
}

#[test]
fn a_result_belongs_to_the_nearest_call_with_its_id() {
    let mut kept = result("c1");
    kept.content = vec![MessagePart::text("later")];
    let history =
        [user("u"), calling(&["c1", "c2"]), user("u"), calling(&["c1"]), kept, result("c2")];
    assert_snapshot!(describe(&history), @r#"
    user  "u"
    assistant c1,c2 ""
    ---
    tool c2 "out"
    tool c1 error "interrupted; its outcome is not known"
    user  "u"
    assistant c1-2 ""
    tool c1-2 "later"
    ! moved the result of call `c2` to its call
    ! added a result for call `c1`, which had none
    ! renamed a second call `c1` to `c1-2`
    "#);
}

#[test]
fn duplicate_call_ids_are_renamed() {
    let history =
        [user("u"), calling(&["c", "c"]), result("c"), result("c"), calling(&["c"]), result("c")];
    assert_snapshot!(describe(&history), @r#"
    user  "u"
    ---
    assistant c,c-2 ""
    tool c "out"
    tool c-2 "out"
    assistant c-3 ""
    tool c-3 "out"
    ! renamed a second call `c` to `c-2`
    ! renamed a second call `c` to `c-3`
    "#);
    let history = [user("u"), calling(&["c"]), user("u"), calling(&["c"]), result("c")];
    assert_snapshot!(describe(&history), @r#"
    user  "u"
    assistant c ""
    ---
    tool c error "interrupted; its outcome is not known"
    user  "u"
    assistant c-2 ""
    tool c-2 "out"
    ! added a result for call `c`, which had none
    ! renamed a second call `c` to `c-2`
    "#);
}

#[test]
fn renaming_a_call_also_renames_its_native_form() {
    let spelt = |item: &str| {
        let item = format!(
            r#"{{"type":"function_call","id":"{item}","call_id":"x","name":"Bash","arguments":"{{}}"}}"#
        );
        native("openai", &item)
    };
    let mut answer = calling(&["x", "x"]);
    answer.content = vec![spelt("f1"), spelt("f2")];
    let repaired = repair(&[user("u"), answer, result("x"), result("x")]);
    let rendered = render_responses(&repaired.messages);
    let request = format!(r#"{{"input":{rendered}}}"#);
    assert_eq!(check_responses(request.as_bytes(), |_| false), []);
    let calls: Vec<_> =
        repaired.messages[1].tool_calls.iter().map(|it| it.call_id.as_str()).collect();
    assert_eq!(calls, ["x", "x-2"]);
    for item in [r#""id":"f1","call_id":"x""#, r#""id":"f2","call_id":"x-2""#] {
        assert!(rendered.as_str().contains(item), "{rendered}");
    }
}

#[test]
fn unpaired_and_duplicate_items_are_dropped() {
    let mut first = ConversationMessage::text(Role::Assistant, "a");
    first.content.push(native("openai", r#"{"type":"web_search_call","id":"w1"}"#));
    let mut second = ConversationMessage::text(Role::Assistant, "b");
    second.content.push(native("openai", r#"{"type":"web_search_call","id":"w1"}"#));
    second.content.push(native("anthropic", r#"{"type":"server_tool_use","id":"s1"}"#));
    second.content.push(native("anthropic", r#"{"type":"x_tool_result","tool_use_id":"s2"}"#));
    second.content.push(native("anthropic", r#"{"type":"x","text":"\udc00"}"#));
    assert_snapshot!(describe(&[user("u"), first, second]), @r#"
    user  "u"
    assistant  "a"
    ---
    assistant  "b"
    ! dropped an item of `openai` from message 2
    ! dropped an item of `anthropic` from message 2
    ! dropped an item of `anthropic` from message 2
    ! dropped an item of `anthropic` from message 2
    "#);
}

#[test]
fn only_oversized_images_are_dropped() {
    let with_image = |size: usize| {
        let data = "A".repeat(size);
        let message = format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"see"}},{{"type":"image","data":"{data}"}}]}}"#
        );
        [ConversationMessage::from_json(&message).unwrap()]
    };
    let largest = with_image(5_000_000);
    assert_eq!(repair(&largest).messages, largest);
    assert_eq!(broken(&largest), []);
    let too_large = with_image(5_000_001);
    assert_eq!(broken(&too_large)[0].rule, ProviderRule::A8);
    assert_snapshot!(describe(&too_large), @r#"
    ---
    user  "see"
    ! dropped an image that is too large from message 0
    "#);
}

#[test]
fn deeply_nested_arguments_are_rendered_and_checked() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let mut asked = ConversationMessage::new(Role::Assistant);
    asked.tool_calls.push(ToolCall::new("c1", "Bash", &deep));
    let repaired = repair(&[user("u"), asked]);
    assert!(render_anthropic(&repaired.messages).as_str().contains(&deep));
    assert_eq!(broken(&repaired.messages), []);
}

#[test]
fn a_server_tool_call_keeps_its_result() {
    let mut answer = ConversationMessage::text(Role::Assistant, "a");
    answer.content.extend([
        native("anthropic", r#"{"type":"mcp_tool_use","id":"m1","name":"ask","input":{}}"#),
        native("anthropic", r#"{"type":"mcp_tool_result","tool_use_id":"m1","content":[]}"#),
    ]);
    let history = [user("u"), answer];
    assert_eq!(repair(&history).messages, history);
}

#[test]
fn thinking_before_the_first_defect_stays() {
    let mut answer = calling(&["c1"]);
    answer.content = vec![
        MessagePart::thinking("first", "sig1"),
        native("anthropic", r#"{"type":"server_tool_use","id":"s1"}"#),
        MessagePart::thinking("second", "sig2"),
        MessagePart::text("so"),
    ];
    let repaired = repair(&[user("u"), answer, result("c1"), thinking_and_calling("c2")]);
    let kept = [MessagePart::thinking("first", "sig1"), MessagePart::text("so")];
    assert_eq!(repaired.messages[1].content, kept);
    assert_eq!(repaired.messages[3].content, [], "it was thought of the item that is gone");
}

#[test]
fn renaming_a_call_keeps_the_thinking_before_it() {
    let mut twice = thinking_and_calling("c1");
    twice.tool_calls.push(ToolCall::new("c1", "Bash", "{}"));
    let repaired = repair(&[user("u"), twice.clone(), result("c1"), result("c1")]);
    assert_eq!(repaired.messages[1].content, twice.content);
}

#[test]
fn dropping_one_providers_item_does_not_affect_the_other() {
    let mut answer = thinking_and_calling("c1");
    let search = native("openai", r#"{"type":"web_search_call","id":"w1"}"#);
    answer.content.extend([search.clone(), search, native("other", r#"["\ud800"]"#)]);
    let history = [user("u"), answer, result("c1"), thinking_and_calling("c2"), result("c2")];
    let repaired = repair(&history);
    assert_eq!(repaired.messages[1].content, history[1].content[..2]);
    assert_eq!(repaired.messages[3], history[3]);
    let sent = |messages: &[ConversationMessage]| render_anthropic(messages).to_string();
    assert_eq!(sent(&repaired.messages), sent(&history));
}

#[test]
fn items_produced_with_dropped_reasoning_become_plain_text() {
    let mut late = calling(&["c2"]);
    late.content = vec![
        native("openai", r#"{"type":"reasoning","id":"r1","encrypted_content":"AA=="}"#),
        native(
            "openai",
            r#"{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"I look."}]}"#,
        ),
        native("openai", r#"{"type":"web_search_call","id":"w1"}"#),
    ];
    let history = [user("u"), calling(&["c1"]), user("and now"), late, result("c2")];
    assert_eq!(repair(&history).messages[4].content, [MessagePart::text("I look.")]);
}
