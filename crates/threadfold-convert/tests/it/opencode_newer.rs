//! OpenCode 2: forms of its records, and what no recording has.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Value, json};
use threadfold_convert::opencode;
use threadfold_fold::{SessionFile, parse_transcript};
use threadfold_testkit::story::{kinds, show};

use crate::opencode::{oddities, run, shown};

const SESSION: &str = "ses_1";

/// Returns an event as a line of server-sent events.
fn event(number: u64, kind: &str, mut data: Value) -> String {
    data["sessionID"] = json!(SESSION);
    let durable = json!({"aggregateID": SESSION, "seq": number, "version": 1});
    let event = json!({"id": format!("evt_{number}"), "created": number, "type": kind,
        "data": data, "durable": durable});
    format!("data: {event}\n\n")
}

fn created() -> String {
    event(0, "session.created", json!({"version": "2.0.15", "location": {"directory": "/"}}))
}

fn prompt(number: u64, id: &str, words: &str) -> String {
    let item = json!({"type": "user", "payload": {"text": words}, "delivery": "steer"});
    event(number, "session.inbox.enqueued", json!({"inboxID": id, "item": item}))
}

fn delivered(number: u64, id: &str) -> String {
    event(number, "session.inbox.delivered", json!({"inboxID": id}))
}

fn step(number: u64, kind: &str, mut data: Value) -> String {
    data["assistantMessageID"] = json!("msg_a");
    event(number, &format!("session.{kind}"), data)
}

