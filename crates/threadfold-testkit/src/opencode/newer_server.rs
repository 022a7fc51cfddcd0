//! A running server of OpenCode 2, and its API.

use std::{
    fs::{self, File},
    io::{self, Read},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::{
    events::Events,
    http::{self, Request},
    server::{command, configuration, free_address},
};
use crate::{AgentHome, TestkitError};

const LIMIT: Duration = Duration::from_secs(30);
const START_LIMIT: Duration = Duration::from_secs(60);
const FIRST_ANSWER: Duration = Duration::from_secs(3);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A running server of version 2; dropping it stops the server.
pub struct NewerServer<'a> {
    home: &'a AgentHome,
    child: Child,
    address: SocketAddr,
}

pub(super) fn start<'a>(
    binary: &Path,
    home: &'a AgentHome,
    model_url: &str,
) -> Result<NewerServer<'a>, TestkitError> {
    let config = configuration(home);
    fs::write(&config, settings(model_url).to_string())
        .map_err(TestkitError::io(format!("write `{}`", config.display())))?;
    let address = free_address().map_err(TestkitError::io("find a free port"))?;
    let log = home.path().join("serve.log");
    let output =
        File::create(&log).map_err(TestkitError::io(format!("create `{}`", log.display())))?;
    let errors = output.try_clone().map_err(TestkitError::io("share a log"))?;
    let child = command(binary, home)
        .args(["serve", "--hostname", "127.0.0.1", "--port", &address.port().to_string()])
        .env("OPENCODE_PASSWORD", NewerServer::PASSWORD)
        .current_dir(home.project())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(TestkitError::io(format!("start `{}`", binary.display())))?;
    let server = NewerServer { home, child, address };
    server.wait_until_it_answers()?;
    Ok(server)
}

impl NewerServer<'_> {
    /// The password that it wants.
    pub const PASSWORD: &'static str = "a-fake-password";
    /// The header of that password: `opencode:a-fake-password`.
    const AUTHORIZATION: &'static str = "Basic b3BlbmNvZGU6YS1mYWtlLXBhc3N3b3Jk";

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a session in a folder, and returns its id.
    pub fn create_session(&self, folder: &Path) -> Result<String, TestkitError> {
        let body = json!({"location": {"directory": folder}});
        let answer = self.json("POST", "/api/session", &body)?;
        Ok(answer["data"]["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends a prompt to a session, and does not wait for the answer.
    pub fn prompt(&self, session: &str, text: &str) -> Result<(), TestkitError> {
        let path = format!("/api/session/{session}/prompt");
        self.ask("POST", &path, &json!({"text": text})).map(drop)
    }

    /// Interrupts a session.
    pub fn interrupt(&self, session: &str) -> Result<(), TestkitError> {
        self.ask("POST", &format!("/api/session/{session}/interrupt"), &json!({})).map(drop)
    }

    /// Returns the export of a session as the server returns it, byte for byte.
    pub fn export(&self, session: &str) -> Result<Vec<u8>, TestkitError> {
        let path = format!("/api/experimental/session/{session}/export");
        self.ask("GET", &path, &Value::Null)
    }

    /// Returns a session as the server returns it, byte for byte.
    pub fn session(&self, session: &str) -> Result<Vec<u8>, TestkitError> {
        self.ask("GET", &format!("/api/session/{session}"), &Value::Null)
    }

    /// Returns the newest messages of a session as the server returns them, byte for byte.
    pub fn messages(&self, session: &str) -> Result<Vec<u8>, TestkitError> {
        let path = format!("/api/session/{session}/message?limit=200");
        self.ask("GET", &path, &Value::Null)
    }

    /// Returns the ids of a session's descendants.
    pub fn descendants(&self, session: &str) -> Result<Vec<String>, TestkitError> {
        let mut found = vec![session.to_owned()];
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            let path = format!("/api/session?parentID={parent}&limit=100");
            let children = self.json("GET", &path, &Value::Null)?;
            let ids = children["data"].as_array().into_iter().flatten();
            found.extend(ids.filter_map(|it| Some(it["id"].as_str()?.to_owned())));
            next += 1;
        }
        found.remove(0);
        Ok(found)
    }

    /// Reads the events of all sessions, from now on.
    pub fn events(&self) -> Result<Events, TestkitError> {
        let authorization = Some(Self::AUTHORIZATION);
        let request = Request { method: "GET", path: "/api/event", body: "", authorization };
        http::send(self.address, &request, LIMIT)
            .and_then(|answer| Events::listen(answer.body, LIMIT))
            .map_err(TestkitError::io("listen to OpenCode's events"))
    }

    /// Returns the path of the database, which the server writes while it runs.
    pub fn database(&self) -> PathBuf {
        self.home.path().join(".local/share/opencode/opencode.db")
    }

    fn wait_until_it_answers(&self) -> Result<(), TestkitError> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            let authorization = Some(Self::AUTHORIZATION);
            let request = Request { method: "GET", path: "/api/info", body: "", authorization };
            match http::send(self.address, &request, FIRST_ANSWER) {
                Ok(answer) if answer.status == 200 => return Ok(()),
                _ => thread::sleep(BETWEEN_LOOKS),
            }
        }
        let what = "an answer of OpenCode 2".to_owned();
        Err(TestkitError::TimedOut { what, limit: START_LIMIT })
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> Result<Value, TestkitError> {
        let bytes = self.ask(method, path, body)?;
        serde_json::from_slice(&bytes)
            .map_err(io::Error::from)
            .map_err(TestkitError::io(format!("read the answer to `{method} {path}`")))
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Vec<u8>, TestkitError> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let authorization = Some(Self::AUTHORIZATION);
        let request = Request { method, path, body: &body, authorization };
        let answered = || {
            let mut answer = http::send(self.address, &request, LIMIT)?;
            let mut bytes = Vec::new();
            answer.body.read_to_end(&mut bytes)?;
            match answer.status {
                200..=299 => Ok(bytes),
                status => {
                    let said = String::from_utf8_lossy(&bytes);
                    Err(io::Error::other(format!("status {status}: {said}")))
                }
            }
        };
        answered().map_err(TestkitError::io(format!("ask OpenCode `{method} {path}`")))
    }
}

impl Drop for NewerServer<'_> {
    fn drop(&mut self) {
        // The process is not reaped yet, so the id of its group is still valid.
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
        self.child.wait().ok();
    }
}

/// Configures a single model, disables sharing and updates, and allows nested subagents.
fn settings(model_url: &str) -> Value {
    json!({
        "share": "disabled",
        "update": "disable",
        "lsp": false,
        "formatter": false,
        "providers": { "scripted": {
            "name": "Scripted",
            "package": "@ai-sdk/openai-compatible",
            "settings": { "baseURL": format!("{model_url}/v1"), "apiKey": "a-fake-key" },
            "models": { "model": {
                "name": "Model",
                "limit": { "context": 200_000, "output": 8_000 },
            } },
        } },
        "model": "scripted/model",
        "experimental": { "subagent_depth": 3 },
    })
}
