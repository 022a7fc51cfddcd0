//! Parity on the real program: its stream is folded while it runs, its transcript after.

use std::fs;

use serde_json::json;
use threadfold_convert::claude;
use threadfold_convert::lines::lines;
use threadfold_core::{ConversationState, SessionId};
use threadfold_fold::parity::{Comparison, RunGap, SideState, Verdict, compare_sides, replay};
use threadfold_fold::{
    Fold, Record, RecordKind, SessionFile, Slices, SourceRole, SourceSpec, file_records,
    parse_transcript,
};
use threadfold_testkit::sessions_on_disk::read_sessions;
use threadfold_testkit::{
    AgentHome, ClaudeCode, Input, RunOptions, Script, ScriptedModel, Step, SubagentTool,
    ready_scripts,
};

use crate::real::{SESSION, claude};

/// A run of the real program, folded from both sides.
struct LiveRun {
    comparison: Comparison,
    /// How many times the state was seen to grow while the program ran.
    seen_growing: usize,
    stream: ConversationState,
    transcript: ConversationState,
}

/// What a run is given besides its script.
#[derive(Default)]
struct RunSetup {
    /// The agent's own settings.
    settings: Option<serde_json::Value>,
    /// Messages for standard input in place of a prompt.
    lines: Vec<String>,
    /// A file in the folder that the agent works in.
    file: Option<(&'static str, Vec<u8>)>,
}

/// Plays a script with the text of subagents forwarded.
fn fold_live(script: &str, setting: RunSetup) -> Option<LiveRun> {
    let claude = claude()?;
    let home = AgentHome::new().unwrap();
    Some(fold_in(&claude, &home, &scripts(), (script, setting), &["--session-id", SESSION]))
}

fn scripts() -> ScriptedModel {
    let try_it = json!({"command": "touch denied.txt"});
    ScriptedModel::builder()
        .scripts(ready_scripts(SubagentTool::Agent))
        .script(
            Script::new("denied")
                .step(Step::new().text("I try.").tool_use("Bash", try_it))
                .step(Step::new().text("It was not allowed.")),
        )
        .script(
            Script::new("picture")
                .step(Step::new().tool_use("Read", json!({"file_path": "dot.png"})))
                .step(Step::new().text("One dot.")),
        )
        .start()
        .unwrap()
}

/// Runs the program, folds its stream while it runs and its transcript after.
fn fold_in(
    claude: &ClaudeCode,
    home: &AgentHome,
    model: &ScriptedModel,
    (script, setting): (&str, RunSetup),
    arguments: &[&str],
) -> LiveRun {
    if let Some(settings) = setting.settings {
        let folder = home.path().join(".claude");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
    }
    if let Some((name, bytes)) = setting.file {
        fs::write(home.project().join(name), bytes).unwrap();
    }
    let input = match setting.lines.is_empty() {
        true => Input::Prompt(format!("[[play:{script}]] please run")),
        false => Input::Lines(setting.lines),
    };
    let mut options = RunOptions::new(home, model.base_url(), input).forward_subagent_text();
    for argument in arguments {
        options = options.argument(*argument);
    }

    let spec = SourceSpec::new(claude::AGENT, SourceRole::Stream, "stdout");
    let mut records = vec![Record::new(RecordKind::Source, STREAM, 0, spec.to_json())];
    let mut live = Fold::new(SessionId::from(SESSION), Slices::default());
    push(&mut live, &records[0], script);
    let (mut streamed, mut seen_growing) = (Vec::new(), 0);
    let mut running = claude.start(&options).unwrap();
    while let Some(line) = running.next() {
        let line = line.unwrap();
        if let Some(answer) = answer_to(&line) {
            running.send_line(&answer).unwrap();
        }
        if is_result(&line) {
            running.close_stdin();
        }
        let record = Record::new(RecordKind::Line, STREAM, 0, line.clone());
        let before = live.conversation().clone();
        push(&mut live, &record, script);
        seen_growing += usize::from(before != *live.conversation());
        records.push(record);
        streamed.push(line);
    }
    running.finish().unwrap();
    records.push(Record::new(RecordKind::End, STREAM, 0, ""));
    push(&mut live, &records[records.len() - 1], script);
    let state = live.conversation().clone();

    let session = events_session(&streamed);
    let files = read_sessions(&home.transcript_root())
        .unwrap()
        .into_iter()
        .find(|it| it.name.contains(&session))
        .unwrap()
        .files;
    let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    assert!(files.iter().any(|file| lines(file.bytes).next().is_some()), "{script}: no transcript");
    let told = parse_transcript(claude::AGENT, &files);
    let replayed = replay(
        &SessionId::from(session.as_str()),
        &records,
        &file_records(claude::AGENT, STREAM + 1, &files),
    );
    assert!(replayed.holds(), "{script}: {replayed:?}");
    let session = SessionId::from(session.as_str());
    let stored = file_records(claude::AGENT, STREAM + 1, &files);
    let sides = [&records, &stored].map(|it| SideState::fold(claude::AGENT, &session, it));
    let comparison = compare_sides(claude::AGENT, &sides[0], &sides[1]);
    LiveRun { comparison, seen_growing, stream: state, transcript: told }
}

/// The number of the source that the stream is.
const STREAM: u32 = 1;

/// Pushes a record that must be in order.
fn push(fold: &mut Fold, record: &Record, script: &str) {
    let seq = fold.seq() + 1;
    let step = fold.push(&record.clone().at(seq));
    assert_eq!(step.oddities, [], "{script}: {:?}", step.events);
}

/// Returns whether the turn ended and no more input follows.
fn is_result(line: &[u8]) -> bool {
    let line: serde_json::Value = serde_json::from_slice(line).unwrap();
    line["type"] == "result"
}

/// Returns what the host answers when the agent asks whether a tool may be used: yes.
fn answer_to(line: &[u8]) -> Option<String> {
    let asked: serde_json::Value = serde_json::from_slice(line).unwrap();
    (asked["request"]["subtype"] == "can_use_tool").then(|| {
        let allow = json!({"behavior": "allow", "updatedInput": asked["request"]["input"]});
        json!({"type": "control_response", "response": {"subtype": "success",
            "request_id": asked["request_id"], "response": allow}})
        .to_string()
    })
}

/// Returns the session id that a stream reports.
fn events_session(streamed: &[Vec<u8>]) -> String {
    let first: serde_json::Value = serde_json::from_slice(&streamed[0]).unwrap();
    first["session_id"].as_str().unwrap().to_owned()
}

fn assert_equal(script: &str) {
    let Some(LiveRun { comparison, seen_growing, .. }) = fold_live(script, RunSetup::default())
    else {
        return;
    };
    assert_eq!(comparison.differences, [], "{script}");
    assert_eq!(comparison.verdict(), Verdict::Equal, "{script}: {:?}", comparison.lacking);
    assert!(comparison.blocks > 0 && seen_growing > comparison.blocks, "{script}");
}

macro_rules! equal {
    ($($test:ident: $script:literal,)*) => {$(
        #[test]
        fn $test() {
            assert_equal($script);
        }
    )*};
}

equal! {
    text_is_equal: "text",
    thinking_is_equal: "thinking",
    tools_are_equal: "tools",
    parallel_tools_are_equal: "parallel",
    a_subagent_is_equal: "subagent",
    parallel_subagents_are_equal: "subagents_parallel",
    nested_subagents_are_equal: "nested",
    a_background_subagent_is_equal: "background",
    a_retry_is_equal: "error_retry",
    a_cut_stream_is_equal: "drop_midstream",
    a_stream_cut_after_a_tool_is_equal: "drop_after_tool",
    an_answer_that_was_too_long_is_equal: "maxtokens",
}

#[test]
fn a_refused_request_is_an_error_block_on_both_sides() {
    let Some(LiveRun { comparison, .. }) = fold_live("error400", RunSetup::default()) else {
        return;
    };
    assert_eq!(comparison.differences, []);
    assert!(comparison.blocks > 0);
}

#[test]
fn hooks_have_other_names_in_stream_and_file() {
    let hook = json!({"matcher": "", "hooks": [{"type": "command", "command": "echo hooked"}]});
    let settings = json!({"hooks": {"PreToolUse": [hook.clone()], "SessionStart": [hook]}});
    let setting = RunSetup { settings: Some(settings), ..RunSetup::default() };
    let Some(LiveRun { comparison, .. }) = fold_live("tools", setting) else { return };
    assert_eq!(comparison.differences, []);
    let explained: Vec<_> = comparison.explained.keys().copied().collect();
    assert!(explained.contains(&"hooks-in-stream"), "{explained:?}");
    assert!(explained.contains(&"hooks-in-file"), "{explained:?}");
}

#[test]
fn a_denial_is_in_the_stream_and_in_the_calls_result() {
    let settings = json!({"permissions": {"deny": ["Bash(touch denied.txt)"]}});
    let setting = RunSetup { settings: Some(settings), ..RunSetup::default() };
    let Some(LiveRun { comparison, .. }) = fold_live("denied", setting) else { return };
    assert_eq!(comparison.differences, []);
    assert!(comparison.explained.contains_key("denials-in-stream"), "{:?}", comparison.explained);
}

#[test]
fn a_pending_question_is_in_the_stream_and_not_in_the_transcript() {
    let Some(claude) = claude() else { return };
    let home = AgentHome::new().unwrap();
    let line = json!({"type": "user",
        "message": {"role": "user", "content": "[[play:denied]] please run"}});
    let setting = RunSetup {
        settings: Some(json!({"permissions": {"ask": ["Bash(touch denied.txt)"]}})),
        lines: vec![line.to_string()],
        ..RunSetup::default()
    };
    let arguments = ["--session-id", SESSION, "--permission-prompt-tool", "stdio"];
    let folded = fold_in(&claude, &home, &scripts(), ("denied", setting), &arguments);
    assert_eq!(folded.comparison.differences, []);
    let state = serde_json::to_value(&folded.stream).unwrap();
    let asked = state["blocks"].as_array().unwrap().iter().find(|it| it["type"] == "permission");
    let asked = asked.expect("the agent asked");
    assert_eq!((&asked["status"], &asked["answer"]), (&json!("complete"), &json!("allow")));
    assert!(folded.comparison.explained.contains_key("questions-in-stream"));
    assert!(home.project().join("denied.txt").exists(), "it was allowed, and so it ran");
}

/// A picture of one dot.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

#[test]
fn a_picture_that_a_person_sends_is_equal() {
    let picture = json!({"type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": DOT}});
    let words = json!({"type": "text", "text": "[[play:text]] what is this?"});
    let line = json!({"type": "user", "message": {"role": "user", "content": [words, picture]}});
    let setting = RunSetup { lines: vec![line.to_string()], ..RunSetup::default() };
    let Some(folded) = fold_live("picture", setting) else { return };
    assert_eq!(folded.comparison.differences, []);
    let state = serde_json::to_value(&folded.transcript).unwrap();
    assert_eq!(state["blocks"][0]["content"][1]["type"], "image");
    assert_eq!(state["blocks"][0]["content"][1]["mediaType"], "image/png");
    assert!(state["blocks"][0]["content"][1]["data"].as_str().unwrap().len() > 20);
}

