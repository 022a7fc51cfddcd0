//! What older programs stored: all transcripts of a session in one text, and flat events.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use threadfold_convert::{Agent, Feed, FeedLine, claude, events, opencode};
use threadfold_core::{ConversationState, fold};
use threadfold_fold::{SessionFile, Shape, detect, parse_transcript};
use threadfold_testkit::story::show;

fn recorded(agent: &str, run: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(agent).join(run)
}

fn parse(agent: Agent, files: &[(String, String)]) -> ConversationState {
    let files: Vec<_> =
        files.iter().map(|(path, text)| SessionFile { path, bytes: text.as_bytes() }).collect();
    parse_transcript(agent, &files)
}

fn unknown_blocks(state: &ConversationState) -> usize {
    state.blocks().of_kind("unknown").count()
}

/// Returns the export of a session and those of its children, with their names.
fn exports(run: &str) -> Vec<(String, String)> {
    let folder = recorded("opencode", run);
    let mut names = vec!["export.json".to_owned()];
    let child = |number: usize| format!("export.child{number}.json");
    names.extend((1..).map(child).take_while(|name| folder.join(name).exists()));
    let read = |name: String| {
        (name.clone(), fs::read_to_string(folder.join(&name)).expect("the recording"))
    };
    names.into_iter().map(read).collect()
}

#[test]
fn the_combined_form_of_opencode_is_the_session() {
    for run in ["subagent", "nested", "text", "subagents_parallel@1.2.27"] {
        let files = exports(run);
        let expected = parse(opencode::AGENT, &files);
        let session =
            |text: &str| serde_json::from_str::<Value>(text).unwrap()["info"]["id"].clone();
        let pretty = |text: &str| {
            serde_json::to_string_pretty(&serde_json::from_str::<Value>(text).unwrap()).unwrap()
        };
        let bare = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let messages = |text: &str| json!(bare(text)["messages"].to_string());
        // Exports as texts over many lines, as JSON, and the messages alone.
        let spellings: [&dyn Fn(&str) -> Value; 3] =
            [&|text| json!(pretty(text)), &bare, &messages];
        for (number, spell) in spellings.iter().enumerate() {
            let subagents: Vec<_> = files[1..]
                .iter()
                .map(|(_, text)| json!({"id": session(text), "transcript": spell(text)}))
                .collect();
            let combined = json!({"main": spell(&files[0].1), "subagents": subagents}).to_string();
            let found = detect(combined.as_bytes()).expect("a known format");
            assert_eq!((found.agent, found.shape()), (Some(opencode::AGENT), Shape::Export));
            let state = parse_transcript(opencode::AGENT, &combined);
            assert_eq!(unknown_blocks(&state), 0, "{run}, spelling {number}");
            assert_eq!(state.blocks().len(), expected.blocks().len());
            assert_eq!(state.hash(), expected.hash(), "{run}, spelling {number}");
        }
    }
}

#[test]
fn one_text_of_claude_is_lines_or_the_combined_form() {
    let folder = recorded("claude", "subagents_parallel_task@2.1.30").join("transcript");
    let mut files = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((path.to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    let agent =
        |path: &str| Some(path.rsplit_once("/agent-")?.1.strip_suffix(".jsonl")?.to_owned());
    let (subagents, main): (Vec<_>, Vec<_>) =
        files.iter().cloned().partition(|(path, _)| agent(path).is_some());
    assert_eq!((main.len(), subagents.len()), (1, 2));
    let lines = parse_transcript(claude::AGENT, &main[0].1);
    assert_eq!(lines.hash(), parse(claude::AGENT, &main).hash());

    let listed: Vec<_> = subagents
        .iter()
        .map(|(path, text)| json!({"id": agent(path), "transcript": text}))
        .collect();
    let combined = json!({"main": main[0].1, "subagents": listed}).to_string();
    assert_eq!(detect(combined.as_bytes()).unwrap().agent, Some(claude::AGENT));
    let state = parse_transcript(claude::AGENT, &combined);
    assert_eq!(state.hash(), parse(claude::AGENT, &files).hash());
}

#[test]
fn flat_events_of_older_programs_are_detected_and_folded() {
    let lines = [
        r#"{"type":"subagent:spawned","sessionId":"s1","conversationId":"main","toolUseId":"c","agentId":"A"}"#,
        r#"{"type":"block:upsert","conversationId":"main","block":{"id":"m","type":"assistant_text","status":"pending","content":"waiting"}}"#,
        r#"{"type":"block:upsert","conversationId":"A","block":{"id":"b","type":"assistant_text","status":"pending","content":"working"}}"#,
        r#"{"type":"session:idle","conversationId":"A"}"#,
    ];
    for line in lines {
        let found = detect(line.as_bytes()).expect("an event");
        assert_eq!((found.agent, found.shape()), (None, Shape::Events), "{line}");
    }
    let mut converter = events::converter();
    let feed = Feed::of_events("events");
    let mut out = Vec::new();
    for (number, line) in (1..).zip(lines) {
        converter.push(&FeedLine { feed: &feed, number, bytes: line.as_bytes() }, &mut out);
    }
    assert_eq!(converter.session().map(|id| id.to_string()).as_deref(), Some("s1"));
    insta::assert_snapshot!(show(&fold(&out)), @r#"
    c subagent running " -> "
    m assistant_text pending "waiting"
    [A call c running]
      b assistant_text interrupted "working"
    "#);
}
