//! Codex's records, made up and recorded.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

use std::fs;
use std::path::{Path, PathBuf};

use threadfold_convert::codex::AGENT;
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, Feed, FeedKind, FeedLine, Shape};
use threadfold_core::{ConversationState, Payload, SessionEvent, fold};

/// Converts lines of one feed to its end.
fn events(kind: FeedKind, text: &str) -> Vec<SessionEvent> {
    let feed = Feed::new(AGENT, kind, "main");
    let (mut converter, mut out) = (AGENT.converter(), Vec::new());
    for line in lines(text.as_bytes()) {
        let line = FeedLine { feed: &feed, number: line.number, bytes: line.bytes };
        converter.push(&line, &mut out);
    }
    converter.finish(&feed, &mut out);
    out
}

/// Returns the main conversation, one line a block: type, id, and what it says.
fn shown(events: &[SessionEvent]) -> String {
    told(&fold(events))
}

fn told(state: &ConversationState) -> String {
    let mut lines = String::new();
    for block in state.blocks().iter() {
        let json: serde_json::Value = serde_json::to_value(&*block).unwrap();
        let words = ["content", "message", "output", "description", "subtype"]
            .iter()
            .find_map(|name| json.get(*name))
            .map_or(String::new(), |it| it.to_string());
        let marks: String = ["inactive", "interrupted"]
            .iter()
            .filter(|it| json.get(**it).is_some())
            .map(|it| format!(" {it}"))
            .collect();
        lines += &format!("{} {} {words}{marks}\n", block.body.kind(), block.id);
    }
    lines
}

/// Returns a line of a rollout.
fn record(kind: &str, payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-01-01T00:00:00.000Z","type":"{kind}","payload":{payload}}}"#)
        + "\n"
}

fn meta() -> String {
    record(
        "session_meta",
        r#"{"id":"01a1e44a-0000-7000-8000-000000000001","cwd":"/p","cli_version":"0.98.0"}"#,
    )
}

fn event(payload: &str) -> String {
    record("event_msg", payload)
}

fn response(payload: &str) -> String {
    record("response_item", payload)
}

