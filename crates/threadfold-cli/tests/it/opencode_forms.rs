//! OpenCode formats other than bus and store, detected automatically.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::opencode::recorded;

/// Returns the events of a recording's bus.
fn bus(env: &TestEnv) -> Vec<Value> {
    let stream = fs::read_to_string(env.path("events.sse.jsonl")).unwrap();
    let unwrap = |line: &str| serde_json::from_str::<Value>(line).unwrap()["data"].take();
    stream.lines().map(unwrap).collect()
}

#[test]
fn the_bus_in_a_wrapper_or_in_a_list_is_the_bus() {
    for name in ["text", "tools", "subagent"] {
        let env = recorded(name);
        let events = bus(&env);
        let note = |event: &Value| {
            let line =
                json!({"timestamp": 1, "threadId": "t", "projectDirectory": "/p", "event": event});
            format!("{line}\n")
        };
        env.write("bare.jsonl", events.iter().map(|it| format!("{it}\n")).collect::<String>());
        env.write("noted.jsonl", events.iter().map(note).collect::<String>());
        env.write("list.json", serde_json::to_vec_pretty(&events).unwrap());
        let bare = env.run(&["fold", "bare.jsonl", "--hash"]);
        assert!(bare.starts_with("exit 0"), "{bare}");
        for form in ["noted.jsonl", "list.json"] {
            assert_eq!(env.run(&["fold", form, "--hash"]), bare, "{name} {form}");
            let verified =
                env.run(&["verify", "--stream", form, "--transcript", "opencode.db", "--replay"]);
            assert!(
                verified.starts_with("exit 0\n--- stdout\nequal: "),
                "{name} {form}: {verified}"
            );
            assert!(!verified.contains("NOT"), "{name} {form}: {verified}");
        }
    }
}

#[test]
fn the_output_of_opencode_run_can_be_viewed() {
    let env = TestEnv::new();
    let line = |kind: &str, part: Value| json!({"type": kind, "timestamp": 1_767_038_000_000_u64, "sessionID": "ses_1", "part": part});
    let part = |id: &str, kind: &str| json!({"id": id, "messageID": "msg_1", "type": kind});
    let mut tool = part("prt_2", "tool");
    tool["callID"] = "call_1".into();
    tool["tool"] = "bash".into();
    tool["state"] = json!({"status": "completed", "input": {"command": "echo hi"}, "output": "hi\n",
        "title": "Greet", "metadata": {}, "time": {"start": 1, "end": 51}});
    let mut text = part("prt_3", "text");
    text["text"] = "It said hi.".into();
    let mut finish = part("prt_4", "step-finish");
    finish["tokens"] = json!({"input": 12, "output": 3});
    let lines = [
        line("step_start", part("prt_1", "step-start")),
        line("tool_use", tool),
        line("text", text),
        line("step_finish", finish),
        json!({"type": "error", "timestamp": 1_767_038_001_000_u64, "sessionID": "ses_1",
            "error": {"name": "APIError", "data": {"message": "Rate limit exceeded"}}}),
    ];
    env.write("run.jsonl", lines.map(|it| format!("{it}\n")).concat());
    assert_snapshot!(env.run(&["fold", "run.jsonl", "--anomalies"]), @"
    exit 0
    --- stdout
    --- stderr
    no anomalies in 6 events
    ");
    assert_snapshot!(env.run(&["view", "run.jsonl", "--no-pager", "--width", "60"]), @"
    exit 0
    --- stdout
    session ses_1

    Assistant · 1970-01-01 00:00
      ● bash  echo hi  ✓ hi · 50 ms

      It said hi.

      ✗ Rate limit exceeded

    ────────────────────────────────────────────────────────────
    4 blocks
    tokens: 12 in · 3 out
    --- stderr
    ");
}

#[test]
fn answers_of_the_api_are_found_out() {
    let env = TestEnv::new();
    let message = json!({
        "info": {"id": "msg_1", "sessionID": "ses_1", "role": "assistant"},
        "parts": [{"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1", "type": "text",
            "text": "Hello.", "time": {"start": 1, "end": 2}}],
    });
    env.write("one.json", serde_json::to_vec_pretty(&message).unwrap());
    env.write("list.json", serde_json::to_vec_pretty(&json!([message])).unwrap());
    let one = env.run(&["fold", "one.json"]);
    assert!(one.contains(r#""id":"prt_1""#) && !one.contains("unknown"), "{one}");
    assert_eq!(env.run(&["fold", "list.json"]), one);
}
