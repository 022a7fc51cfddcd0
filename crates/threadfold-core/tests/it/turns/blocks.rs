//! A loop is shown as blocks, like any session.

use super::*;
use threadfold_core::MessagePart;
use threadfold_testkit::story::show;

fn shown(writer: &LoopWriter) -> String {
    show(&threadfold_core::fold(&writer.events))
}

#[test]
fn a_loop_is_shown_like_any_session() {
    let mut writer = LoopWriter::default();
    let mut message = ConversationMessage::text(Role::Assistant, "I look.");
    message.content.insert(0, MessagePart::thinking("Hm", "sig"));
    message.message_id = Some("m1".into());
    message.tool_calls.push(ToolCall::new("c1", "Read", r#"{"path":"a"}"#));
    writer.ask("look").answer(message).run("c1", Effect::Pure).finish("c1", "found").close();
    writer.ask("thanks").answer(ConversationMessage::text(Role::Assistant, "done")).close();
    assert_snapshot!(shown(&writer), @r#"
    turn:1:0 user_message "look"
    m1:0 thinking "Hm"
    m1:1 assistant_text "I look."
    c1 tool_use "Read"
    result:c1 tool_result "found"
    turn:2:0 user_message "thanks"
    turn:2:answer:0 assistant_text "done"
    "#);
}

#[test]
fn a_call_is_open_until_it_fails_or_has_its_result() {
    let mut writer = half_done();
    let open = shown(&writer);
    writer.run("c2", Effect::Pure).fail("c2");
    let failed = shown(&writer);
    writer.run("c2", Effect::Pure).finish("c2", "paid");
    assert_snapshot!([open, failed, shown(&writer)].join("\n---\n"), @r#"
    turn:1:0 user_message "look"
    c1 tool_use "Read"
    c2 tool_use pending "Pay"
    result:c1 tool_result "found"

    ---
    turn:1:0 user_message "look"
    c1 tool_use "Read"
    c2 tool_use error "Pay"
    result:c1 tool_result "found"
    result:c2 tool_result "no such file"

    ---
    turn:1:0 user_message "look"
    c1 tool_use "Read"
    c2 tool_use "Pay"
    result:c1 tool_result "found"
    result:c2 tool_result "paid"
    "#);
}

#[test]
fn a_call_with_an_unknown_outcome_is_marked() {
    let mut writer = half_done();
    writer.run("c2", Effect::Unsafe).lose("c2");
    let state = threadfold_core::fold(&writer.events);
    let marked = state.blocks().iter().find(|it| it.id.as_str() == "c2").unwrap();
    assert_snapshot!(Json::of(&*marked), @r#"{"id":"c2","type":"tool_use","timestamp":"2026-01-15T09:30:00Z","status":"pending","conversationId":"main","toolName":"Pay","toolUseId":"c2","input":{},"metadata":{"unknownOutcome":"the process ended"}}"#);
    let again = threadfold_core::fold(writer.events.iter().chain([&writer.events[1]]));
    assert_eq!(again, state, "repeating the answer later keeps the mark");
}

#[test]
fn the_first_result_wins_over_a_late_failure() {
    let writer = half_done();
    let mut state = threadfold_core::fold(&writer.events);
    let before = state.clone();
    let events = [
        r#"{"type":"tool:finished","payload":{"callId":"c1","attempt":1,"result":{"role":"tool"},"source":"tool"}}"#,
        r#"{"type":"tool:failed","payload":{"callId":"c1","attempt":1,"error":"no"}}"#,
        r#"{"type":"tool:unknown","payload":{"callId":"c1","attempt":1,"reason":"no"}}"#,
        r#"{"type":"tool:unknown","payload":{"callId":"c9","attempt":1,"reason":"no"}}"#,
    ];
    let outcomes =
        events.map(|line| describe(&state.apply(&SessionEvent::from_json(line).unwrap())));
    assert_snapshot!(outcomes.join("\n"), @"
    ignored: call `c1` already has a result
    ignored: call `c1` already has a result
    ignored: call `c1` already has a result
    ignored: call `c9` does not exist
    ");
    assert_eq!(state, before);
}

#[test]
fn an_error_result_is_shown_as_an_error() {
    let mut writer = half_done();
    writer.say(Payload::ToolFinished(ToolFinished {
        call_id: "c2".into(),
        attempt: 0,
        result: ConversationMessage::result("c2", "given up"),
        is_error: true,
        duration_ms: None,
        source: ResultSource::Person,
    }));
    let errors: Vec<_> = writer.turns.history()[2..].iter().map(|it| it.is_error).collect();
    assert_eq!(errors, [false, true]);
    assert_snapshot!(shown(&writer), @r#"
    turn:1:0 user_message "look"
    c1 tool_use "Read"
    c2 tool_use error "Pay"
    result:c1 tool_result "found"
    result:c2 tool_result "given up"
    "#);
}

#[test]
fn a_repeated_result_does_not_change_the_shown_one() {
    let mut writer = LoopWriter::default();
    writer.ask("look").call(&[("c1", "Read")]).run("c1", Effect::Pure).finish("c1", "found");
    let before = shown(&writer);
    writer.close().start(vec![ConversationMessage::result("c1", "otherwise")]);
    assert_eq!(shown(&writer), before);
}

#[test]
fn two_messages_with_one_id_are_two_blocks() {
    let named = |text| ConversationMessage {
        message_id: Some("u1".into()),
        ..ConversationMessage::text(Role::User, text)
    };
    let mut writer = LoopWriter::default();
    writer.start(vec![named("one"), named("two")]);
    let mut state = threadfold_core::fold(&writer.events);
    assert_snapshot!(show(&state), @r#"
    u1 user_message "one"
    u1#2 user_message "two"
    "#);
    assert_eq!(state.apply(&writer.events[0]), Outcome::Unchanged);
}

#[test]
fn messages_of_every_role_are_shown() {
    let mut earlier = ConversationMessage::text(Role::Assistant, "I look.");
    earlier.tool_calls.push(ToolCall::new("c1", "Read", "{}"));
    let item = Json::parse(r#"{"type":"reasoning"}"#).unwrap();
    earlier.content.push(MessagePart::native("openai", item));
    let mut writer = LoopWriter::default();
    writer.start(vec![
        ConversationMessage::text(Role::System, "be kind"),
        earlier,
        ConversationMessage::result("c1", "found"),
    ]);
    assert_snapshot!(shown(&writer), @r#"
    turn:1:0 system ""
    turn:1:1:0 assistant_text "I look."
    turn:1:1:1 unknown ""
    c1 tool_use "Read"
    result:c1 tool_result "found"
    "#);
}

#[test]
fn arguments_that_are_not_json_are_shown_verbatim() {
    let mut message = ConversationMessage::new(Role::Assistant);
    message.tool_calls.push(ToolCall::new("c1", "Read", "{ not json"));
    let mut writer = LoopWriter::default();
    writer.start(Vec::new()).answer(message);
    assert_snapshot!(shown(&writer), @r#"c1 tool_use pending "Read { not json""#);
}

#[test]
fn a_call_with_a_native_form_is_shown_once() {
    let mut message = ConversationMessage::new(Role::Assistant);
    let item = |text: &str| MessagePart::native("openai", Json::parse(text).unwrap());
    message.content.push(item(r#"{"type":"function_call","call_id":"c1"}"#));
    message.content.push(item(r#"{"type":"function_call","call_id":"c2"}"#));
    message.tool_calls.push(ToolCall::new("c1", "Read", "{}"));
    let mut writer = LoopWriter::default();
    writer.start(Vec::new()).answer(message);
    assert_snapshot!(shown(&writer), @r#"
    turn:1:answer:1 unknown ""
    c1 tool_use pending "Read"
    "#);
}
