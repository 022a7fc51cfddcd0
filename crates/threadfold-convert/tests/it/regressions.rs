//! Regressions found in other people's sessions, reproduced with synthetic data.

use insta::assert_snapshot;
use serde_json::{Value, json};
use threadfold_convert::{Bundle, claude};
use threadfold_core::{ConversationState, Payload, SessionEvent, SessionId, fold};
use threadfold_fold::{
    Cutter, Fold, Record, RecordKind, SessionFile, Slices, SourceRole, SourceSpec, file_records,
    parse_transcript, stream_records,
};
use threadfold_testkit::story::show;

const SESSION: &str = "11111111-0000-4000-8000-000000000000";

/// Returns a line of a file: a record below another.
pub(crate) fn line(kind: &str, uuid: &str, parent: Option<&str>, more: Value) -> Value {
    let mut line = json!({
        "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": SESSION,
        "isSidechain": false, "timestamp": "2026-01-01T00:00:00Z",
    });
    merge(&mut line, more);
    line
}

pub(crate) fn merge(line: &mut Value, more: Value) {
    if let (Value::Object(line), Value::Object(more)) = (line, more) {
        line.extend(more);
    }
}

pub(crate) fn prompt(uuid: &str, parent: Option<&str>, text: &str) -> Value {
    line("user", uuid, parent, json!({"message": {"role": "user", "content": text}}))
}

pub(crate) fn answer(uuid: &str, parent: &str, message: &str, blocks: Value) -> Value {
    let message = json!({"id": message, "role": "assistant", "model": "m", "content": blocks,
        "usage": {"output_tokens": 1}});
    line("assistant", uuid, Some(parent), json!({"message": message}))
}

pub(crate) fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

pub(crate) fn call(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
}

pub(crate) fn result(uuid: &str, parent: &str, call: &str, content: Value) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": call, "content": content});
    line("user", uuid, Some(parent), json!({"message": {"role": "user", "content": [block]}}))
}

pub(crate) fn jsonl(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

pub(crate) fn main_path() -> String {
    format!("p/{SESSION}.jsonl")
}

pub(crate) fn folded(lines: &[Value]) -> ConversationState {
    let bytes = jsonl(lines);
    parse_transcript(claude::AGENT, &[SessionFile { path: &main_path(), bytes: &bytes }])
}

pub(crate) fn shown(lines: &[Value]) -> String {
    show(&folded(lines))
}

pub(crate) fn file_events(bytes: &[u8]) -> Vec<SessionEvent> {
    events(file_records(claude::AGENT, 1, &[SessionFile { path: &main_path(), bytes }]))
}

pub(crate) fn stream_events(bytes: &[u8]) -> Vec<SessionEvent> {
    events(stream_records(claude::AGENT, 1, bytes))
}

pub(crate) fn events(records: Vec<Record>) -> Vec<SessionEvent> {
    let mut fold = Fold::new(SessionId::from(SESSION), Slices::default());
    (1..).zip(records).flat_map(|(seq, record)| fold.push(&record.at(seq)).events).collect()
}

#[test]
fn point_1_the_file_is_in_no_causal_order() {
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "go"),
            result("r1", "a1", "c1", json!("early")),
            answer("a1", "u1", "m1", json!([call("c1", "Bash")])),
        ]),
        @r#"
    u1 user_message "go"
    result:c1 tool_result "early"
    c1 tool_use "Bash"
    "#
    );
}

#[test]
fn point_2_reading_from_an_offset_equals_reading_the_complete_file() {
    let bytes = jsonl(&[
        prompt("u1", None, "go"),
        answer("a1", "u1", "m1", json!([text("one"), call("c1", "Bash")])),
        result("r1", "a1", "c1", json!("ok")),
        answer("a2", "r1", "m2", json!([text("two")])),
    ]);
    let whole = fold(&file_events(&bytes));
    for cut in 0..=bytes.len() {
        let spec = SourceSpec::new(claude::AGENT, SourceRole::Main, "s.jsonl");
        let mut records = vec![Record::new(RecordKind::Source, 1, 0, spec.to_json())];
        let mut first = Cutter::new(1);
        first.push(&bytes[..cut], &mut records);
        let position = first.position();
        let mut rest = Cutter::resume(1, position, false);
        rest.push(&bytes[position as usize..], &mut records);
        rest.finish(&mut records);
        records.push(Record::new(RecordKind::End, 1, rest.end(), ""));
        let all = events(records);
        assert_eq!(fold(&all).hash(), whole.hash(), "cut at {cut}");
    }
}

