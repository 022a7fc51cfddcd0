//! The ledger of a loop.

use super::*;

#[test]
fn everything_sent_and_answered_is_recorded() {
    let mut writer = half_done();
    writer.run("c2", Effect::Unsafe).finish("c2", "paid").close();
    writer.ask("thanks").answer(ConversationMessage::text(Role::Assistant, "done")).close();
    let turns = &writer.turns;
    assert_eq!(turns.state_id().unwrap().as_str(), "s1");
    assert_eq!(turns.evaluation_id().unwrap().as_str(), "e1");
    assert_eq!(turns.created_at(), Some("2026-01-15T09:30:00Z"));
    assert_eq!((turns.prompt_namespace(), turns.prompt_key()), (Some("prompts"), Some("coder")));
    assert_eq!(turns.system(), Some("You write code."), "sent in the first turn only");
    let messages: Vec<_> = turns
        .history()
        .iter()
        .map(|it| format!("{}: {} {}", it.role, it.to_text(), it.tool_calls.len()))
        .collect();
    assert_snapshot!(messages.join("\n"), @"
    user: look 0
    assistant:  2
    tool: found 0
    tool: paid 0
    user: thanks 0
    assistant: done 0
    ");
    let first = turns.turns().next().unwrap();
    assert_eq!((first.number(), first.answer_seq()), (1, Some(2)));
    let keys: Vec<_> = first.calls().filter_map(|call| call.key.clone()).collect();
    assert_eq!(keys, [call_key("log", 2, 0), call_key("log", 2, 1)]);
    assert!(first.provider_payload().unwrap().as_str().contains("toolCalls"));
}

#[test]
fn call_keys_are_stable() {
    assert_snapshot!(call_key("log", 7, 0), @"139104bba580252ba75055fa757fd688d3e29608fc7d01214266b836b83fa98a");
}

#[test]
fn call_keys_distinguish_their_inputs() {
    let keys = [call_key("a", 1, 1), call_key("a", 1, 2), call_key("a", 2, 1), call_key("b", 1, 1)];
    for (place, key) in keys.iter().enumerate() {
        assert!(!keys[place + 1..].contains(key));
    }
}

#[test]
fn results_are_in_the_order_of_the_calls() {
    let mut writer = LoopWriter::default();
    writer.ask("look").call(&[("c1", "Read"), ("c2", "Read")]);
    writer.run("c1", Effect::Pure).run("c2", Effect::Pure);
    writer.finish("c2", "second").finish("c1", "first");
    let texts: Vec<_> = writer.turns.history()[2..].iter().map(|it| it.to_text()).collect();
    assert_eq!(texts, ["first", "second"]);
}

#[test]
fn a_repeated_result_appears_once() {
    let mut writer = LoopWriter::default();
    writer.ask("look").call(&[("c1", "Read")]).run("c1", Effect::Pure).finish("c1", "found");
    writer.close().start(vec![
        ConversationMessage::result("c1", "found"),
        ConversationMessage::text(Role::User, "and now"),
    ]);
    let roles: Vec<_> = writer.turns.history().iter().map(|it| it.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::User]);
}

#[test]
fn the_prefix_hash_depends_on_every_byte_sent() {
    let hash = |prompt: &str, result: &str| {
        let mut writer = LoopWriter::default();
        writer.ask(prompt).call(&[("c1", "Read")]).run("c1", Effect::Pure);
        writer.finish("c1", result).close();
        writer.turns.prefix_hash()
    };
    assert_eq!(hash("a", "b"), hash("a", "b"));
    assert_ne!(hash("a", "b"), hash("a", "c"));
    assert_ne!(hash("a", "b"), hash("c", "b"));
    assert_ne!(TurnState::default().prefix_hash(), hash("a", "b"));
}

#[test]
fn turns_of_other_conversations_are_ignored() {
    let writer = half_done();
    let mut theirs = TurnState::of("agent-A".into());
    theirs.extend(&writer.events);
    assert_eq!(theirs, TurnState::of("agent-A".into()));
    let moved: Vec<_> = writer.events.iter().map(|it| it.clone().within("agent-A")).collect();
    theirs.extend(&moved);
    assert_eq!(theirs.state_id().unwrap().as_str(), "s1/agent-A");
    assert_eq!(theirs.turns().len(), 1);
}

#[test]
fn the_last_checkpoint_wins() {
    let mut writer = half_done();
    for (id, seq) in [("p1", 3), ("p2", 5)] {
        let saved = CheckpointSaved { checkpoint_id: id.into(), seq: Some(seq) };
        writer.say(Payload::CheckpointSaved(saved));
    }
    assert_eq!(writer.turns.checkpoint().unwrap().checkpoint_id.as_str(), "p2");
}
