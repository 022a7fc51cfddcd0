//! OpenCode's bus in wrappers of other programs, as a list, and as `opencode run` prints it.

use insta::assert_snapshot;
use serde_json::{Value, json};
use threadfold_convert::lines::lines;
use threadfold_convert::opencode;
use threadfold_core::{Block, BlockBody, ConversationState};
use threadfold_fold::{SessionFile, parse_transcript};

use crate::opencode::{oddities, run, shown, streamed};

const RUNS: [&str; 5] = ["text", "tools", "thinking", "subagent", "parallel@1.1.65"];

/// Returns the events of a recording without the recorder's wrapper.
fn bare_events(name: &str) -> Vec<Value> {
    let stream = run(name).stream;
    lines(&stream)
        .map(|line| serde_json::from_slice::<Value>(line.bytes).expect("a recording is whole"))
        .map(|mut line| line["data"].take())
        .collect()
}

fn as_lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|it| format!("{it}\n")).collect::<String>().into_bytes()
}

#[test]
fn an_event_may_have_fields_of_a_recorder_beside_it() {
    for name in RUNS {
        let noted = bare_events(name).into_iter().map(|event| {
            json!({"timestamp": "2026-03-04T16:36:36.508Z", "threadId": "1", "runPhase": "running",
            "event": event})
        });
        let noted = as_lines(&noted.collect::<Vec<_>>());
        assert_eq!(streamed(&noted), streamed(&run(name).stream), "{name}");
        assert_eq!(oddities(&noted), [], "{name}");
    }
}

