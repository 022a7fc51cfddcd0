//! Subagents of Claude Code: where they stand, and how they end.

use insta::assert_snapshot;
use serde_json::{Value, json};
use threadfold_convert::claude;
use threadfold_core::{BlockStatus, ConversationState};
use threadfold_fold::{Record, SessionFile, parse_transcript, stream_records};
use threadfold_testkit::story::show;

use crate::recorded::{empty_fold, push_all, run, runs};

const SESSION: &str = "00000000-0000-4000-8000-000000000007";

fn jsonl(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

fn state_of(records: Vec<Record>) -> ConversationState {
    let mut fold = empty_fold();
    push_all(&mut fold, records);
    fold.settled()
}

fn streamed(lines: &[Value]) -> ConversationState {
    state_of(stream_records(claude::AGENT, 1, &jsonl(lines)))
}

/// Returns the state of a finished session: its main file, and the files of its subagents.
fn stored(main: &[Value], subagents: &[(&str, &[Value])]) -> ConversationState {
    let mut files = vec![(format!("p/{SESSION}.jsonl"), jsonl(main))];
    for (agent, lines) in subagents {
        files.push((format!("p/{SESSION}/subagents/agent-{agent}.jsonl"), jsonl(lines)));
    }
    let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    parse_transcript(claude::AGENT, &files)
}

fn call(id: &str, uuid: &str, input: Value) -> Value {
    json!({"type": "assistant", "uuid": uuid, "sessionId": SESSION, "message": {
        "id": format!("m-{uuid}"), "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": "Task", "input": input}]}})
}

fn prompt(uuid: &str, text: &str) -> Value {
    json!({"type": "user", "uuid": uuid, "sessionId": SESSION,
        "message": {"role": "user", "content": text}})
}

fn launched(uuid: &str, id: &str, agent: &str) -> Value {
    json!({"type": "user", "uuid": uuid, "sessionId": SESSION,
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id,
            "content": [{"type": "text", "text": "Async agent launched successfully."}]}]},
        "toolUseResult": {"isAsync": true, "status": "async_launched", "agentId": agent}})
}

/// A nested run, in the stream of 2.1.239: `started` says where its start stands.
fn nested(start_before_call: bool) -> Vec<Value> {
    let agent = |id: &str, message: &str, parent: Value, uuid: &str, prompt: &str| {
        json!({"type": "assistant", "session_id": "s", "uuid": uuid, "parent_tool_use_id": parent,
            "message": {"id": message, "role": "assistant", "content": [{"type": "tool_use",
                "id": id, "name": "Agent", "input": {"description": id, "prompt": prompt}}]}})
    };
    let started = |task: &str, id: &str, prompt: &str| {
        json!({"type": "system", "subtype": "task_started", "task_id": task, "tool_use_id": id,
            "task_type": "local_agent", "prompt": prompt, "uuid": task, "session_id": "s"})
    };
    let ended = |id: &str, parent: Value, uuid: &str, text: &str| {
        json!({"type": "user", "session_id": "s", "uuid": uuid, "parent_tool_use_id": parent,
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id,
                "content": [{"type": "text", "text": text}]}]}})
    };
    let mut inner =
        vec![started("bbb2", "inner", "i"), agent("inner", "m2", json!("outer"), "a2", "i")];
    if !start_before_call {
        inner.reverse();
    }
    let mut lines =
        vec![agent("outer", "m1", Value::Null, "a1", "o"), started("aaa1", "outer", "o")];
    lines.extend(inner);
    lines.push(ended("inner", json!("outer"), "u2", "3"));
    lines.push(ended("outer", Value::Null, "u3", "three"));
    lines.push(json!({"type": "result", "subtype": "success", "session_id": "s", "uuid": "r"}));
    lines
}

