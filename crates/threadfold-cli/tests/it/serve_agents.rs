//! `threadfold serve` beside real agents: it follows what they write, and clients have their state.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use threadfold_testkit::{
    AgentHome, Availability, ClaudeCode, Input, NextLine, OpenCode, Place, RunOptions, Script,
    ScriptedModel, Step, report_skipped,
};

use crate::env::TestEnv;
use crate::live_clients::LiveClient;
use crate::serve::Serving;

pub(crate) fn found<T>(what: &str, found: Availability<T>) -> Option<T> {
    match found {
        Availability::Found(found) => Some(found),
        Availability::Unavailable(reason) => {
            let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
            report_skipped(target, what, &reason).unwrap();
            None
        }
    }
}

pub(crate) fn agents() -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("agents")
}

const LIMIT: Duration = Duration::from_secs(60);
/// Where the model stops until the last client has joined.
const GATE: &str = "last client";
const LAST_TEXT: &str = "The folder has two files, and this text has a long pause in it.";

/// Returns a model whose answer has a tool, and stops in the middle of the text after it.
fn held_model(shell: &str) -> ScriptedModel {
    let command = json!({"command": "echo one two", "description": "Lists the folder"});
    let middle = Place::Within { block: 0, deltas: 2 };
    let script = Script::new("held")
        .step(Step::new().text("I look at the folder.").tool_use(shell, command))
        .step(Step::new().text(LAST_TEXT).hold(middle, GATE));
    let short = Script::new("text").step(Step::new().text("A title."));
    ScriptedModel::builder().require_tools().script(script).script(short).start().unwrap()
}

/// `threadfold push`, and all lines that it was given.
struct Pushed {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Vec<String>,
}

impl Pushed {
    fn start(env: &TestEnv, server: &Serving, more: &[&str]) -> Self {
        let token = env.path("token").display().to_string();
        let mut command = env.command(&["push", "--url", &server.address, "--token-file", &token]);
        command.args(more).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        Self { process, stdin, lines: Vec::new() }
    }

    fn push(&mut self, line: &[u8]) {
        let line = format!("{}\n", String::from_utf8(line.to_vec()).unwrap());
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        self.lines.push(line);
    }

    /// Waits until the server has everything, and returns the lines.
    fn finish(mut self) -> Vec<String> {
        self.stdin = None;
        let ended = self.process.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        self.lines
    }
}

/// Waits until the server has read all that an agent wrote, and returns the last record.
fn last_record(server: &Serving, id: &str) -> u64 {
    let mut last = 0;
    loop {
        thread::sleep(Duration::from_millis(1_500));
        let seq = server.get(&format!("/v1/sessions/{id}"))["seq"].as_u64().unwrap();
        if std::mem::replace(&mut last, seq) == seq {
            return seq;
        }
    }
}

/// Compares the clients of a session with the server, and the stream with the transcript.
fn check(server: &Serving, id: &str, clients: [LiveClient; 2], pushed: &[String]) {
    let verdict = server.wait(&format!("/v1/sessions/{id}/verify"), |it| {
        matches!(it["verdict"].as_str(), Some("equal" | "partial"))
    });
    assert_eq!(verdict["differences"], json!([]), "{verdict}");
    let seq = last_record(server, id);
    let state = server.get(&format!("/v1/sessions/{id}/state?at={seq}"));
    assert!(state.to_string().contains(LAST_TEXT), "{state}");
    for (client, kind) in clients.into_iter().zip(["SSE", "WebSocket"]) {
        let mirror = client.finish(seq);
        assert_eq!(mirror.state_hash(), state["stateHash"], "{id} over {kind}");
        assert_eq!(mirror.gaps(), 0, "{id} over {kind}");
    }
    let log = server.text(&format!("/v1/sessions/{id}/log"));
    let records: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    // Nothing is lost, and nothing is there twice.
    for line in pushed {
        let wanted = pushed.iter().filter(|it| *it == line).count();
        let stored = records.iter().filter(|it| it["text"] == line.as_str()).count();
        assert_eq!(stored, wanted, "{line}");
    }
}