#[test]
fn a_note_with_the_name_event_is_not_a_wrapper() {
    let line = json!({"type": "file.watcher.updated", "event": {"kind": "change"},
        "properties": {"file": "a.rs", "event": "change"}});
    assert_snapshot!(shown(&[line.to_string()]), @"");
    let line = json!({"event": "change", "file": "a.rs"});
    assert_snapshot!(shown(&[line.to_string()]), @r#"line:stream:1:0 unknown """#);
}

#[test]
fn events_of_the_newer_protocol_are_about_data() {
    for name in ["v2_text", "v2_thinking", "v2_tools", "v2_error_retry"] {
        let newer = bare_events(name).into_iter().map(|mut event| {
            let about = event["properties"].take();
            json!({"recv": 1, "data": {"id": event["id"], "type": event["type"], "data": about}})
        });
        let mut newer = as_lines(&newer.collect::<Vec<_>>());
        newer.extend(b"{\"recv\": 2, \"comment\": \" heartbeat\"}\n");
        assert_eq!(streamed(&newer), streamed(&as_lines(&bare_events(name))), "{name}");
        assert_eq!(oddities(&newer), [], "{name}");
    }
}

#[test]
fn a_list_of_events_is_the_events() {
    for name in RUNS {
        let list = serde_json::to_vec_pretty(&bare_events(name)).expect("values are JSON");
        assert_eq!(streamed(&list), streamed(&run(name).stream), "{name}");
    }
}

#[test]
fn a_list_of_unknown_records_becomes_blocks() {
    let list = r#"[{"type": 1}, {"a": 2}]"#.to_owned();
    // A stream that is one list is read as the lines that the list stands for.
    assert_snapshot!(shown(std::slice::from_ref(&list)), @r#"
    line:stream:1:0 unknown ""
    line:stream:2:0 unknown ""
    "#);
    assert_snapshot!(shown(&[list, "\n{\"comment\": \"\"}\n".to_owned()]), @r#"
    line:stream:1:0 unknown ""
    line:stream:1:1 unknown ""
    "#);
}

#[test]
fn an_answer_of_the_api_is_one_message() {
    let answer = serde_json::to_vec_pretty(&json!({
        "info": {"id": "m2", "sessionID": "s", "role": "assistant", "modelID": "model"},
        "parts": [
            {"id": "p1", "messageID": "m2", "sessionID": "s", "type": "step-start"},
            {"id": "p2", "messageID": "m2", "sessionID": "s", "type": "text", "text": "Hello.",
             "time": {"start": 1, "end": 2}},
        ],
    }));
    let bytes = answer.expect("values are JSON");
    let file = SessionFile { path: "answer.json", bytes: &bytes };
    let state = parse_transcript(opencode::AGENT, &[file]);
    assert_eq!(state.blocks().iter().map(|it| it.id.to_string()).collect::<Vec<_>>(), ["p2"]);
}

/// Returns what `opencode run --format json` prints of a session: its parts, as they end.
fn run_lines(name: &str) -> Vec<Value> {
    let events = bare_events(name);
    let parts = events.iter().filter(|it| it["type"] == "message.part.updated");
    let prompts: Vec<&Value> = events
        .iter()
        .filter(|it| it["properties"]["info"]["role"] == "user")
        .map(|it| &it["properties"]["info"]["id"])
        .collect();
    parts
        .map(|it| &it["properties"]["part"])
        .filter(|part| !prompts.contains(&&part["messageID"]))
        .filter_map(|part| {
            let kind = match part["type"].as_str()? {
                "step-start" => "step_start",
                "step-finish" => "step_finish",
                "tool" if part["state"]["time"]["end"].is_number() => "tool_use",
                kind @ ("text" | "reasoning") if part["time"]["end"].is_number() => kind,
                _ => return None,
            };
            Some(json!({"type": kind, "timestamp": 1, "sessionID": part["sessionID"],
                "part": part}))
        })
        .collect()
}

/// Returns the blocks without what `run` does not print.
fn printed(state: &ConversationState) -> Vec<Block> {
    let blocks = state.blocks();
    let is_printed =
        |it: &Block| !matches!(it.body, BlockBody::UserMessage(_) | BlockBody::System(_));
    let said = blocks.iter().filter(|it| is_printed(it));
    said.map(|block| {
        let mut block = Block::clone(&block);
        if let BlockBody::AssistantText(text) = &mut block.body {
            text.model = None;
        }
        block
    })
    .collect()
}

#[test]
fn lines_of_run_are_the_blocks_of_the_bus() {
    for name in ["text", "tools", "thinking", "parallel", "parallel@1.1.65", "tools@1.0.185"] {
        let printed_lines = as_lines(&run_lines(name));
        let state = streamed(&printed_lines);
        assert_eq!(oddities(&printed_lines), [], "{name}");
        assert!(!state.blocks().is_empty(), "{name}");
        assert_eq!(printed(&state), printed(&streamed(&as_lines(&bare_events(name)))), "{name}");
    }
}

fn line_of_run(kind: &str, part: Value) -> String {
    json!({"type": kind, "timestamp": 1_000, "sessionID": "s", "part": part}).to_string()
}

fn error_of_run() -> String {
    json!({"type": "error", "timestamp": 2_000, "sessionID": "s",
        "error": {"name": "APIError", "data": {"message": "slow down"}}})
    .to_string()
}

#[test]
fn a_part_without_times_has_ended_when_run_prints_it() {
    let text = json!({"id": "p1", "messageID": "m1", "type": "text", "text": "Done."});
    assert_snapshot!(shown(&[line_of_run("text", text)]), @r#"p1 assistant_text "Done.""#);
}

#[test]
fn an_error_of_run_is_of_the_message_whose_step_is_open() {
    let start = |id: &str, message: &str| {
        line_of_run("step_start", json!({"id": id, "messageID": message, "type": "step-start"}))
    };
    let finish =
        line_of_run("step_finish", json!({"id": "p2", "messageID": "m1", "type": "step-finish"}));
    assert_snapshot!(
        shown(&[start("p1", "m1"), finish.clone(), start("p3", "m2"), error_of_run()]),
        @r#"error:m2 error """#
    );
    assert_snapshot!(
        shown(&[start("p1", "m1"), finish, error_of_run()]),
        @r#"error:s:2000 error """#
    );
}
