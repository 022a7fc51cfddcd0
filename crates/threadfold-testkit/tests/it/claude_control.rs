//! A real Claude Code is driven, interrupted and resumed.

use std::time::Duration;

use serde_json::{Value, json};
use threadfold_testkit::{
    AgentHome, AgentProcess, ClaudeCode, Input, Place, RunOptions, Script, ScriptedModel, Step,
    TestkitError,
};

use crate::real::{SESSION, claude, json as parse, said};

/// A model whose answer stops in the middle of the text after the first block.
fn held_model() -> ScriptedModel {
    let middle = Place::Within { block: 1, deltas: 1 };
    let step = Step::new()
        .text("A finished block.")
        .text("This text is never finished.")
        .hold(middle, "never");
    ScriptedModel::builder()
        .script(Script::new("held").step(step))
        .script(Script::new("short").step(Step::new().text("Short.")))
        .start()
        .unwrap()
}

fn prompt(name: &str) -> Input {
    Input::Prompt(format!("[[play:{name}]]"))
}

fn user_line(name: &str) -> String {
    let content = format!("[[play:{name}]]");
    json!({ "type": "user", "message": { "role": "user", "content": content } }).to_string()
}

/// Reads until `wanted` returns true for a line.
fn read_until(running: &mut AgentProcess<'_>, wanted: impl Fn(&Value) -> bool) {
    assert!(running.any(|line| wanted(&parse(&line.unwrap()))));
}

/// Reads until the first delta of the second block, where the model stops.
fn read_to_the_hold(running: &mut AgentProcess<'_>) {
    read_until(running, |line| {
        line["event"]["type"] == "content_block_delta" && line["event"]["index"] == 1
    });
}

#[test]
fn a_killed_run_emits_nothing_more_and_can_be_resumed() {
    let Some(claude) = claude() else { return };
    let (model, home) = (held_model(), AgentHome::new().unwrap());
    let options = RunOptions::new(&home, model.base_url(), prompt("held")).session_id(SESSION);

    let mut running = claude.start(&options).unwrap();
    read_to_the_hold(&mut running);
    // It writes behind the stream: a kill before this would leave nothing to resume.
    home.wait_for_transcript("[[play:held]]", Duration::from_secs(20)).unwrap();
    running.kill().unwrap();
    let killed = running.finish().unwrap();

    let lines: Vec<_> = killed.lines.iter().map(|it| parse(it)).collect();
    assert_eq!(killed.status.code(), None);
    assert_ne!(lines.last().unwrap()["type"], "result");
    assert_eq!(said(lines.iter()), ["A finished block."]);

    let again = RunOptions::new(&home, model.base_url(), prompt("short"))
        .argument(format!("--resume={SESSION}"));
    let resumed = claude.run(&again).unwrap();

    assert!(resumed.status.success());
    assert_eq!(resumed.transcripts.len(), 1);
    let bytes = std::fs::read(&resumed.transcripts[0]).unwrap();
    let lines = bytes.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    let (whole, torn): (Vec<_>, Vec<_>) =
        lines.map(serde_json::from_slice::<serde_json::Value>).partition(Result::is_ok);
    // The kill may have come in the middle of a line, and of one only.
    assert!(torn.len() <= 1, "{torn:?}");
    let transcript: Vec<_> = whole.into_iter().map(Result::unwrap).collect();
    let written = said(transcript.iter());
    assert_eq!(written.last().unwrap(), "Short.");
    // A block is written when its message has ended, so the kill took what had been streamed.
    assert!(!written.iter().any(|it| it == "A finished block."));
}

#[test]
fn an_interrupted_run_preserves_its_output_and_exits() {
    let Some(claude) = claude() else { return };
    let (model, home) = (held_model(), AgentHome::new().unwrap());
    let options = RunOptions::new(&home, model.base_url(), prompt("held"));

    let mut running = claude.start(&options).unwrap();
    read_to_the_hold(&mut running);
    running.interrupt().unwrap();
    let finished = running.finish().unwrap();

    let lines: Vec<_> = finished.lines.iter().map(|it| parse(it)).collect();
    assert_eq!(lines.last().unwrap()["terminal_reason"], "aborted_streaming");
    assert_eq!(said(lines.iter()), ["A finished block.", "This text is"]);
}

#[test]
fn prompts_are_sent_one_after_the_other() {
    let Some(claude) = claude() else { return };
    let (model, home) = (held_model(), AgentHome::new().unwrap());
    model.release("never");
    let input = Input::Lines(vec![user_line("short")]);
    let options = RunOptions::new(&home, model.base_url(), input);

    let mut running = claude.start(&options).unwrap();
    read_until(&mut running, |line| line["type"] == "result");
    running.send_line(&user_line("held")).unwrap();
    let finished = running.finish().unwrap();

    let lines: Vec<_> = finished.lines.iter().map(|it| parse(it)).collect();
    assert_eq!(
        said(lines.iter()),
        ["Short.", "A finished block.", "This text is never finished.",]
    );
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let Some(claude) = claude() else { return };
    let (model, home) = (held_model(), AgentHome::new().unwrap());
    let limit = Duration::from_millis(200);
    let options = RunOptions::new(&home, model.base_url(), prompt("held")).time_limit(limit);

    let error = claude.run(&options).unwrap_err();
    assert!(matches!(error, TestkitError::TimedOut { .. }), "{error}");
}

#[test]
fn the_version_is_the_pinned_one() {
    let Some(claude) = claude() else { return };
    let home = AgentHome::new().unwrap();
    let model = held_model();
    let options = RunOptions::new(&home, model.base_url(), prompt("short"));

    let finished = claude.run(&options).unwrap();
    let init = parse(&finished.lines[0]);
    assert_eq!(init["claude_code_version"], ClaudeCode::VERSION);
}
