//! OpenCode: real sessions of five generations, and known problem cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use serde_json::{Value, json};
use threadfold_convert::opencode;
use threadfold_core::{ConversationState, SessionId};
use threadfold_fold::parity::{Verdict, compare, replay};
use threadfold_fold::{
    Fold, Oddity, Record, SessionFile, Slices, Step, file_records, fold_files, parse_transcript,
    stream_records,
};
use threadfold_testkit::raw_count::opencode::OpencodeCount;
use threadfold_testkit::story::{kinds, show};

/// The number of the source that a bus is.
const BUS: u32 = 1;

/// Path and content of each file.
type Files = Vec<(String, Vec<u8>)>;

/// A recorded run: its bus, and each form in which it is stored.
pub(crate) struct Run {
    name: String,
    folder: PathBuf,
    pub(crate) stream: Vec<u8>,
    kept: Vec<(&'static str, Files)>,
}

fn runs() -> Vec<Run> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/opencode");
    let mut folders: Vec<_> = fs::read_dir(root)
        .expect("the recordings are part of the tests")
        .map(|entry| entry.expect("a folder can be listed").path())
        .collect();
    folders.sort();
    assert!(folders.len() >= 79, "only {} recordings were found", folders.len());
    folders.iter().map(|folder| read(folder)).collect()
}

pub(crate) fn run(name: &str) -> Run {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/opencode").join(name))
}

fn read(folder: &Path) -> Run {
    let bytes = |name: &str| fs::read(folder.join(name)).ok();
    let mut stream = bytes("events.sse.jsonl").expect("every run has a stream");
    stream.extend(bytes("events_after_restart.sse.jsonl").unwrap_or_default());
    let mut kept = Vec::new();
    let exports: Vec<_> = ["", ".child1", ".child2", ".child3"]
        .iter()
        .filter_map(|child| {
            let name = format!("export{child}.json");
            Some((name.clone(), bytes(&name)?))
        })
        .collect();
    if !exports.is_empty() {
        kept.push(("exports", exports));
    }
    let name = folder.file_name().expect("it has a name").to_string_lossy().into_owned();
    // The newer protocol keeps its messages in the log alone.
    if let Some(rows) = bytes("db_rows.jsonl").filter(|_| !name.starts_with("v2_")) {
        kept.push(("rows", vec![("db_rows.jsonl".to_owned(), rows)]));
    }
    if let Some(log) = bytes("db_event.jsonl") {
        kept.push(("log", vec![("db_event.jsonl".to_owned(), log)]));
    }
    let mut files = Vec::new();
    walk(&folder.join("storage"), &mut files);
    if !files.is_empty() && name.contains("@1.") && !name.contains("@1.2") {
        kept.push(("storage", files));
    }
    Run { name, folder: folder.to_owned(), stream, kept }
}

fn walk(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("a recording can be listed").path()) {
        if path.is_dir() {
            walk(&path, files);
        } else {
            let bytes = fs::read(&path).expect("a recording can be read");
            files.push((path.to_string_lossy().into_owned(), bytes));
        }
    }
}

/// Returns the records of a bus.
fn records(bytes: &[u8]) -> Vec<Record> {
    stream_records(opencode::AGENT, BUS, bytes)
}

/// Returns the fold of a session; of the first that occurs if its id is empty.
fn fold_of(session: &str) -> Fold {
    Fold::new(SessionId::from(session), Slices::default())
}

fn push_all(fold: &mut Fold, records: Vec<Record>) -> Vec<Step> {
    let push = |record: Record| {
        let seq = fold.seq() + 1;
        fold.push(&record.at(seq))
    };
    records.into_iter().map(push).collect()
}

pub(crate) fn streamed(bytes: &[u8]) -> ConversationState {
    let mut fold = fold_of("");
    push_all(&mut fold, records(bytes));
    fold.conversation().clone()
}

pub(crate) fn oddities(bytes: &[u8]) -> Vec<Oddity> {
    let steps = push_all(&mut fold_of(""), records(bytes));
    steps.into_iter().flat_map(|step| step.oddities).collect()
}

fn session_files(files: &[(String, Vec<u8>)]) -> Vec<SessionFile<'_>> {
    files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect()
}

