//! Structural sharing between steps, and restoring a loop's state.

use super::*;

#[test]
fn a_step_copies_only_its_own_turn() {
    let mut writer = LoopWriter::default();
    let mut kept = vec![writer.turns.clone()];
    for turn in 0..200 {
        let call = format!("c{turn}");
        writer.ask("look");
        kept.push(writer.turns.clone());
        writer.call(&[(&call, "Read")]).run(&call, Effect::Pure);
        kept.push(writer.turns.clone());
        writer.finish(&call, "found").close();
        kept.push(writer.turns.clone());
    }
    for pair in kept.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let both = before.turns().zip(after.turns());
        let copied = both.filter(|(before, after)| !Arc::ptr_eq(before, after)).count();
        let added = after.turns().len() - before.turns().len();
        assert!(copied + added <= 1, "{copied} turns were copied");
    }
    for (step, state) in kept.iter().enumerate() {
        assert_eq!(state.turns().len(), step.div_ceil(3), "an old state stays as it was");
    }
}

#[test]
fn a_step_copies_only_its_own_call() {
    let names: Vec<_> = (0..300).map(|it| format!("c{it}")).collect();
    let calls: Vec<_> = names.iter().map(|name| (name.as_str(), "Read")).collect();
    let mut writer = LoopWriter::default();
    writer.ask("look").call(&calls);
    for name in &names {
        let before = Arc::clone(writer.turns.last().unwrap());
        writer.run(name, Effect::Pure);
        let after = writer.turns.last().unwrap();
        let both = before.calls().zip(after.calls());
        assert_eq!(both.filter(|(before, after)| !Arc::ptr_eq(before, after)).count(), 1);
    }
}

#[test]
fn another_version_or_turn_order_is_refused() {
    let kept = half_done().turns.to_json();
    let wrong = [
        kept.as_str().replace(r#""version":1"#, r#""version":2"#),
        kept.as_str().replace(r#""turn":1,"evaluationId""#, r#""turn":2,"evaluationId""#),
        r#"{"version":1}"#.to_owned(),
        "[]".to_owned(),
    ];
    let errors = wrong
        .iter()
        .map(|text| TurnState::restore(&Json::parse(text).unwrap()).unwrap_err().to_string());
    assert_snapshot!(errors.collect::<Vec<_>>().join("\n"), @"
    the loop state has version 2, but this program reads version 1
    found turn 2, expected turn 1
    the loop state is corrupt
    the loop state is corrupt
    ");
}

#[test]
fn every_call_state_survives_a_round_trip() {
    let mut writer = LoopWriter::default();
    let calls = ["r", "s", "f", "e", "u"].map(|id| (id, "Read"));
    writer.ask("look").call(&calls);
    for call in ["s", "f", "e", "u"] {
        writer.run(call, Effect::Probe);
    }
    writer.finish("f", "found").fail("e").lose("u");
    let back = TurnState::restore(&writer.turns.to_json()).unwrap();
    assert_eq!(back, writer.turns);
    assert_eq!(back.to_json().as_str(), writer.turns.to_json().as_str());
    assert_eq!(back.call(&"r".into()).unwrap().state, CallState::Requested);
    let odd = ToolCall::new("x", "Read", "{ not json");
    let mut message = ConversationMessage::new(Role::Assistant);
    message.tool_calls.push(odd);
    let mut writer = LoopWriter::default();
    writer.ask("look").answer(message);
    let back = TurnState::restore(&writer.turns.to_json()).unwrap();
    assert_eq!(&*back.call(&"x".into()).unwrap().arguments, "{ not json");
}