#[test]
fn point_3_two_records_on_one_line_and_no_last_line_end() {
    let mut bytes = jsonl(&[prompt("u1", None, "one")]);
    bytes.pop();
    bytes.extend(jsonl(&[prompt("u2", Some("u1"), "two")]));
    bytes.pop();
    assert_snapshot!(show(&fold(&file_events(&bytes))), @r#"
    u1 user_message "one"
    u2 user_message "two"
    "#);
}

#[test]
fn point_4_the_record_after_a_corrupt_one_is_recovered_and_the_loss_is_reported() {
    let whole = prompt("u2", Some("u1"), "whole").to_string();
    let broken = &prompt("u1", None, "broken").to_string()[..70];
    let bytes = format!("{broken}{whole}\n{}\n", &whole[40..]);
    let events = file_events(bytes.as_bytes());
    let losses: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::Log(log) => log.message.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(
        losses.iter().map(|it| &**it).collect::<Vec<_>>(),
        ["line 1: not valid JSON", "line 2: not valid JSON"]
    );
    let state = fold(&events);
    assert!(state.blocks().find(&"u2".into()).is_some());
    assert_eq!(state.blocks().iter().filter(|it| it.body.kind() == "unknown").count(), 2);
}

#[test]
fn point_5_one_message_is_many_lines_not_always_adjacent() {
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "go"),
            answer("a1", "u1", "m1", json!([{"type": "thinking", "thinking": "hm", "signature": "s"}])),
            answer("a2", "a1", "m1", json!([text("first"), call("c1", "Read")])),
            answer("b1", "a2", "m2", json!([text("another message")])),
            answer("a3", "a2", "m1", json!([text("second")])),
            answer("a3", "a2", "m1", json!([text("second")])),
        ]),
        @r#"
    u1 user_message "go"
    m1:0 thinking "hm"
    m1:1 assistant_text "first"
    c1 tool_use interrupted "Read"
    m2:0 assistant_text "another message"
    m1:3 assistant_text "second"
    "#
    );
}

#[test]
fn point_5_and_6_usage_is_counted_per_message_and_a_missing_stop_reason_changes_nothing() {
    let mut last = answer("a2", "a1", "m1", json!([text("b")]));
    last["message"]["usage"]["output_tokens"] = json!(99);
    last["message"]["stop_reason"] = Value::Null;
    let bytes =
        jsonl(&[prompt("u1", None, "go"), answer("a1", "u1", "m1", json!([text("a")])), last]);
    let used: Vec<_> = file_events(&bytes)
        .into_iter()
        .filter_map(|event| match event.payload {
            Payload::MetadataUpdate(update) => update.metadata.get("usage").cloned(),
            _ => None,
        })
        .map(|usage| usage.canonical())
        .collect();
    assert_eq!(
        used,
        [
            r#"{"messageId":"m1","model":"m","tokens":{"output_tokens":1}}"#,
            r#"{"messageId":"m1","model":"m","tokens":{"output_tokens":99}}"#
        ]
    );
}

#[test]
fn point_7_a_thought_without_words_keeps_its_signature() {
    let state = folded(&[
        prompt("u1", None, "go"),
        answer("a1", "u1", "m1", json!([{"type": "thinking", "thinking": "", "signature": "sig"}])),
    ]);
    let json = serde_json::to_value(&state).unwrap();
    assert_eq!(json["blocks"][1]["content"], "");
    assert_eq!(json["blocks"][1]["signature"], "sig");
}

#[test]
fn point_8_lines_that_show_nothing_stay_in_the_chain() {
    let state = folded(&[
        prompt("u1", None, "one"),
        line("attachment", "x1", Some("u1"), json!({"attachment": {"type": "date"}})),
        answer("a1", "x1", "m1", json!([text("first")])),
        line("system", "y1", Some("a1"), json!({"subtype": "turn_duration", "durationMs": 5})),
        line("progress", "z1", Some("y1"), json!({"data": {}})),
        prompt("u2", Some("z1"), "two"),
    ]);
    assert!(state.blocks().iter().all(|block| !block.inactive), "{state:?}");
}