#[test]
fn a_prompt_waits_after_everything_until_it_is_delivered() {
    let lines = [
        created(),
        prompt(1, "msg_1", "first"),
        delivered(2, "msg_1"),
        prompt(3, "msg_0", "second, while busy"),
        step(4, "step.started", json!({"model": {"id": "m"}, "started": 4})),
        step(5, "text.started", json!({"ordinal": 0})),
        step(6, "text.ended", json!({"ordinal": 0, "text": "an answer"})),
    ];
    assert_snapshot!(shown(&lines), @r#"
    msg_1 user_message "first"
    msg_a:text:0 assistant_text "an answer"
    msg_0 user_message interrupted "second, while busy"
    "#);
    let lines = [&lines[..], &[delivered(7, "msg_0")]].concat();
    assert_snapshot!(shown(&lines), @r#"
    msg_1 user_message "first"
    msg_a:text:0 assistant_text "an answer"
    msg_0 user_message "second, while busy"
    "#);
}

#[test]
fn a_cancelled_prompt_is_gone() {
    let cancelled = event(2, "session.inbox.cancelled", json!({"inboxID": "msg_1"}));
    assert_snapshot!(shown(&[created(), prompt(1, "msg_1", "never mind"), cancelled]), @"");
}

#[test]
fn texts_keep_the_order_in_which_they_began() {
    let lines = [
        created(),
        step(1, "step.started", json!({"model": {"id": "m"}, "started": 1})),
        step(2, "reasoning.started", json!({"ordinal": 0})),
        step(3, "text.started", json!({"ordinal": 0})),
        step(4, "tool.input.started", json!({"id": "call_1", "name": "shell"})),
        step(5, "text.started", json!({"ordinal": 1})),
        step(6, "text.ended", json!({"ordinal": 1, "text": "after the call"})),
        step(7, "text.ended", json!({"ordinal": 0, "text": "before the call"})),
        step(8, "reasoning.ended", json!({"ordinal": 0, "text": "a thought"})),
    ];
    assert_snapshot!(shown(&lines), @r#"
    msg_a:reasoning:0 thinking "a thought"
    msg_a:text:0 assistant_text "before the call"
    msg_a:call_1 tool_use interrupted "shell"
    msg_a:text:1 assistant_text "after the call"
    "#);
}

#[test]
fn an_unknown_event_message_item_or_state_is_shown_as_it_is() {
    let lines = [
        created(),
        event(1, "session.teleported", json!({"to": "elsewhere"})),
        event(2, "form.exploded", json!({})),
        "data: {\"type\":\"weather.updated\",\"data\":{}}\n".to_owned(),
    ];
    assert_eq!(oddities(lines.concat().as_bytes()), []);
    let export = json!({"data": {
        "info": {"id": SESSION, "projectID": "p", "location": {"directory": "/"}},
        "messages": [
            {"id": "msg_1", "type": "telepathy", "time": {"created": 1}, "wave": 7},
            {"id": "msg_2", "type": "assistant", "time": {"created": 2}, "content": [
                {"type": "hologram", "depth": 3},
                {"type": "tool", "id": "call_1", "name": "x", "state": {"status": "dreaming"}},
                {"type": "text", "text": "and a text"}]}]}});
    let bytes = export.to_string().into_bytes();
    let file = SessionFile { path: "export.json", bytes: &bytes };
    assert_snapshot!(show(&parse_transcript(opencode::AGENT, &[file])), @r#"
    msg_1 unknown ""
    msg_2:0 unknown ""
    msg_2:1 unknown ""
    msg_2:text:0 assistant_text "and a text"
    "#);
}

#[test]
fn a_failed_compaction_is_shown_with_its_error() {
    let lines = [
        created(),
        event(1, "session.compaction.started", json!({"reason": "auto", "recent": ""})),
        event(
            2,
            "session.compaction.failed",
            json!({"reason": "auto",
            "error": {"type": "compaction.failed", "message": "no summary"}}),
        ),
    ];
    assert_snapshot!(shown(&lines), @r#"
    msg_1 system ""
    error:msg_1 error ""
    "#);
}

#[test]
fn every_form_of_a_stored_session_is_one_state() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let read = |name: &str| {
        let folders = ["opencode/subagent@2.0.15", "opencode_newer"];
        let mut found = folders.iter().filter_map(|it| fs::read(data.join(it).join(name)).ok());
        (name.to_owned(), found.next().unwrap())
    };
    let state = |names: &[&str]| {
        let files: Vec<_> = names.iter().map(|name| read(name)).collect();
        let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
        parse_transcript(opencode::AGENT, &files)
    };
    let whole = state(&["export.json", "export.child1.json"]);
    assert_eq!(kinds(&whole)["subagent"], 1);
    // The program prints the same as the API, without the wrapper.
    assert_eq!(state(&["cli_export.json", "export.child1.json"]).hash(), whole.hash());
    assert_eq!(state(&["db_rows.jsonl"]).hash(), whole.hash());
    // The messages of the API do not name their session: the one before them does.
    let answers = fs::read(data.join("opencode_newer/messages.json")).unwrap();
    let session = fs::read(data.join("opencode_newer/session.json")).unwrap();
    let files = [("a.session.json", &session), ("b.messages.json", &answers)];
    let files = files.map(|(path, bytes)| SessionFile { path, bytes });
    let alone = state(&["export.json"]);
    assert_eq!(parse_transcript(opencode::AGENT, &files).hash(), alone.hash());
}

#[test]
fn a_history_that_has_the_newest_message_first_is_turned_around() {
    let message = |number: u64| {
        json!({"id": format!("msg_{number}"), "type": "user",
        "time": {"created": number}, "text": format!("prompt {number}")})
    };
    let state = |numbers: [u64; 3]| {
        let data: Vec<_> = numbers.into_iter().map(message).collect();
        let bytes = json!({"data": data, "cursor": {}}).to_string().into_bytes();
        let file = SessionFile { path: "messages.json", bytes: &bytes };
        show(&parse_transcript(opencode::AGENT, &[file]))
    };
    assert_eq!(state([3, 2, 1]), state([1, 2, 3]));
}

#[test]
fn a_staged_revert_marks_its_messages_inactive() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/opencode_newer");
    let read = |name: &str| fs::read(data.join(name)).unwrap();
    let (session, messages) = (read("session.staged.json"), read("messages.staged.json"));
    let files = [("1.json", &session), ("2.json", &messages), ("3.json", &session)];
    let files = files.map(|(path, bytes)| SessionFile { path, bytes });
    let state = parse_transcript(opencode::AGENT, &files);
    let active: Vec<_> = state.blocks().iter().map(|it| !it.inactive).collect();
    assert_eq!(active, [true, true, false, false, false, false, false, false]);
}

#[test]
fn lines_of_opencode_run_are_known() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/opencode_newer");
    for (name, expected) in [
        ("run_json_error400", r#"{"error": 1}"#),
        ("run_json_subagent", r#"{"assistant_text": 2, "tool_result": 1, "tool_use": 1}"#),
        ("run_json_thinking", r#"{"assistant_text": 1}"#),
    ] {
        let bytes = fs::read(data.join(format!("{name}.jsonl"))).unwrap();
        assert_eq!(format!("{:?}", kinds(&crate::opencode::streamed(&bytes))), expected, "{name}");
    }
}

#[test]
fn rows_of_version_2_replace_what_version_1_stored_of_the_same_message() {
    let older = [
        json!({"table": "session", "row": {"id": SESSION, "directory": "/"}}),
        json!({"table": "message", "row": {"id": "msg_1", "session_id": SESSION,
            "data": {"role": "user", "time": {"created": 1}}}}),
        json!({"table": "part", "row": {"id": "prt_1", "message_id": "msg_1",
            "session_id": SESSION, "data": {"type": "text", "text": "hello"}}}),
    ];
    let newer = [
        json!({"table": "session_v2", "row": {"id": SESSION, "directory": "/"}}),
        json!({"table": "session_message", "row": {"id": "msg_1", "session_id": SESSION,
            "type": "user", "seq": 0, "data": {"text": "hello", "time": {"created": 1}}}}),
    ];
    let later = [
        json!({"table": "message", "after": "session_v2", "row": {"id": "msg_2",
            "session_id": SESSION, "data": {"role": "user", "time": {"created": 2}}}}),
        json!({"table": "part", "after": "session_v2", "row": {"id": "prt_2",
            "message_id": "msg_2", "session_id": SESSION,
            "data": {"type": "text", "text": "in version 1 again"}}}),
    ];
    let gone = [json!({"table": "session_message", "deleted": {"id": "msg_1",
        "session_id": SESSION}})];
    let state = |rows: &[&[Value]]| {
        let text: String = rows.concat().iter().map(|row| format!("{row}\n")).collect();
        let file = SessionFile { path: "rows.jsonl", bytes: text.as_bytes() };
        show(&parse_transcript(opencode::AGENT, &[file]))
    };
    assert_snapshot!(state(&[&older, &newer, &later]), @r#"
    msg_1 user_message "hello"
    continued:ses_1 system ""
    prt_2 user_message "in version 1 again"
    "#);
    assert_snapshot!(state(&[&older, &newer, &gone]), @"");
}

#[test]
fn a_stream_that_is_cut_anywhere_folds_without_an_oddity() {
    for name in ["subagent@2.0.15", "revert@2.0.15", "shell_fork@2.0.15", "compact_manual@2.0.15"] {
        let stream = run(name).stream;
        let lines: Vec<&[u8]> = stream.split_inclusive(|byte| *byte == b'\n').collect();
        for from in 0..lines.len() {
            assert_eq!(oddities(&lines[from..].concat()), [], "{name} from line {from}");
        }
    }
}
