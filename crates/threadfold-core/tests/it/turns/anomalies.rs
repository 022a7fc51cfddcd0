//! Events that do not fit are ignored with an anomaly.

use super::*;

fn event(kind: &str, payload: &str) -> SessionEvent {
    SessionEvent::from_json(&format!(r#"{{"type":"{kind}","payload":{payload}}}"#)).unwrap()
}

/// Applies one more event. It must leave the state equal unless the outcome is `Noted`.
fn after(writer: &LoopWriter, kind: &str, payload: &str) -> String {
    let mut state = writer.turns.clone();
    let outcome = state.apply(&event(kind, payload));
    match outcome {
        Outcome::Ignored(_) | Outcome::Unchanged => assert_eq!(state, writer.turns),
        Outcome::Applied | Outcome::Noted(_) => assert_ne!(state, writer.turns),
    }
    describe(&outcome)
}

fn started(turn: u64, hash: &str) -> String {
    format!(
        r#"{{"turn":{turn},"evaluationId":"e","provider":"p","model":"m","prefixHash":"{hash}"}}"#
    )
}

#[test]
fn events_that_do_not_fit_are_ignored_with_an_anomaly() {
    let writer = half_done();
    let outcomes = [
        after(&writer, "turn:started", &started(1, "")),
        after(&writer, "turn:started", &started(2, "")),
        after(&writer, "turn:started", &started(0, "")),
        after(&writer, "turn:started", &started(u64::MAX, "")),
        after(&writer, "turn:answered", r#"{"turn":1,"message":{"role":"assistant"},"payload":1}"#),
        after(&writer, "turn:answered", r#"{"turn":2,"message":{"role":"assistant"},"payload":1}"#),
        after(&writer, "turn:completed", r#"{"turn":1}"#),
        after(&writer, "turn:completed", r#"{"turn":9}"#),
        after(
            &writer,
            "tool:requested",
            r#"{"turn":1,"callId":"c1","ordinal":0,"key":"k","name":"Read","arguments":"{}"}"#,
        ),
        after(
            &writer,
            "tool:requested",
            r#"{"turn":2,"callId":"c1","ordinal":0,"key":"k","name":"Read","arguments":"{}"}"#,
        ),
        after(&writer, "tool:started", r#"{"callId":"c2","key":"k","attempt":1,"effect":"pure"}"#),
        after(&writer, "tool:started", r#"{"callId":"c9","key":"k","attempt":1,"effect":"pure"}"#),
        after(
            &writer,
            "tool:finished",
            r#"{"callId":"c1","attempt":1,"result":{"role":"tool"},"source":"tool"}"#,
        ),
        after(
            &writer,
            "tool:finished",
            r#"{"callId":"c2","attempt":0,"result":{"role":"user"},"source":"tool"}"#,
        ),
        after(
            &writer,
            "tool:finished",
            r#"{"callId":"c2","attempt":1,"result":{"role":"tool"},"source":"tool"}"#,
        ),
        after(&writer, "tool:failed", r#"{"callId":"c1","attempt":1,"error":1}"#),
        after(&writer, "tool:failed", r#"{"callId":"c2","attempt":0,"error":1}"#),
        after(&writer, "tool:unknown", r#"{"callId":"c2","attempt":1,"reason":"r"}"#),
    ];
    assert_snapshot!(outcomes.join("\n"), @"
    ignored: turn 1 was already reported differently
    ignored: turn 1 has no answer, or a call without a result
    ignored: received turn 0, expected turn 2
    ignored: received turn 18446744073709551615, expected turn 2
    ignored: turn 1 was already reported differently
    ignored: turn 2 never started
    ignored: turn 1 has no answer, or a call without a result
    ignored: turn 9 never started
    ignored: call `c1` was already reported differently
    ignored: call `c1` does not exist
    ignored: call `c2` was already reported differently
    ignored: call `c9` does not exist
    ignored: call `c1` already has a result
    ignored: found a message with role `user`, expected `tool`
    noted: attempt 1 of call `c2` never started
    ignored: call `c1` already has a result
    ignored: attempt 0 of call `c2` never started
    ignored: attempt 1 of call `c2` never started
    ");
}

#[test]
fn an_attempt_older_than_the_latest_is_stale() {
    let mut writer = half_done();
    writer.run("c2", Effect::Pure).lose("c2").run("c2", Effect::Pure);
    let outcomes = [
        after(
            &writer,
            "tool:finished",
            r#"{"callId":"c2","attempt":1,"result":{"role":"tool"},"source":"tool"}"#,
        ),
        after(&writer, "tool:failed", r#"{"callId":"c2","attempt":1,"error":1}"#),
    ];
    assert_snapshot!(outcomes.join("\n"), @"
    ignored: attempt 1 of call `c2` is older than attempt 2
    ignored: attempt 1 of call `c2` is older than attempt 2
    ");
}

#[test]
fn an_answer_without_its_turn_or_with_a_wrong_role_is_an_anomaly() {
    let mut writer = LoopWriter::default();
    writer.ask("look");
    let outcomes = [
        after(&writer, "turn:answered", r#"{"turn":1,"message":{"role":"user"},"payload":1}"#),
        after(
            &writer,
            "turn:answered",
            r#"{"turn":1,"message":{"role":"assistant","toolCalls":[{"callId":"c","name":"n","arguments":""},{"callId":"c","name":"n","arguments":""}]},"payload":1}"#,
        ),
        after(&writer, "turn:started", &started(2, "other")),
        after(&writer, "turn:completed", r#"{"turn":1}"#),
    ];
    assert_snapshot!(outcomes.join("\n"), @"
    ignored: found a message with role `user`, expected `assistant`
    noted: the answer contains call `c` twice
    noted: the prefix hash of turn 2 does not match the stored turns
    ignored: turn 1 has no answer, or a call without a result
    ");
}

#[test]
fn a_prefix_hash_mismatch_is_an_anomaly() {
    let state = &mut TurnState::default();
    let outcome = state.apply(&event("turn:started", &started(1, "other")));
    assert_snapshot!(describe(&outcome), @"noted: the prefix hash of turn 1 does not match the stored turns");
    let hash = TurnState::default().prefix_hash();
    let outcome = TurnState::default().apply(&event("turn:started", &started(1, hash.as_str())));
    assert_eq!(outcome, Outcome::Applied);
}