#[test]
fn point_9_parallel_tools_are_no_fork() {
    let state = folded(&[
        prompt("u1", None, "go"),
        answer("a1", "u1", "m1", json!([call("c1", "Read")])),
        answer("a2", "a1", "m1", json!([call("c2", "Read")])),
        result("r1", "a1", "c1", json!("one")),
        result("r2", "a2", "c2", json!("two")),
        answer("a3", "r1", "m2", json!([text("both")])),
        prompt("u2", Some("a3"), "more"),
    ]);
    assert!(state.blocks().iter().all(|block| !block.inactive), "{state:?}");
}

#[test]
fn point_9_an_edited_prompt_starts_a_branch_and_both_are_preserved() {
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "one"),
            answer("a1", "u1", "m1", json!([text("first")])),
            prompt("u2", Some("a1"), "two"),
            answer("a2", "u2", "m2", json!([text("second")])),
            prompt("u3", Some("a1"), "two, said better"),
            answer("a3", "u3", "m3", json!([text("third")])),
            answer("a4", "a2", "m4", json!([text("late word of the branch that was left")])),
        ]),
        @r#"
    u1 user_message "one"
    m1:0 assistant_text "first"
    u2 user_message inactive "two"
    m2:0 assistant_text inactive "second"
    u3 user_message "two, said better"
    m3:0 assistant_text "third"
    m4:0 assistant_text inactive "late word of the branch that was left"
    "#
    );
}

#[test]
fn point_9_the_first_prompt_is_edited_before_an_answer() {
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "one"),
            prompt("u2", None, "one, said better"),
            answer("a1", "u2", "m1", json!([text("first")])),
        ]),
        @r#"
    u1 user_message inactive "one"
    u2 user_message "one, said better"
    m1:0 assistant_text "first"
    "#
    );
}