fn wait_for_text(server: &Serving, id: &str, text: &str) {
    server.wait(&format!("/v1/sessions/{id}/state"), |it| it.to_string().contains(text));
}

#[test]
fn two_real_agents_are_followed_by_two_clients_each_while_the_server_is_killed() {
    let claude = found("real Claude Code", ClaudeCode::find(&agents()).unwrap());
    let opencode = found("real OpenCode", OpenCode::find(&agents()).unwrap());
    let (Some(claude), Some(opencode)) = (claude, opencode) else { return };
    let (claude_model, opencode_model) = (held_model("Bash"), held_model("bash"));
    let (home, env) = (AgentHome::new().unwrap(), TestEnv::new());
    let agent_home = home.path().display().to_string();
    let mut server = Serving::start_with(&env, "127.0.0.1:0", &["--agent-home", &agent_home]);

    let agent = opencode.serve(&home, &opencode_model.base_url()).unwrap();
    let folder = home.project().join("live");
    fs::create_dir(&folder).unwrap();
    let other = agent.create_session(&folder).unwrap();
    let mut bus = agent.events(&folder).unwrap();
    agent.prompt(&folder, &other, "[[play:held]] please run").unwrap();
    let mut other_pushed = Pushed::start(&env, &server, &["--session", &other]);

    let one = "3d5f0c1e-0000-4000-8000-000000000015";
    let prompt = Input::Prompt("[[play:held]] please run".to_owned());
    let options = RunOptions::new(&home, claude_model.base_url(), prompt).session_id(one);
    let mut running = claude.start(&options).unwrap();
    let mut one_pushed = Pushed::start(&env, &server, &[]);

    // Until both models hold their answer back.
    let first = "I look at the folder.";
    let start = Instant::now();
    while one_pushed.lines.last().is_none_or(|it| !it.contains("text_delta"))
        || !one_pushed.lines.iter().any(|it| it.contains("tool_result"))
    {
        assert!(start.elapsed() < LIMIT, "{:?}", one_pushed.lines.last());
        if let NextLine::Line(line) = running.next_within(LIMIT) {
            one_pushed.push(&line);
        }
    }
    while let Some(line) = bus.next_within(Duration::from_secs(2)) {
        other_pushed.push(&line);
    }
    for id in [one, &other] {
        wait_for_text(&server, id, first);
    }
    let early = [one, &other].map(|id| LiveClient::over_events(&server, id));
    let address = server.kill();
    server = Serving::start_with(&env, &address, &["--agent-home", &agent_home]);
    let late = [one, &other].map(|id| {
        wait_for_text(&server, id, first);
        LiveClient::over_websocket(&server, id)
    });
    let of_server = |id: &str| server.get(&format!("/v1/sessions/{id}/state")).to_string();
    assert!(!of_server(one).contains(LAST_TEXT), "the clients have joined during the run");
    claude_model.release(GATE);
    opencode_model.release(GATE);

    loop {
        match running.next_within(LIMIT) {
            NextLine::Line(line) => one_pushed.push(&line),
            NextLine::Quiet => {}
            _ => break,
        }
    }
    running.finish().unwrap();
    while let Some(line) = bus.next_within(Duration::from_secs(3)) {
        other_pushed.push(&line);
    }
    let pushed = [one_pushed.finish(), other_pushed.finish()];
    let sessions = [one, &other].into_iter().zip(early.into_iter().zip(late)).zip(&pushed);
    for ((id, (early, late)), pushed) in sessions {
        check(&server, id, [early, late], pushed);
    }
    // Before the agents began, there was nothing, and the example was played.
    let listed = server.get("/v1/sessions");
    let ids = listed["sessions"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap());
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    assert_eq!(ids, [one, "example", &other], "{listed}");
}