fn told(files: &[(String, Vec<u8>)]) -> ConversationState {
    parse_transcript(opencode::AGENT, &session_files(files))
}

#[test]
fn every_recorded_run_is_equal_in_every_stored_format() {
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs() {
        let stream = streamed(&run.stream);
        assert!(!stream.blocks().is_empty(), "{}", run.name);
        for (form, files) in &run.kept {
            let comparison = compare(opencode::AGENT, &stream, &told(files));
            assert_eq!(comparison.differences, [], "{} {form}", run.name);
            assert_eq!(comparison.verdict(), Verdict::Equal, "{} {form}", run.name);
            *compared.entry(form).or_default() += 1;
        }
    }
    assert_eq!(
        compared,
        BTreeMap::from([("exports", 73), ("log", 28), ("rows", 57), ("storage", 15)])
    );
}

#[test]
fn bus_and_store_in_any_interleaving_end_in_one_state() {
    for run in runs() {
        // The forms are equal to each other, so one of them is enough.
        for (form, files) in run.kept.iter().take(1) {
            let files = file_records(opencode::AGENT, BUS + 1, &session_files(files));
            let replayed = replay(&SessionId::from(""), &records(&run.stream), &files);
            assert!(replayed.holds(), "{} {form}: {replayed:?}", run.name);
        }
    }
}

#[test]
fn the_bus_of_no_recorded_run_is_odd_and_nothing_is_unknown() {
    for run in runs() {
        assert_eq!(oddities(&run.stream), [], "{}", run.name);
        assert_eq!(kinds(&streamed(&run.stream)).get("unknown"), None, "{}", run.name);
    }
}

#[test]
fn a_late_joiner_reaches_the_state_of_the_export() {
    for run in runs() {
        let Some((_, files)) = run.kept.iter().find(|(form, _)| *form == "exports") else {
            continue;
        };
        let all: Vec<&[u8]> = run.stream.split_inclusive(|byte| *byte == b'\n').collect();
        for from in (0..all.len()).step_by(all.len().div_ceil(40)) {
            let suffix = all[from..].concat();
            let mut fold = fold_of(&told_session(files));
            push_all(&mut fold, records(&suffix));
            fold_files(&mut fold, opencode::AGENT, &session_files(files), |_| {});
            let comparison = compare(opencode::AGENT, fold.conversation(), &told(files));
            assert_eq!(comparison.differences, [], "{} from line {from}", run.name);
        }
    }
}

fn told_session(files: &[(String, Vec<u8>)]) -> String {
    let export = export(&files[0].1);
    export["info"]["id"].as_str().expect("a session has a name").to_owned()
}

/// Returns an export, without the wrapper that the API of version 2 adds.
fn export(bytes: &[u8]) -> Value {
    let mut export: Value = serde_json::from_slice(bytes).expect("an export is JSON");
    match export.get_mut("data") {
        Some(inner) => inner.take(),
        None => export,
    }
}

/// Counts the blocks that a message of version 2 becomes.
fn count_newer(message: &Value, count: &mut BTreeMap<&str, usize>) {
    match message["type"].as_str() {
        Some("user") => *count.entry("user_message").or_default() += 1,
        // A command that a person typed is shown as a call.
        Some("shell") => *count.entry("calls").or_default() += 1,
        _ => {}
    }
    for item in message["content"].as_array().into_iter().flatten() {
        let kind = match item["type"].as_str() {
            Some("text") if item["text"] != "" => "assistant_text",
            Some("reasoning") if item["text"] != "" => "thinking",
            Some("tool") => "calls",
            _ => continue,
        };
        *count.entry(kind).or_default() += 1;
    }
}

