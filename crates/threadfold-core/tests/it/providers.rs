//! Provider rules: each violation is detected, and a repaired history has none.

use insta::assert_snapshot;
use proptest::prelude::*;
use proptest::sample::select;
use threadfold_core::{
    ConversationMessage, Dialect, Json, MessagePart, ProviderRule, RepairedHistory, Role, ToolCall,
    TurnState, Violation, check_anthropic, check_anthropic_continuation, check_chat,
    check_responses, render_anthropic, render_chat, render_responses, repair,
    without_bound_content,
};
use threadfold_testkit::loops::plausible_loop;

mod growing;
mod laws;
mod render;
mod repair;
mod violations;
mod whole;
mod without_bound_content;

fn list(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
}

fn user(text: &str) -> ConversationMessage {
    ConversationMessage::text(Role::User, text)
}

fn calling(calls: &[&str]) -> ConversationMessage {
    let tool_calls = calls.iter().map(|call| ToolCall::new(*call, "Bash", "{}")).collect();
    ConversationMessage { tool_calls, ..ConversationMessage::new(Role::Assistant) }
}

fn thinking_and_calling(call: &str) -> ConversationMessage {
    ConversationMessage { content: vec![MessagePart::thinking("hm", "sig")], ..calling(&[call]) }
}

fn result(call: &str) -> ConversationMessage {
    ConversationMessage::result(call, "out")
}

fn native(provider: &str, item: &str) -> MessagePart {
    MessagePart::native(provider, Json::parse(item).unwrap())
}

/// Returns the violations of a repaired history, for all providers.
fn broken(messages: &[ConversationMessage]) -> Vec<Violation> {
    let mut found = check_anthropic(render_anthropic(messages).as_str().as_bytes());
    found.extend(check_chat(render_chat(messages).as_str().as_bytes()));
    found.extend(check_responses(render_responses(messages).as_str().as_bytes(), |_| false));
    found
}