#[test]
fn a_nested_run_that_starts_before_its_call_stands_where_its_call_is() {
    let before = streamed(&nested(true));
    assert_snapshot!(show(&before), @r#"
    outer subagent success "o -> three"
    [aaa1 call outer success] "o" -> "three"
      inner subagent success "i -> 3"
    [bbb2 call inner success] "i" -> "3"
    "#);
    assert_eq!(before.hash(), streamed(&nested(false)).hash());
}

#[test]
fn a_nested_run_is_unplaced_until_its_call_is_streamed() {
    let lines = nested(true);
    assert_snapshot!(show(&streamed(&lines[..3])), @r#"
    outer subagent error interrupted "o -> "
    [aaa1 call outer error] "o"
    [bbb2 unplaced call inner error] "i"
    "#);
}

#[test]
fn no_recorded_run_leaves_a_subagent_running_or_unplaced() {
    for run in runs() {
        let mut states = vec![("files", run.transcript_state())];
        // The stream of a run that was killed has no end.
        states.push(("stream", state_of(run.stream_records())));
        for (side, state) in states {
            for subagent in state.subagents() {
                let name = format!("{} {side} {}", run.name, subagent.conversation_id());
                assert!(!subagent.status().is_open(), "{name} is running");
                assert!(!subagent.is_unplaced(), "{name} is unplaced");
            }
        }
    }
}

#[test]
fn notifications_of_all_versions_end_a_background_run() {
    let older = "<agent-notification>\n<agent-id>afba179</agent-id>\n<status>completed</status>\n\
        <summary>Agent \"d\" completed.</summary>\n</agent-notification>";
    let newer = "<task-notification>\n<task-id>afba179</task-id>\n<tool-use-id>t1</tool-use-id>\n\
        <status>completed</status>\n<summary>Agent \"d\" finished</summary>\n<result>found 3 \
        </status></result>\n<usage><duration_ms>7</duration_ms></usage>\n</task-notification>";
    let preamble =
        format!("[SYSTEM NOTIFICATION - NOT USER INPUT]\nThis is an automated event.\n\n{newer}");
    let launch = [
        prompt("u1", "go"),
        call("t1", "a1", json!({"prompt": "p", "description": "d", "run_in_background": true})),
        launched("u2", "t1", "afba179"),
    ];
    let ends = |notification: Value| {
        let lines: Vec<Value> = launch.iter().cloned().chain([notification]).collect();
        let header = stored(&lines, &[]).subagents()[0].header();
        (header.status, header.output.and_then(|output| output.to_text()), header.duration_ms)
    };
    let enqueued = |text: &str| {
        json!({"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION,
            "content": text})
    };
    let found = || Some("found 3 </status>".to_owned());
    assert_eq!(ends(enqueued(older)), (BlockStatus::Success, None, None));
    assert_eq!(ends(enqueued(newer)), (BlockStatus::Success, found(), Some(7)));
    assert_eq!(ends(prompt("u3", &preamble)), (BlockStatus::Success, found(), Some(7)));
}

#[test]
fn a_background_run_without_a_notification_is_interrupted_when_the_files_end() {
    let main = [
        prompt("u1", "go"),
        call("t1", "a1", json!({"prompt": "p", "run_in_background": true})),
        launched("u2", "t1", "b1"),
    ];
    assert_snapshot!(show(&stored(&main, &[])), @r#"
    u1 user_message "go"
    t1 subagent error interrupted "p -> "
    [b1 call t1 error] "p"
    "#);
}

#[test]
fn a_foreground_call_that_was_cut_off_is_interrupted_with_its_blocks() {
    let main = [
        prompt("u1", "go"),
        call("t1", "a1", json!({"prompt": "p"})),
        prompt("u9", "a new prompt, the next day"),
    ];
    let mut work = call("t2", "x2", json!({}));
    work["message"]["content"][0]["name"] = json!("Bash");
    assert_snapshot!(show(&stored(&main, &[("a1", &[prompt("x1", "p"), work])])), @r#"
    u1 user_message "go"
    t1 subagent error interrupted "p -> "
    u9 user_message "a new prompt, the next day"
    [a1 call t1 error] "p"
      x1 user_message "p"
      t2 tool_use interrupted "Bash"
    "#);
}

#[test]
fn a_run_that_was_interrupted_is_linked_by_the_task_that_was_queued() {
    let queued = json!({"task_id": "b1", "tool_use_id": "t1", "task_type": "local_agent"});
    let main = [
        prompt("u1", "go"),
        call("t1", "a1", json!({"prompt": "p"})),
        json!({"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION,
            "content": queued.to_string()}),
        json!({"type": "user", "uuid": "u2", "sessionId": SESSION, "message": {"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true,
                "content": "[Request interrupted by user for tool use]"}]}}),
    ];
    assert_snapshot!(show(&stored(&main, &[("b1", &[prompt("x1", "p")])])), @r#"
    u1 user_message "go"
    t1 subagent error "p -> [Request interrupted by user for tool use]"
    [b1 call t1 error] "p" -> "[Request interrupted by user for tool use]"
      x1 user_message "p"
    "#);
}

#[test]
fn the_end_of_a_nested_background_run_is_found_in_the_main_file() {
    let state = run("nested_wake").transcript_state();
    let inner = state.subagent(&"a8b306045f611458d".into()).expect("the inner run is known");
    let header = inner.header();
    assert_eq!(header.output.and_then(|it| it.to_text()).as_deref(), Some("Slow: 3 lines."));
    assert_eq!((header.status, header.duration_ms), (BlockStatus::Success, Some(2274)));
}

#[test]
fn a_notification_before_the_call_of_its_run_is_not_lost() {
    // Without metadata beside it, the file of the caller is what names the call.
    let done = "<task-notification>\n<task-id>b2</task-id>\n<tool-use-id>t2</tool-use-id>\n\
        <status>completed</status>\n<summary>Agent \"in\" finished</summary>\n\
        <result>deep</result>\n</task-notification>";
    let main = [
        prompt("u1", "go"),
        call("t1", "a1", json!({"prompt": "outer"})),
        json!({"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION,
            "content": done}),
    ];
    let mut result = launched("x3", "t2", "b2");
    result.as_object_mut().expect("a line").remove("toolUseResult");
    result["message"]["content"][0]["content"] =
        json!("Async agent launched successfully.\nagentId: b2 (internal ID)");
    let outer = [prompt("x1", "outer"), call("t2", "x2", json!({"prompt": "inner"})), result];
    let state = stored(&main, &[("b1", &outer)]);
    let inner = state.subagent(&"t2".into()).expect("the inner run is known").header();
    assert_eq!(inner.output.and_then(|it| it.to_text()).as_deref(), Some("deep"));
    assert_eq!(inner.status, BlockStatus::Success);
}

#[test]
fn a_background_run_that_failed_has_its_error_as_output_on_both_sides() {
    let recorded = run("bg_parallel3_arg");
    for state in [recorded.stream_state(), recorded.transcript_state()] {
        let failed = state.subagent(&"a04d93a326b4a9da2".into()).expect("it is known").header();
        let output = failed.output.and_then(|it| it.to_text()).expect("it has an output");
        assert!(output.starts_with("Agent terminated early due to an API error"), "{output}");
        assert_eq!(failed.status, BlockStatus::Error);
    }
}

#[test]
fn a_stock_phrase_of_the_harness_is_not_the_output_of_a_run() {
    let task = |subtype: &str, more: Value| {
        let mut line = json!({"type": "system", "subtype": subtype, "task_id": "b1",
            "tool_use_id": "t1", "task_type": "local_agent", "uuid": subtype, "session_id": "s"});
        line.as_object_mut().expect("a line").extend(more.as_object().expect("fields").clone());
        line
    };
    let output = |status: &str, summary: &str| {
        let lines = [
            call("t1", "a1", json!({"prompt": "p", "description": "d"})),
            task("task_started", json!({"is_backgrounded": true, "prompt": "p"})),
            task("task_notification", json!({"status": status, "summary": summary})),
        ];
        let header = streamed(&lines).subagents()[0].header();
        (header.status, header.output.and_then(|output| output.to_text()))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(output("completed", "Agent \"d\" completed"), (BlockStatus::Success, None));
    assert_eq!(output("completed", "3 lines"), (BlockStatus::Success, some("3 lines")));
    assert_eq!(output("failed", "Agent \"d\" failed: 400"), (BlockStatus::Error, some("400")));
    assert_eq!(output("stopped", "Agent \"d\" was stopped"), (BlockStatus::Error, None));
}

#[test]
fn a_message_to_a_finished_subagent_is_a_run_of_its_own() {
    let recorded = run("named_agent");
    for state in [recorded.stream_state(), recorded.transcript_state()] {
        let subagents = state.subagents();
        let [subagent] = subagents.as_slice() else { panic!("one subagent") };
        let runs = subagent.header().runs;
        let output = |at: usize| runs[at].output.as_ref().and_then(|it| it.to_text());
        assert!(output(0).is_some_and(|it| it.starts_with("notes.txt has 3 lines.")));
        assert_eq!(output(1).as_deref(), Some("Counted again: still 3."));
        assert_eq!(runs[1].prompt.as_deref(), Some("[[play:child2#na2]] Count again."));
        let answer = state.blocks().find(&"result:toolu_bf7401b0c0c47dc183d12cc6".into());
        assert!(answer.is_some(), "the result of the message is kept");
    }
}

#[test]
fn the_output_of_a_slash_command_is_one_block_on_both_sides() {
    let recorded = run("slash2");
    let outputs = |state: &ConversationState| -> Vec<(String, String)> {
        let commands = state.blocks();
        let commands = commands.of_kind("system").filter_map(|block| match &block.body {
            threadfold_core::BlockBody::System(body) if &*body.subtype == "command" => {
                Some((block.id.to_string(), body.message.as_ref()?.to_string()))
            }
            _ => None,
        });
        commands.filter(|(_, text)| !text.starts_with('<')).collect()
    };
    let streamed = outputs(&recorded.stream_state());
    assert_eq!(streamed.len(), 2);
    assert_eq!(streamed[0].1, "Set model to `Sonnet 5.5` for this session only");
    assert_eq!(streamed, outputs(&recorded.transcript_state()));
}
