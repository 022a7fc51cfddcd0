//! `threadfold view URL` of a real server of an agent, of both its generations.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use threadfold_testkit::{
    AgentHome, OpenCode, ScriptedModel, opencode_newer_scripts, opencode_scripts,
};

use crate::env::TestEnv;
use crate::serve_agents::{agents, found};

const PROMPT: &str = "[[play:tools]] please run";
/// What the model says last.
const LAST: &str = "One file written and edited; three failures seen.";

/// Waits until the agent's own answer has a text.
fn wait_for(text: &str, mut ask: impl FnMut() -> Vec<u8>) {
    let start = Instant::now();
    loop {
        let answer = String::from_utf8_lossy(&ask()).into_owned();
        if answer.contains(text) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Views a server without a session id, with one, and as JSON.
fn check(address: &str, id: &str, more: &[&str]) {
    let env = TestEnv::new();
    let view = |arguments: &[&str]| {
        env.done(&[&["view", address, "--no-pager", "--width", "100"], more, arguments].concat())
    };
    let shown = view(&[]);
    for text in ["please run", "I write a file.", "Now I edit it.", LAST] {
        assert!(shown.contains(text), "`{text}` is missing: {shown}");
    }
    assert_eq!(view(&["--session", id]), shown, "it is the only session");
    let state: Value = serde_json::from_str(&view(&["--json"])).unwrap();
    let kinds: Vec<&str> = state["blocks"].as_array().unwrap().iter().map(kind).collect();
    assert_eq!(kinds.first(), Some(&"user_message"), "{kinds:?}");
    assert!(kinds.iter().filter(|it| **it == "tool_use").count() >= 4, "{kinds:?}");
    let none = env.run(&[&["view", address, "--session", "none"], more].concat());
    assert!(none.starts_with("exit 2") && none.contains("none"), "{none}");
}

fn kind(block: &Value) -> &str {
    block["type"].as_str().unwrap()
}

fn folder(home: &AgentHome) -> std::path::PathBuf {
    let folder = home.project().join("view");
    fs::create_dir(&folder).unwrap();
    folder
}

fn password(home: &Path) -> String {
    let file = home.join("password");
    fs::write(&file, threadfold_testkit::NewerServer::PASSWORD).unwrap();
    file.display().to_string()
}

#[test]
fn a_server_of_the_first_generation_is_viewed() {
    let Some(opencode) = found("real OpenCode", OpenCode::find(&agents()).unwrap()) else { return };
    let model = ScriptedModel::builder().require_tools().scripts(opencode_scripts());
    let (model, home) = (model.start().unwrap(), AgentHome::new().unwrap());
    let agent = opencode.serve(&home, &model.base_url()).unwrap();
    let folder = folder(&home);
    let id = agent.create_session(&folder).unwrap();
    agent.prompt(&folder, &id, PROMPT).unwrap();
    wait_for(LAST, || agent.messages(&folder, &id).unwrap());
    check(&format!("http://{}", agent.address()), &id, &[]);
}

#[test]
fn a_server_of_the_second_generation_is_viewed() {
    let version = OpenCode::NEWER_VERSION;
    let newer = OpenCode::find_version(&agents(), version).unwrap();
    let Some(opencode) = found("real OpenCode 2", newer) else { return };
    let model = ScriptedModel::builder().require_tools().scripts(opencode_newer_scripts());
    let (model, home) = (model.start().unwrap(), AgentHome::new().unwrap());
    let agent = opencode.serve_newer(&home, &model.base_url()).unwrap();
    let id = agent.create_session(&folder(&home)).unwrap();
    agent.prompt(&id, PROMPT).unwrap();
    wait_for(LAST, || agent.messages(&id).unwrap());
    let password = password(home.path());
    check(&format!("http://{}", agent.address()), &id, &["--password-file", &password]);
}