#[test]
fn a_text_that_an_event_repeats_is_shown_once() {
    let text = meta()
        + &event(r#"{"type":"task_started","turn_id":"u-1"}"#)
        + &response(
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}"#,
        )
        + &event(r#"{"type":"user_message","message":"go"}"#)
        + &event(r#"{"type":"agent_message","message":"Done."}"#)
        + &response(
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}"#,
        )
        + &event(r#"{"type":"task_complete","turn_id":"u-1"}"#);
    let expected = "user_message u-1:user:1 \"go\"\nassistant_text u-1:text:1 \"Done.\"\n";
    assert_eq!(shown(&events(FeedKind::Main, &text)), expected);
    // The same without the events, and with the event behind its response item.
    let late = text.lines().map(|line| format!("{line}\n")).collect::<Vec<_>>();
    let order = [0, 1, 2, 3, 5, 4, 6].map(|at| late[at].clone()).concat();
    assert_eq!(shown(&events(FeedKind::Main, &order)), expected);
}

#[test]
fn the_summary_of_a_compaction_is_no_speech_and_what_precedes_it_leaves_the_path() {
    let text = meta()
        + &event(r#"{"type":"task_started","turn_id":"u-1"}"#)
        + &event(r#"{"type":"user_message","message":"go"}"#)
        + &response(
            r#"{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"A summary"}]}"#,
        )
        + &event(r#"{"type":"token_count","info":null}"#)
        + &record("compacted", r#"{"message":"Another model: A summary"}"#)
        + &event(r#"{"type":"context_compacted"}"#);
    let shown = shown(&events(FeedKind::Main, &text));
    assert_eq!(
        shown,
        "user_message u-1:user:1 \"go\" inactive\nsystem u-1:compaction:1 \"compaction\"\n"
    );
}

#[test]
fn a_rollback_takes_the_last_turns_off_the_path() {
    let turn = |number: usize| {
        event(&format!(r#"{{"type":"task_started","turn_id":"u-{number}"}}"#))
            + &event(&format!(r#"{{"type":"user_message","message":"{number}"}}"#))
            + &event(&format!(r#"{{"type":"task_complete","turn_id":"u-{number}"}}"#))
    };
    let text = meta()
        + &turn(1)
        + &turn(2)
        + &event(r#"{"type":"thread_rolled_back","num_turns":1}"#)
        + &turn(3);
    assert_eq!(
        shown(&events(FeedKind::Main, &text)),
        "user_message u-1:user:1 \"1\"\nuser_message u-2:user:1 \"2\" inactive\nuser_message u-3:user:1 \"3\"\n"
    );
}

#[test]
fn a_streamed_text_that_never_ends_is_removed() {
    let message = |method: &str, params: &str| {
        format!(r#"{{"method":"{method}","params":{{"threadId":"t-1","turnId":"u-1",{params}}}}}"#)
            + "\n"
    };
    let begin = message("turn/started", r#""turn":{"id":"u-1"}"#)
        + &message("item/agentMessage/delta", r#""itemId":"msg_1","delta":"Hel""#)
        + &message("item/agentMessage/delta", r#""itemId":"msg_1","delta":"lo""#);
    let streaming = fold(&converted(&begin));
    assert_eq!(told(&streaming), "assistant_text msg_1 \"Hello\"\n");
    let retry = message("error", r#""willRetry":true,"error":{"message":"cut"}"#);
    assert_eq!(told(&fold(&converted(&(begin.clone() + &retry)))), "system u-1:retry:1 \"cut\"\n");
    let item =
        message("item/completed", r#""item":{"type":"agentMessage","id":"msg_1","text":"Hello!"}"#);
    assert_eq!(told(&fold(&converted(&(begin + &item)))), "assistant_text msg_1 \"Hello!\"\n");
}

/// Converts lines of a stream that has not ended.
fn converted(text: &str) -> Vec<SessionEvent> {
    let feed = Feed::new(AGENT, FeedKind::Stream, "main");
    let (mut converter, mut out) = (AGENT.converter(), Vec::new());
    for line in lines(text.as_bytes()) {
        converter.push(&FeedLine { feed: &feed, number: line.number, bytes: line.bytes }, &mut out);
    }
    out
}

#[test]
fn a_key_that_occurs_twice_loses_no_record() {
    let text = concat!(
        r#"{"type":"thread.started","thread_id":"t-1"}"#,
        "\n",
        r#"{"type":"item.completed","item":{"id":"item_0","type":"web_search","id":"ws_1","query":"q","action":{"type":"search","query":"q"}}}"#,
        "\n"
    );
    let shown = shown(&events(FeedKind::Stream, text));
    assert!(
        shown.starts_with("tool_use exec:web_search:") && shown.lines().count() == 2,
        "{shown}"
    );
}

#[test]
fn what_is_not_understood_is_kept() {
    let odd = [
        record("future_record", "{\"a\":1}"),
        event(r#"{"type":"future_event"}"#),
        response(r#"{"type":"future_item","id":"x"}"#),
        response(r#"{"type":"function_call","name":"no id"}"#),
        event(r#"{"type":"item_completed","item":{"type":"FutureItem","id":"i"}}"#),
        record("session_meta", "7"),
        "{\"type\":\"event_msg\",".to_owned() + "\n",
        "not json\n".to_owned(),
    ];
    for line in &odd {
        let shown = shown(&events(FeedKind::Main, &(meta() + line)));
        assert!(shown.contains("unknown line:main:2:"), "{line}: {shown}");
    }
    for line in [
        "{\"type\":\"turn.paused\"}",
        "{\"method\":\"thread/vanished\",\"params\":{\"threadId\":\"t\"}}",
    ] {
        let shown = shown(&events(FeedKind::Stream, line));
        assert!(shown.contains("unknown line:main:1:"), "{line}: {shown}");
    }
}

fn recordings() -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![]);
    pending.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/codex"));
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { pending.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    assert!(found.len() > 100, "{}", found.len());
    found
}

fn kind_of(bytes: &[u8]) -> FeedKind {
    let mut first = lines(bytes).take(20);
    let format = first.find_map(|line| AGENT.recognize_record(line.bytes)).expect("it is Codex's");
    if format.shape == Shape::Stream { FeedKind::Stream } else { FeedKind::Main }
}

#[test]
fn every_recording_is_recognized_by_codex_alone_and_has_no_unknown_record() {
    for path in recordings() {
        let bytes = fs::read(&path).unwrap();
        for line in lines(&bytes).take(20) {
            let others = Agent::all().filter(|agent| *agent != AGENT && agent.is_known());
            for other in others {
                let found = other.recognize_record(line.bytes);
                assert!(found.is_none(), "{} is taken for {}'s", path.display(), other.name());
            }
        }
        let events = events(kind_of(&bytes), &String::from_utf8(bytes).unwrap());
        let unknown = events.iter().filter(|event| match &event.payload {
            Payload::BlockUpsert(upsert) => upsert.block.body.kind() == "unknown",
            _ => false,
        });
        assert_eq!(unknown.count(), 0, "{}", path.display());
    }
}

#[test]
fn a_converter_resumes_after_any_line() {
    for path in recordings().into_iter().step_by(5) {
        let bytes = fs::read(&path).unwrap();
        let feed = Feed::new(AGENT, kind_of(&bytes), "main");
        let (mut whole, mut resumed) = (AGENT.converter(), AGENT.converter());
        for line in lines(&bytes) {
            let line = FeedLine { feed: &feed, number: line.number, bytes: line.bytes };
            let (mut one, mut other) = (Vec::new(), Vec::new());
            whole.push(&line, &mut one);
            resumed = AGENT.resume_converter(&resumed.memory()).unwrap();
            resumed.push(&line, &mut other);
            assert_eq!(one, other, "{} line {}", path.display(), line.number);
        }
    }
}

#[test]
fn damaged_lines_are_kept_and_hide_nothing() {
    for path in recordings().into_iter().step_by(9) {
        let bytes = fs::read(&path).unwrap();
        let kind = kind_of(&bytes);
        let all: Vec<_> = lines(&bytes).map(|line| line.bytes.to_vec()).collect();
        for (at, line) in all.iter().enumerate().step_by(7) {
            for damaged in
                [line[..line.len() / 2].to_vec(), [&line[..1], &line[2..]].concat(), vec![0; 40]]
            {
                let feed = Feed::new(AGENT, kind.clone(), "main");
                let (mut converter, mut out) = (AGENT.converter(), Vec::new());
                let mut number = 0;
                for other in &all[..at] {
                    number += 1;
                    converter.push(&FeedLine { feed: &feed, number, bytes: other }, &mut out);
                }
                let before = out.len();
                converter
                    .push(&FeedLine { feed: &feed, number: number + 1, bytes: &damaged }, &mut out);
                let is_kept = |event: &SessionEvent| matches!(&event.payload, Payload::BlockUpsert(it) if it.block.body.kind() == "unknown");
                assert!(out[before..].iter().any(is_kept), "{} line {at}", path.display());
            }
        }
    }
}

#[test]
fn a_warning_about_a_thread_that_is_not_known_yet_makes_it_no_subagent() {
    let sent =
        |method: &str, params: &str| format!(r#"{{"method":"{method}","params":{params}}}"#) + "\n";
    let begin = sent("thread/started", r#"{"thread":{"id":"a"}}"#)
        + &sent("warning", r#"{"threadId":"a","message":"own"}"#)
        + &sent("warning", r#"{"threadId":"b","message":"early"}"#);
    let turn = sent("turn/started", r#"{"threadId":"b","turn":{"id":"1"}}"#);
    let warnings = |text: &str| -> Vec<(String, String)> {
        let state = fold(&events(FeedKind::Stream, text));
        let subagents = state.subagents();
        let all = subagents.iter().flat_map(|it| it.blocks().iter().collect::<Vec<_>>());
        let all = state.blocks().iter().chain(all).map(|block| {
            let json = serde_json::to_value(&*block).unwrap();
            let text = |name: &str| json[name].as_str().unwrap_or("main").to_owned();
            (text("conversationId"), text("message"))
        });
        all.collect()
    };
    let own = ("main".to_owned(), "own".to_owned());
    let early = ("b".to_owned(), "early".to_owned());
    // A fork that the server announces is a session of its own.
    let fork = sent("thread/started", r#"{"thread":{"id":"b"}}"#);
    assert_eq!(warnings(&(begin.clone() + &fork + &turn)), std::slice::from_ref(&own));
    // A subagent is not announced. What is never mentioned again is kept.
    assert_eq!(warnings(&(begin.clone() + &turn)), [own.clone(), early.clone()]);
    assert_eq!(warnings(&begin), [own, early]);
}