#[test]
fn blocks_are_as_many_as_an_independent_count_finds() {
    for run in runs() {
        let Some((_, files)) = run.kept.iter().find(|(form, _)| *form == "exports") else {
            continue;
        };
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, bytes) in files {
            let export = export(bytes);
            for message in export["messages"].as_array().expect("an export has messages") {
                if message["parts"].is_null() {
                    count_newer(message, &mut count);
                    continue;
                }
                for part in message["parts"].as_array().expect("a message has parts") {
                    let ended = part["time"]["end"].is_number();
                    let kind = match (part["type"].as_str(), message["info"]["role"].as_str()) {
                        (Some("text"), Some("user")) if part["synthetic"] == true => continue,
                        (Some("text"), Some("user")) => "user_message",
                        (Some("text"), _) if ended => "assistant_text",
                        (Some("reasoning"), _) if ended => "thinking",
                        (Some("tool"), _) => "calls",
                        _ => continue,
                    };
                    *count.entry(kind).or_default() += 1;
                }
            }
        }
        let found = kinds(&streamed(&run.stream));
        let blocks = |kind: &str| found.get(kind).copied().unwrap_or(0);
        let raw = |kind: &str| count.get(kind).copied().unwrap_or(0);
        for kind in ["user_message", "assistant_text", "thinking"] {
            assert_eq!(blocks(kind), raw(kind), "{kind} of {}", run.name);
        }
        assert_eq!(blocks("tool_use") + blocks("subagent"), raw("calls"), "calls of {}", run.name);
    }
}

#[test]
fn every_call_of_every_format_occurs_once() {
    let mut calls = 0;
    for run in runs() {
        let stream = vec![("bus".to_owned(), run.stream.clone())];
        for (form, files) in run.kept.iter().chain([&("bus", stream)]) {
            let state = if *form == "bus" { streamed(&run.stream) } else { told(files) };
            let mut raw = OpencodeCount::default();
            files.iter().for_each(|(_, bytes)| raw.add(bytes));
            let raw: usize = raw.roots().iter().map(|root| raw.of_root(root).0.len()).sum();
            let found = kinds(&state);
            let blocks = |kind: &str| found.get(kind).copied().unwrap_or(0);
            assert_eq!(blocks("tool_use") + blocks("subagent"), raw, "{} {form}", run.name);
            calls += raw;
        }
    }
    assert!(calls > 250, "only {calls} calls were compared");
}

#[test]
fn repeated_events_of_the_global_bus_count_once() {
    for name in ["text", "tools", "subagent"] {
        let run = run(name);
        let global = fs::read(run.folder.join("global_events.sse.jsonl")).expect("it was recorded");
        let text = String::from_utf8(global.clone()).expect("a recording is text");
        assert!(text.contains("syncEvent"), "{name}");
        let (global, own) = (streamed(&global), streamed(&run.stream));
        assert_eq!(show(&global), show(&own), "{name}");
        assert_eq!(oddities(&run.stream), []);
    }
}

/// Returns a bus event as a line of server-sent events.
fn bus(kind: &str, properties: Value) -> String {
    format!("data: {}\n\n", json!({"type": kind, "properties": properties}))
}

fn message(id: &str, role: &str) -> String {
    bus(
        "message.updated",
        json!({"info": {"id": id, "sessionID": "s", "role": role,
        "time": {"created": 0}}}),
    )
}

pub(crate) fn text(id: &str, message: &str, words: &str, ended: bool) -> String {
    let time = if ended { json!({"start": 0, "end": 1}) } else { json!({"start": 0}) };
    bus(
        "message.part.updated",
        json!({"part": {"id": id, "messageID": message, "sessionID": "s",
        "type": "text", "text": words, "time": time}}),
    )
}

fn delta(id: &str, message: &str, words: &str) -> String {
    bus(
        "message.part.delta",
        json!({"sessionID": "s", "messageID": message, "partID": id,
        "field": "text", "delta": words}),
    )
}

fn idle(session: &str) -> String {
    bus("session.idle", json!({"sessionID": session}))
}

pub(crate) fn created(id: &str, parent: Option<&str>) -> String {
    bus("session.created", json!({"info": {"id": id, "parentID": parent}}))
}

pub(crate) fn shown(lines: &[String]) -> String {
    show(&streamed(lines.concat().as_bytes()))
}

#[test]
fn a_second_idle_changes_nothing() {
    let once =
        [created("s", None), message("m1", "assistant"), text("p1", "m1", "hi", true), idle("s")];
    let twice = [&once[..], &[idle("s")]].concat();
    assert_eq!(shown(&once), shown(&twice));
}

