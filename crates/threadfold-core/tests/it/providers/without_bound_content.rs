//! The part of a history that can be sent with another prompt, tools or model.

use super::*;

const REASONING: &str = r#"{"type":"reasoning","id":"r1","encrypted_content":"AA=="}"#;
const CALL: &str =
    r#"{"type":"function_call","id":"f1","call_id":"c1","name":"Bash","arguments":"{}"}"#;
const MESSAGE: &str = r#"{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"I look."}]}"#;

fn answered(content: Vec<MessagePart>) -> [ConversationMessage; 3] {
    [user("look"), ConversationMessage { content, ..calling(&["c1"]) }, result("c1")]
}

#[test]
fn reasoning_and_its_items_are_removed() {
    let message = native("openai", MESSAGE);
    let attached =
        MessagePart::text("I look.").with_native("openai", Json::parse(MESSAGE).unwrap());
    for text in [message, attached] {
        let history =
            answered(vec![native("openai", REASONING), text, native("openai", CALL)]).to_vec();
        assert!(render_responses(&history).as_str().contains(CALL));
        let left = without_bound_content(history);
        assert_eq!(broken(&left), []);
        let rendered = render_responses(&left).to_string();
        let is_bound = |item: &str| item.contains("reasoning") || item.contains(r#""id":"#);
        assert!(!is_bound(&rendered), "{rendered}");
        assert_eq!((left[1].to_text(), left[1].tool_calls.len()), ("I look.".to_owned(), 1));
    }
}

#[test]
fn thinking_is_removed() {
    let history = answered(vec![
        MessagePart::thinking("hm", "sig"),
        native("anthropic", r#"{"type":"redacted_thinking","data":"AA=="}"#),
        MessagePart::text("I look."),
        native("anthropic", r#"{"type":"tool_use","id":"c1","name":"Bash","input":{}}"#),
    ]);
    let left = without_bound_content(history.to_vec());
    assert_eq!(broken(&left), []);
    assert_snapshot!(render_anthropic(&left), @r#"[{"role":"user","content":[{"type":"text","text":"look"}]},{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"out"}]}]}]"#);
}

#[test]
fn unbound_content_is_unchanged() {
    let history = answered(vec![MessagePart::text("I look."), native("openai", CALL)]).to_vec();
    assert_eq!(without_bound_content(history.clone()), history);
}