#[test]
fn point_10_missing_parents_and_cycles_change_nothing() {
    let state = folded(&[
        prompt("u1", Some("nowhere"), "one"),
        answer("a1", "a2", "m1", json!([text("first")])),
        answer("a2", "a1", "m2", json!([text("second")])),
        prompt("u2", Some("u2"), "myself"),
        line(
            "system",
            "s1",
            None,
            json!({
                "subtype": "compact_boundary", "logicalParentUuid": "gone",
                "compactMetadata": {"preservedSegment": {"headUuid": "gone"}},
            }),
        ),
        prompt("u3", Some("s1"), "after"),
    ]);
    assert_snapshot!(show(&state), @r#"
    u1 user_message inactive "one"
    m1:0 assistant_text inactive "first"
    m2:0 assistant_text inactive "second"
    u2 user_message inactive "myself"
    s1 system ""
    u3 user_message "after"
    "#);
}

#[test]
fn point_11_a_copied_history_stands_in_its_own_conversation() {
    let main = [prompt("u1", None, "go"), answer("a1", "u1", "m1", json!([text("said")]))];
    let (bytes, copy) = (jsonl(&main), jsonl(&main));
    let state = parse_transcript(
        claude::AGENT,
        &[
            SessionFile { path: &main_path(), bytes: &bytes },
            SessionFile {
                path: &format!("p/{SESSION}/subagents/agent-aside_question-1.jsonl"),
                bytes: &copy,
            },
        ],
    );
    assert_snapshot!(show(&state), @r#"
    u1 user_message "go"
    m1:0 assistant_text "said"
    [aside_question-1 success internal]
      u1 user_message "go"
      m1:0 assistant_text "said"
    "#);
}

#[test]
fn point_12_the_session_is_the_files_and_not_the_streams() {
    let mut said = prompt("u1", None, "go");
    merge(&mut said, json!({"session_id": "another"}));
    let events = file_events(&jsonl(&[said]));
    let session = events[0].context.session_id.as_ref().map(|it| it.as_str().to_owned());
    assert_eq!(session.as_deref(), Some(SESSION));
}

#[test]
fn point_13_agents_without_a_call_stand_last_and_a_launch_is_no_result() {
    let launched = {
        let mut launched = result("r1", "a1", "c1", json!([text("launched")]));
        merge(
            &mut launched,
            json!({"toolUseResult":
            {"isAsync": true, "status": "async_launched", "agentId": "aaa1"}}),
        );
        launched
    };
    let told = "<task-notification>\n<task-id>aaa1</task-id>\n<tool-use-id>c1</tool-use-id>\n\
        <status>completed</status>\n<result>the real <b>one</b></result>\n\
        <usage><duration_ms>7</duration_ms></usage>\n</task-notification>";
    let mut notified = prompt("u2", Some("r1"), told);
    merge(&mut notified, json!({"origin": {"kind": "task-notification"}}));
    let main = jsonl(&[
        prompt("u1", None, "go"),
        answer(
            "a1",
            "u1",
            "m1",
            json!([
                {"type": "tool_use", "id": "c1", "name": "Agent", "input": {"prompt": "look"}}
            ]),
        ),
        launched,
        notified,
    ]);
    let own = jsonl(&[prompt("v1", None, "look")]);
    let suggestion = jsonl(&[prompt("w1", None, "suggest")]);
    let state = parse_transcript(
        claude::AGENT,
        &[
            SessionFile { path: &main_path(), bytes: &main },
            SessionFile {
                path: &format!("p/{SESSION}/subagents/agent-aprompt_suggestion-1.jsonl"),
                bytes: &suggestion,
            },
            SessionFile { path: &format!("p/{SESSION}/subagents/agent-aaa1.jsonl"), bytes: &own },
        ],
    );
    assert_snapshot!(show(&state), @r#"
    u1 user_message "go"
    c1 subagent success "look -> the real <b>one</b>"
    u2 system ""
    [aaa1 call c1 success] "look" -> "the real <b>one</b>"
      v1 user_message "look"
    [aprompt_suggestion-1 success internal]
      w1 user_message "suggest"
    "#);
}

#[test]
fn point_14_all_layouts_are_found() {
    let found = threadfold_convert::claude::layout::sessions(&[
        "p/s1.jsonl",
        "p/agent-beside.jsonl",
        "p/s1/subagents/agent-below.jsonl",
        "p/s1/subagents/agent-below.meta.json",
        "p/s1/subagents/workflows/w1/agent-deep.jsonl",
        "p/s1/tool-results/x.txt",
        "q\\s2.jsonl",
    ]);
    let told: Vec<_> = found
        .iter()
        .map(|it| {
            let agents: Vec<_> = it
                .subagents
                .iter()
                .map(|file| format!("{}{}", file.agent, if file.meta.is_some() { "+" } else { "" }))
                .collect();
            format!("{}: {}", it.session, agents.join(" "))
        })
        .collect();
    assert_eq!(told, ["s1: beside below+ deep", "s2: "]);
}

#[test]
fn point_15_a_call_without_a_result_does_not_run_for_ever() {
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "go"),
            answer("a1", "u1", "m1", json!([call("c1", "Bash")])),
            prompt("u2", Some("a1"), "well?"),
            answer("a2", "u2", "m2", json!([call("c2", "Bash")])),
        ]),
        @r#"
    u1 user_message "go"
    c1 tool_use interrupted "Bash"
    u2 user_message "well?"
    c2 tool_use interrupted "Bash"
    "#
    );
}

#[test]
fn point_16_a_message_repeated_under_new_names_has_its_calls_once() {
    let state = folded(&[
        prompt("u1", None, "go"),
        answer("a1", "u1", "m1", json!([call("c1", "Bash")])),
        result("r1", "a1", "c1", json!("ok")),
        answer("x1", "u1", "m1", json!([call("c1", "Bash")])),
        result("x2", "x1", "c1", json!("ok")),
    ]);
    assert_eq!(state.blocks().len(), 3, "{state:?}");
}

#[test]
fn point_17_a_pointer_to_an_external_output_is_preserved() {
    let pointer = "<persisted-output>\nOutput too large. Full output saved to: /tmp/x.txt\n";
    let state = folded(&[
        prompt("u1", None, "go"),
        answer("a1", "u1", "m1", json!([call("c1", "Bash")])),
        result("r1", "a1", "c1", json!(pointer)),
    ]);
    assert_eq!(serde_json::to_value(&state).unwrap()["blocks"][2]["output"], pointer);
}