#[test]
fn an_update_after_idle_wins() {
    assert_snapshot!(
        shown(&[
            created("s", None),
            message("m1", "assistant"),
            text("p1", "m1", "", false),
            delta("p1", "m1", "par"),
            idle("s"),
            text("p1", "m1", "partial, and its end", true),
            idle("s"),
        ]),
        @r#"p1 assistant_text "partial, and its end""#
    );
}

#[test]
fn a_part_without_deltas_is_complete() {
    assert_snapshot!(
        shown(&[created("s", None), message("m1", "assistant"), text("p1", "m1", "all at once", true)]),
        @r#"p1 assistant_text "all at once""#
    );
}

#[test]
fn deltas_of_white_space_count() {
    assert_snapshot!(
        shown(&[
            created("s", None),
            message("m1", "assistant"),
            text("p1", "m1", "", false),
            delta("p1", "m1", "a"),
            delta("p1", "m1", " \n "),
            delta("p1", "m1", "b"),
            text("p1", "m1", "a \n b", true),
        ]),
        @r#"p1 assistant_text "a \n b""#
    );
}

#[test]
fn the_idle_of_another_session_does_not_cut_a_text() {
    assert_snapshot!(
        shown(&[
            created("s", None),
            created("child", Some("s")),
            message("m1", "assistant"),
            text("p1", "m1", "", false),
            delta("p1", "m1", "half"),
            idle("child"),
            idle("stranger"),
            delta("p1", "m1", " whole"),
            text("p1", "m1", "half whole", true),
        ]),
        @r#"p1 assistant_text "half whole""#
    );
}

#[test]
fn the_names_of_the_newer_protocol_repeat_per_message() {
    let next = |kind: &str, message: &str, more: Value| {
        let mut about = json!({"sessionID": "s", "assistantMessageID": message, "textID": "0"});
        if let (Value::Object(about), Value::Object(more)) = (&mut about, more) {
            about.extend(more);
        }
        bus(&format!("session.next.{kind}"), about)
    };
    assert_snapshot!(
        shown(&[
            next("text.started", "m1", json!({})),
            next("text.delta", "m1", json!({"delta": "fir"})),
            next("text.ended", "m1", json!({"text": "first"})),
            next("text.started", "m2", json!({})),
            next("text.delta", "m2", json!({"delta": "second"})),
            next("text.ended", "m2", json!({"text": "second"})),
        ]),
        @r#"
    m1:0 assistant_text "first"
    m2:0 assistant_text "second"
    "#
    );
}

#[test]
fn repeated_running_states_are_one_subagent() {
    let task = |status: &str, child: bool| {
        let metadata = if child { json!({"sessionId": "child"}) } else { json!({}) };
        bus(
            "message.part.updated",
            json!({"part": {"id": "p1", "messageID": "m1", "sessionID": "s",
            "type": "tool", "tool": "task", "callID": "c1", "state": {"status": status,
            "input": {"prompt": "look", "subagent_type": "general"}, "metadata": metadata,
            "output": "<task id=\"child\" state=\"completed\"><task_result>found</task_result></task>",
            "time": {"start": 1, "end": 5}}}}),
        )
    };
    assert_snapshot!(
        shown(&[
            created("s", None),
            created("child", Some("s")),
            bus("message.updated", json!({"info": {"id": "n1", "sessionID": "child", "role": "user"}})),
            bus("message.part.updated", json!({"part": {"id": "q1", "messageID": "n1",
                "sessionID": "child", "type": "text", "text": "look"}})),
            message("m1", "assistant"),
            task("pending", false),
            task("running", true),
            task("running", true),
            task("running", true),
            task("completed", true),
            task("completed", true),
        ]),
        @r#"
    p1 subagent success "look -> found"
    [child call c1 success] "look" -> "found"
      q1 user_message "look"
    "#
    );
}

#[test]
fn a_failed_attempt_is_removed_and_reported() {
    let step = |id: &str| {
        bus(
            "message.part.updated",
            json!({"part": {"id": id, "messageID": "m1", "sessionID": "s",
            "type": "step-start"}}),
        )
    };
    assert_snapshot!(
        shown(&[
            created("s", None),
            message("m1", "assistant"),
            step("p1"),
            text("p2", "m1", "", false),
            delta("p2", "m1", "lost words"),
            step("p3"),
            text("p4", "m1", "kept words", true),
        ]),
        @r#"
    p1 system ""
    p4 assistant_text "kept words"
    "#
    );
}