#[test]
fn an_image_returned_by_a_tool_is_equal() {
    let dot = base64(DOT);
    let setting = RunSetup { file: Some(("dot.png", dot)), ..RunSetup::default() };
    let Some(folded) = fold_live("picture", setting) else { return };
    assert_eq!(folded.comparison.differences, []);
    for state in [&folded.stream, &folded.transcript] {
        let json = serde_json::to_string(state).unwrap();
        assert!(json.contains("\"type\":\"image\""), "{json}");
    }
}

fn base64(text: &str) -> Vec<u8> {
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.chars().filter(|it| *it != '=') {
        bits = (bits << 6) | letters.find(letter).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

#[test]
fn a_resumed_and_a_forked_session_lack_only_the_earlier_turns() {
    let Some(claude) = claude() else { return };
    let home = AgentHome::new().unwrap();
    // One model for all runs: a message id never occurs twice in a session.
    let model = scripts();
    let setting = RunSetup::default();
    let first = fold_in(&claude, &home, &model, ("tools", setting), &["--session-id", SESSION]);
    assert_eq!(first.comparison.verdict(), Verdict::Equal);
    for arguments in [&["--resume", SESSION][..], &["--resume", SESSION, "--fork-session"]] {
        let next = fold_in(&claude, &home, &model, ("text", RunSetup::default()), arguments);
        assert_eq!(next.comparison.differences, [], "{arguments:?}");
        assert_eq!(next.comparison.verdict(), Verdict::Partial, "{arguments:?}");
        let lacking: Vec<_> = next.comparison.lacking.keys().copied().collect();
        assert_eq!(lacking, [RunGap::EarlierTurns], "{arguments:?}");
        assert!(next.transcript.blocks().len() > first.transcript.blocks().len());
    }
}
