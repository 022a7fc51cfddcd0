//! Any repaired history satisfies every rule.

use super::*;

/// Returns a rendered list without its closing bracket.
fn opened(rendered: &Json) -> String {
    rendered.as_str().trim_end_matches([']', '}']).to_owned()
}

fn assert_repaired(history: &[ConversationMessage]) -> Result<RepairedHistory, TestCaseError> {
    let repaired = repair(history);
    prop_assert_eq!(broken(&repaired.messages), [], "{:?}", repaired);
    let kept = &history[..repaired.untouched];
    let spelt = |messages: &[ConversationMessage]| Json::of(messages).to_string();
    prop_assert_eq!(spelt(kept), spelt(&repaired.messages[..kept.len()]));
    for render in [render_anthropic, render_chat, render_responses] {
        let whole = render(&repaired.messages);
        prop_assert!(
            whole.as_str().starts_with(&opened(&render(kept))),
            "{} {}",
            whole,
            render(kept)
        );
    }
    prop_assert_eq!(repair(&repaired.messages).repairs, [], "repaired once, it stays");
    prop_assert_eq!(repaired.repairs.is_empty(), repaired.messages == history);
    Ok(repaired)
}

pub(super) fn any_message() -> impl Strategy<Value = ConversationMessage> {
    let call = || select(vec!["c1", "c2", "c3"]);
    let part = prop_oneof![
        select(vec!["", " ", "x"]).prop_map(MessagePart::text),
        Just(MessagePart::thinking("hm", "sig")),
        Just(MessagePart::thinking("hm", "")),
        select(vec![
            ("anthropic", r#"{"type":"redacted_thinking","data":"AA=="}"#),
            ("anthropic", r#"{"type":"server_tool_use","id":"s1"}"#),
            ("anthropic", r#"{"type":"x_tool_result","tool_use_id":"s1"}"#),
            ("anthropic", r#"{"type":"tool_use","id":"c1","name":"Bash","input":{}}"#),
            ("anthropic", r#"{"type":"text","text":""}"#),
            ("openai", r#"{"type":"reasoning","id":"r1","encrypted_content":"AA=="}"#),
            ("openai", r#"{"type":"reasoning","id":"r2","encrypted_content":"AA=="}"#),
            ("openai", r#"{"type":"reasoning","id":"r3"}"#),
            (
                "openai",
                r#"{"type":"function_call","id":"f1","call_id":"c1","name":"B","arguments":""}"#
            ),
            ("openai", r#"{"type":"hologram","id":"r1"}"#),
            ("other", r#"["\ud800"]"#),
        ])
        .prop_map(|(provider, item)| native(provider, item)),
    ];
    let roles = vec![Role::System, Role::User, Role::Assistant, Role::Assistant, Role::Tool];
    let calls = prop::collection::vec(call(), 0..3);
    (select(roles), prop::collection::vec(part, 0..4), calls, prop::option::weighted(0.9, call()))
        .prop_map(|(role, content, calls, answers)| ConversationMessage {
            role,
            content,
            tool_call_id: answers.map(Into::into),
            ..calling(&calls)
        })
}

proptest! {
    #[test]
    fn every_provider_accepts_a_loop_truncated_at_any_event(events in plausible_loop()) {
        let mut turns = TurnState::default();
        for cut in 0..=events.len() {
            let repaired = assert_repaired(&turns.history())?;
            let only_appended = repaired.repairs.iter().all(|it| {
                matches!(it, threadfold_core::Repair::ResultAdded { .. })
            });
            if only_appended {
                prop_assert_eq!(repaired.untouched, turns.history().len());
            }
            turns.extend(events.get(cut));
        }
    }

    #[test]
    fn every_provider_accepts_any_repaired_history(
        history in prop::collection::vec(any_message(), 0..12),
    ) {
        assert_repaired(&history)?;
    }

    #[test]
    fn every_provider_accepts_a_repaired_history_without_bound_content(
        history in prop::collection::vec(any_message(), 0..12),
    ) {
        let left = without_bound_content(repair(&history).messages);
        prop_assert_eq!(broken(&left), []);
        prop_assert_eq!(without_bound_content(left.clone()), left);
    }

    #[test]
    fn checks_never_panic(request in "[\\[\\]{}\",:a-z_\\\\ud8]{0,60}") {
        let bytes = request.as_bytes();
        check_anthropic(bytes);
        check_chat(bytes);
        check_responses(bytes, |_| true);
        check_anthropic_continuation(bytes, bytes, bytes);
    }
}
