//! Plausible loops, with unusual model output.

use proptest::prelude::*;
use proptest::sample::select;
use threadfold_core::{
    ConversationMessage, Effect, Json, MessagePart, Role, SessionEvent, ToolCall,
};

use super::LoopWriter;

/// The content of one turn.
#[derive(Clone, Debug)]
struct Turn {
    prompts: Vec<String>,
    content: Vec<MessagePart>,
    is_named: bool,
    calls: Vec<Call>,
    at_once: bool,
}

#[derive(Clone, Debug)]
struct Call {
    arguments: &'static str,
    effect: Effect,
    mishap: Option<bool>,
    output: String,
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["", " \n", "x", "hé", "lo 😀", "\u{0}", "\"quoted\"\\"]).prop_map(str::to_owned)
}

fn part() -> impl Strategy<Value = MessagePart> {
    let item = |text: &str| Json::parse(text).expect("it is JSON");
    prop_oneof![
        4 => text().prop_map(|text| MessagePart::text(&text)),
        2 => text().prop_map(|text| MessagePart::thinking(&text, "sig")),
        1 => Just(MessagePart::native("anthropic", item(r#"{"type":"redacted_thinking","data":"AA=="}"#))),
        1 => Just(MessagePart::native("anthropic", item(r#"{"type":"server_tool_use","id":"srv1","name":"web_search","input":{}}"#))),
        1 => Just(MessagePart::native("anthropic", item(r#"{"type":"web_search_tool_result","tool_use_id":"srv1","content":[]}"#))),
        1 => Just(MessagePart::native("openai", item(r#"{ "type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AA==" }"#))),
        1 => Just(MessagePart::native("openai", item(r#"{"type":"reasoning","id":"rs_2","summary":[]}"#))),
        1 => Just(MessagePart::native("other", item(r#"{"any":[1e400,"\ud800"]}"#))),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let arguments = select(vec!["", "{}", "{ \"a\": 1 }", "{\"cut", "[1]", r#"{"a":"\ud800"}"#]);
    let effects =
        [Effect::Pure, Effect::Idempotent, Effect::Probe, Effect::Compensable, Effect::Unsafe];
    let mishap = prop::option::weighted(0.3, any::<bool>());
    (arguments, select(effects.to_vec()), mishap, text())
        .prop_map(|(arguments, effect, mishap, output)| Call { arguments, effect, mishap, output })
}

fn turn() -> impl Strategy<Value = Turn> {
    let prompts = prop::collection::vec(text(), 0..3);
    let content = prop::collection::vec(part(), 0..4);
    let calls = prop::collection::vec(call(), 0..4);
    (prompts, content, any::<bool>(), calls, any::<bool>()).prop_map(
        |(prompts, content, is_named, calls, at_once)| Turn {
            prompts,
            content,
            is_named,
            calls,
            at_once,
        },
    )
}

/// Returns plausible loops, from the first event to the last.
pub fn plausible_loop() -> impl Strategy<Value = Vec<SessionEvent>> {
    prop::collection::vec(turn(), 0..6).prop_map(|turns| {
        let mut writer = LoopWriter::default();
        turns.iter().for_each(|turn| write(&mut writer, turn));
        writer.events
    })
}

fn write(writer: &mut LoopWriter, turn: &Turn) {
    let number = writer.turn() + 1;
    let prompts = turn.prompts.iter().map(|it| ConversationMessage::text(Role::User, it));
    writer.start(prompts.collect());
    let named = |place| format!("t{number}c{place}");
    let mut message = ConversationMessage::new(Role::Assistant);
    message.message_id = turn.is_named.then(|| format!("m{number}").into());
    message.content.clone_from(&turn.content);
    message.tool_calls = (0..)
        .zip(&turn.calls)
        .map(|(place, call)| ToolCall::new(named(place), "Bash", call.arguments))
        .collect();
    writer.answer(message);
    if turn.at_once {
        for (place, call) in turn.calls.iter().enumerate() {
            writer.run(&named(place), call.effect);
        }
    }
    for (place, call) in turn.calls.iter().enumerate().rev() {
        let name = named(place);
        if !turn.at_once {
            writer.run(&name, call.effect);
        }
        match call.mishap {
            Some(true) => _ = writer.fail(&name),
            Some(false) => _ = writer.lose(&name).run(&name, call.effect),
            None => {}
        }
        writer.finish(&name, &call.output);
    }
    writer.close();
}