#[test]
fn a_revert_marks_what_came_after_and_can_be_undone() {
    let session =
        |revert: Value| bus("session.updated", json!({"info": {"id": "s", "revert": revert}}));
    let talk = [
        created("s", None),
        message("m1", "assistant"),
        text("p1", "m1", "one", true),
        message("m2", "assistant"),
        text("p2", "m2", "two", true),
        session(json!({"messageID": "m2"})),
    ];
    assert_snapshot!(shown(&talk), @r#"
    p1 assistant_text "one"
    p2 assistant_text inactive "two"
    "#);
    let undone = [&talk[..], &[session(Value::Null)]].concat();
    assert_snapshot!(shown(&undone), @r#"
    p1 assistant_text "one"
    p2 assistant_text "two"
    "#);
    let removed =
        [&talk[..], &[bus("message.removed", json!({"sessionID": "s", "messageID": "m2"}))]];
    assert_snapshot!(shown(&removed.concat()), @r#"p1 assistant_text "one""#);
}

#[test]
fn an_export_of_a_reverted_session_marks_where_it_was_reverted() {
    let part = |id: &str, message: &str| {
        json!({"id": id, "messageID": message, "sessionID": "s", "type": "text", "text": id,
        "time": {"start": 0, "end": 1}})
    };
    let message = |id: &str, part: Value| json!({"info": {"id": id, "sessionID": "s", "role": "assistant"}, "parts": [part]});
    let info = json!({"id": "s", "revert": {"messageID": "m2"}});
    let messages = [message("m1", part("p1", "m1")), message("m2", part("p2", "m2"))];
    let export = json!({"info": info, "messages": messages}).to_string();
    assert_snapshot!(show(&told(&[("export.json".to_owned(), export.into_bytes())])), @r#"
    p1 assistant_text "p1"
    p2 assistant_text inactive "p2"
    "#);
}

#[test]
fn a_requested_child_is_the_main_conversation_with_its_own_children() {
    let words = |session: &str| {
        [
            bus(
                "message.updated",
                json!({"info": {"id": session, "sessionID": session, "role": "user"}}),
            ),
            bus(
                "message.part.updated",
                json!({"part": {"id": format!("p-{session}"),
                "messageID": session, "sessionID": session, "type": "text", "text": session}}),
            ),
        ]
        .concat()
    };
    let stream = [
        created("s", None),
        created("child", Some("s")),
        created("grandchild", Some("child")),
        words("s"),
        words("child"),
        words("grandchild"),
    ]
    .concat();
    let mut fold = fold_of("child");
    push_all(&mut fold, records(stream.as_bytes()));
    let state = fold.conversation();
    assert_eq!(state.blocks().len(), 1);
    assert_eq!(state.subagents().len(), 1, "{}", show(state));
}

#[test]
fn deeply_nested_wrappers_become_unknown_blocks() {
    for wrapper in ["payload", "data"] {
        let deep = 20_000;
        let line = format!("{}{{}}{}", format!("{{\"{wrapper}\":").repeat(deep), "}".repeat(deep));
        assert_eq!(kinds(&streamed(line.as_bytes())).get("unknown"), Some(&1), "{wrapper}");
    }
}

#[test]
fn hostile_lines_become_blocks_and_are_reported() {
    let bytes = [
        created("s", None).into_bytes(),
        b"data: {\"type\":\"message.upd\n".to_vec(),
        b"\xff\xfe\n".to_vec(),
        b"data: {\"type\":\"brand.new\",\"properties\":{\"sessionID\":\"s\"}}\n".to_vec(),
        format!(
            "data: {{\"type\":\"x\",\"properties\":{}{}}}\n",
            "[".repeat(100_000),
            "]".repeat(100_000)
        )
        .into_bytes(),
        message("m1", "assistant").into_bytes(),
        text("p1", "m1", "good", true).into_bytes(),
    ]
    .concat();
    let state = streamed(&bytes);
    assert!(state.blocks().find(&"p1".into()).is_some());
    assert_eq!(kinds(&state).get("unknown"), Some(&4));
}