#[test]
fn point_18_a_queued_prompt_is_shown_once() {
    let queued = |uuid: &str, text: &str| {
        line(
            "attachment",
            uuid,
            Some("a1"),
            json!({"attachment":
            {"type": "queued_command", "prompt": text, "commandMode": "prompt"}}),
        )
    };
    let operation = json!({"type": "queue-operation", "operation": "enqueue", "content": "as a line",
        "sessionId": SESSION});
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "go"),
            answer("a1", "u1", "m1", json!([text("working")])),
            operation,
            queued("q1", "as an attachment"),
            prompt("u2", Some("q1"), "as a line"),
        ]),
        @r#"
    u1 user_message "go"
    m1:0 assistant_text "working"
    q1 user_message "as an attachment"
    u2 user_message "as a line"
    "#
    );
}

#[test]
fn point_19_fields_come_in_several_types() {
    let with = |structured: Value, uuid: &str, call: &str| {
        let mut line = result(uuid, "a1", call, json!([text("ok")]));
        merge(&mut line, json!({"toolUseResult": structured}));
        line
    };
    let mut synthetic = answer("a2", "r3", "m2", json!("only text"));
    synthetic["message"]["model"] = json!("<synthetic>");
    let mut odd = prompt("u2", Some("a2"), "odd");
    merge(&mut odd, json!({"isMeta": null, "toolUseResult": 7, "summary": {"a": 1}}));
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "go"),
            answer("a1", "u1", "m1", json!([
                {"type": "tool_use", "id": "c1", "name": "A"}, call("c2", "B"), call("c3", "C"),
            ])),
            with(json!({"stdout": "x"}), "r1", "c1"),
            with(json!("Error: no"), "r2", "c2"),
            with(json!([1, 2]), "r3", "c3"),
            synthetic,
            odd,
        ]),
        @r#"
    u1 user_message "go"
    c1 tool_use "A"
    c2 tool_use "B"
    c3 tool_use "C"
    result:c1 tool_result "[{\"text\":\"ok\",\"type\":\"text\"}]"
    result:c2 tool_result "[{\"text\":\"ok\",\"type\":\"text\"}]"
    result:c3 tool_result "[{\"text\":\"ok\",\"type\":\"text\"}]"
    m2:0 assistant_text "only text"
    u2 user_message "odd"
    "#
    );
}

#[test]
fn point_20_escape_sequences_are_preserved_in_the_state() {
    let state = folded(&[prompt("u1", None, "\u{1b}]0;title\u{7}")]);
    assert_eq!(
        serde_json::to_value(&state).unwrap()["blocks"][0]["content"],
        "\u{1b}]0;title\u{7}"
    );
}

#[test]
fn point_21_a_stream_of_many_runs_and_one_that_is_a_list() {
    let run = |number: usize, ends: bool| {
        let id = format!("m{number}");
        let mut lines = vec![
            json!({"type": "system", "subtype": "init", "session_id": "s", "uuid": format!("i{number}")}),
            json!({"type": "assistant", "session_id": "s", "uuid": format!("a{number}"),
                "parent_tool_use_id": null,
                "message": {"id": id, "content": [text("said"), call(&format!("c{number}"), "Bash")]}}),
        ];
        if ends {
            lines.push(json!({"type": "result", "subtype": "success", "session_id": "s",
                "uuid": format!("r{number}")}));
        }
        lines
    };
    let lines: Vec<_> = (0..40).flat_map(|number| run(number, number % 3 != 0)).collect();
    let state = fold(&stream_events(&jsonl(&lines)));
    assert_eq!(state.blocks().len(), 80);
    assert!(state.blocks().iter().all(|block| !block.status.is_open()));

    let list = serde_json::to_vec_pretty(&lines).unwrap();
    let Some(Bundle::Lines(unpacked)) = claude::AGENT.unpack(&list) else {
        panic!("it is a list of records")
    };
    assert_eq!(fold(&stream_events(&unpacked)).hash(), state.hash());
}
