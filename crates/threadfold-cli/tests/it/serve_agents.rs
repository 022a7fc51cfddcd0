//! `threadfold serve` beside real agents: it follows what they write, and clients have their state.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use threadfold_client::{FollowEvent, SessionMirror};
use threadfold_testkit::{
    AgentHome, Availability, ClaudeCode, Input, NextLine, OpenCode, RunOptions, ScriptedModel,
    SubagentTool, opencode_scripts, ready_scripts, report_skipped,
};
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;

use crate::env::TestEnv;
use crate::serve::Serving;

fn found<T>(what: &str, found: Availability<T>) -> Option<T> {
    match found {
        Availability::Found(found) => Some(found),
        Availability::Unavailable(reason) => {
            let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
            report_skipped(target, what, &reason).unwrap();
            None
        }
    }
}

fn agents() -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("agents")
}

/// Follows a session over SSE and, late, over a WebSocket, and compares both with the server.
fn check_clients(server: &Serving, id: &str) {
    let runtime = Runtime::new().unwrap();
    let client = server.client();
    let (seq, hash) = runtime.block_on(client.state_hash(id, None)).unwrap();
    let mut followed = client.follow(id);
    while followed.mirror().cursor().is_none_or(|it| it.seq < seq) {
        assert_eq!(runtime.block_on(followed.next()).unwrap(), FollowEvent::Changed);
    }
    assert_eq!(followed.mirror().state_hash(), hash);
    let mirror = runtime.block_on(async {
        let ticket = server.post("/v1/tickets")["ticket"].as_str().unwrap().to_owned();
        let url = format!("{}/v1/live?ticket={ticket}", server.address.replace("http", "ws"));
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let subscribe =
            json!({"type": "subscribe", "sessionId": id, "view": "events", "reducer": 1});
        socket.send(Message::text(subscribe.to_string())).await.unwrap();
        let mut mirror = SessionMirror::default();
        while mirror.cursor().is_none_or(|it| it.seq < seq) {
            if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
                mirror.apply(&serde_json::from_str(&text).unwrap()).unwrap();
            }
        }
        mirror
    });
    assert_eq!(mirror.state_hash(), hash);
}

#[test]
fn a_real_agent_is_followed_and_pushed_while_the_server_is_killed() {
    let Some(claude) = found("real Claude Code", ClaudeCode::find(&agents()).unwrap()) else {
        return;
    };
    let scripts = ready_scripts(SubagentTool::Agent);
    let model = ScriptedModel::builder().scripts(scripts).start().unwrap();
    let home = AgentHome::new().unwrap();
    let env = TestEnv::new();
    let agent_home = home.path().display().to_string();
    let mut server = Serving::start_with(&env, "127.0.0.1:0", &["--agent-home", &agent_home]);
    let (url, token) = (server.address.clone(), env.path("token").display().to_string());
    let mut command = env.command(&["push", "--url", &url, "--token-file", &token]);
    let mut push = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = push.stdin.take().unwrap();

    let id = "3d5f0c1e-0000-4000-8000-000000000015";
    let prompt = Input::Prompt("[[play:tools]] please run".to_owned());
    let options = RunOptions::new(&home, model.base_url(), prompt).session_id(id);
    let mut running = claude.start(&options).unwrap();
    let mut lines = 0;
    loop {
        match running.next_within(Duration::from_secs(60)) {
            NextLine::Line(line) => {
                stdin.write_all(&[line.as_slice(), b"\n"].concat()).unwrap();
                lines += 1;
                if lines == 5 {
                    let address = server.kill();
                    server = Serving::start_with(&env, &address, &["--agent-home", &agent_home]);
                }
            }
            NextLine::Quiet => {}
            NextLine::End | NextLine::TimedOut => break,
        }
    }
    drop(stdin);
    running.finish().unwrap();
    let pushed = push.wait_with_output().unwrap();
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    assert!(lines > 10, "{lines}");

    let verdict = server.wait(&format!("/v1/sessions/{id}/verify"), |it| {
        matches!(it["verdict"].as_str(), Some("equal" | "partial"))
    });
    assert_eq!(verdict["differences"], json!([]), "{verdict}");
    check_clients(&server, id);
    // Each line of the stream is there once, and each line of the file.
    let log = server.text(&format!("/v1/sessions/{id}/log"));
    let records: Vec<serde_json::Value> =
        log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let of_stream = records.iter().filter(|it| {
        it["kind"] == "line" && it["text"].as_str().is_some_and(|it| it.contains("\"session_id\""))
    });
    assert!(of_stream.count() <= lines, "a line was stored twice");
}

#[test]
fn a_real_server_of_an_agent_is_followed_live() {
    let Some(opencode) = found("real OpenCode", OpenCode::find(&agents()).unwrap()) else { return };
    let model = ScriptedModel::builder().require_tools().scripts(opencode_scripts());
    let model = model.start().unwrap();
    let home = AgentHome::new().unwrap();
    let env = TestEnv::new();
    let agent_home = home.path().display().to_string();
    let server = Serving::start_with(&env, "127.0.0.1:0", &["--agent-home", &agent_home]);
    let agent = opencode.serve(&home, &model.base_url()).unwrap();
    let folder = home.project().join("live");
    fs::create_dir(&folder).unwrap();
    let id = agent.create_session(&folder).unwrap();
    agent.prompt(&folder, &id, "[[play:text]] please run").unwrap();
    let messages = || -> serde_json::Value {
        serde_json::from_slice(&agent.messages(&folder, &id).unwrap()).unwrap()
    };
    let texts = |value: &serde_json::Value| value.to_string().matches("\"type\":\"text\"").count();
    let start = std::time::Instant::now();
    while texts(&messages()) < 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", messages());
        std::thread::sleep(Duration::from_millis(100));
    }
    server.wait(&format!("/v1/sessions/{id}/state"), |it| {
        it["state"]["blocks"].as_array().is_some_and(|it| it.len() >= 2)
    });
    // Until the server has read what the agent wrote last.
    let mut last = 0;
    loop {
        std::thread::sleep(Duration::from_millis(1500));
        let seq = server.get(&format!("/v1/sessions/{id}"))["seq"].as_u64().unwrap();
        if std::mem::replace(&mut last, seq) == seq {
            break;
        }
    }
    check_clients(&server, &id);
    let listed = server.get("/v1/sessions");
    assert_eq!(listed["sessions"][0]["id"], id.as_str(), "{listed}");
}
