//! What is one history of Claude Code: messages that continue, sessions that follow one another.

use serde_json::{Value, json};
use threadfold_convert::claude;
use threadfold_core::ConversationState;
use threadfold_fold::{SessionFile, parse_transcript, stream_records};
use threadfold_testkit::story::show;

use crate::recorded::{empty_fold, push_all};

const SESSION: &str = "00000000-0000-4000-8000-000000000008";

fn jsonl(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

fn stored(lines: &[Value]) -> ConversationState {
    let (path, bytes) = (format!("p/{SESSION}.jsonl"), jsonl(lines));
    parse_transcript(claude::AGENT, &[SessionFile { path: &path, bytes: &bytes }])
}

fn streamed(lines: &[Value]) -> ConversationState {
    let mut fold = empty_fold();
    push_all(&mut fold, stream_records(claude::AGENT, 1, &jsonl(lines)));
    fold.settled()
}

fn prompt(uuid: &str, parent: Option<&str>, text: &str) -> Value {
    json!({"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": SESSION,
        "message": {"role": "user", "content": text}})
}

fn answer(uuid: &str, parent: &str, message: &str, text: &str) -> Value {
    json!({"type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": SESSION,
        "message": {"id": message, "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": text}]}})
}

#[test]
fn a_prompt_in_known_words_within_a_message_is_no_repeated_history() {
    let state = stored(&[
        prompt("p1", None, "go on"),
        answer("a1", "p1", "m1", "One."),
        prompt("p2", Some("a1"), "Then?"),
        answer("a2", "p2", "m2", "Two."),
        prompt("p3", Some("a2"), "go on"),
        answer("a3", "p3", "m2", "Three."),
    ]);
    insta::assert_snapshot!(show(&state), @r#"
    p1 user_message "go on"
    m1:0 assistant_text "One."
    p2 user_message "Then?"
    m2:0 assistant_text "Two."
    p3 user_message "go on"
    m2:1 assistant_text "Three."
    "#);
}

fn init(session: &str) -> Value {
    json!({"type": "system", "subtype": "init", "session_id": session})
}

fn message(session: &str, id: &str, model: &str, text: &str) -> Value {
    json!({"type": "assistant", "uuid": format!("u-{id}"), "session_id": session,
        "message": {"id": id, "role": "assistant", "model": model,
            "content": [{"type": "text", "text": text}]}})
}

fn inactive(state: &ConversationState) -> Vec<String> {
    let blocks = state.blocks();
    blocks.iter().filter(|it| it.inactive).map(|it| it.id.to_string()).collect()
}

#[test]
fn a_command_that_begins_a_session_leaves_the_context() {
    let state = streamed(&[
        init("s1"),
        message("s1", "m1", "m", "One."),
        init("s2"),
        message("s2", "c", "<synthetic>", "(no content)"),
        init("s2"),
        message("s2", "m2", "m", "Two."),
    ]);
    assert_eq!(inactive(&state), ["m1:0"]);
}

#[test]
fn a_run_under_another_id_continues_the_context() {
    let state = streamed(&[
        init("s1"),
        message("s1", "m1", "m", "One."),
        init("s2"),
        message("s2", "m2", "m", "Two."),
        message("s2", "c", "<synthetic>", "(no content)"),
    ]);
    assert_eq!(inactive(&state), Vec::<String>::new());
}
