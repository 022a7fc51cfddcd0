//! A running OpenCode server, and its API.

use std::{
    fs::{self, File},
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::{
    events::Events,
    http::{self, Request},
};
use crate::{AgentHome, TestkitError};

/// The timeout of a response.
const LIMIT: Duration = Duration::from_secs(30);
/// The timeout of a start: the first one of an installation unpacks a lot.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The time after which the first request is retried, because it can hang.
const FIRST_ANSWER: Duration = Duration::from_secs(3);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A running server; dropping it stops the server.
///
/// `folder` is the session's working directory; the server has one bus per folder.
pub struct Server<'a> {
    binary: PathBuf,
    home: &'a AgentHome,
    child: Child,
    address: SocketAddr,
}

pub(super) fn start<'a>(
    binary: &Path,
    home: &'a AgentHome,
    model_url: &str,
) -> Result<Server<'a>, TestkitError> {
    let config = configuration(home);
    fs::write(&config, settings(model_url).to_string())
        .map_err(TestkitError::io(format!("write `{}`", config.display())))?;
    let address = free_address().map_err(TestkitError::io("find a free port"))?;
    let log = home.path().join("serve.log");
    let output =
        File::create(&log).map_err(TestkitError::io(format!("create `{}`", log.display())))?;
    let errors = output.try_clone().map_err(TestkitError::io("share a log"))?;
    // Its own process group, so that its child processes end with it.
    let child = command(binary, home)
        .args(["serve", "--hostname", "127.0.0.1", "--port", &address.port().to_string()])
        .current_dir(home.project())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(TestkitError::io(format!("start `{}`", binary.display())))?;
    let server = Server { binary: binary.to_owned(), home, child, address };
    server.wait_until_it_answers()?;
    Ok(server)
}

impl Server<'_> {
    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a session, and returns its id.
    pub fn create_session(&self, folder: &Path) -> Result<String, TestkitError> {
        let session = self.json("POST", "/session", folder, &json!({}))?;
        Ok(session["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends a prompt to a session, and does not wait for the answer.
    pub fn prompt(&self, folder: &Path, session: &str, text: &str) -> Result<(), TestkitError> {
        let body = json!({ "parts": [{ "type": "text", "text": text }] });
        let path = format!("/session/{session}/prompt_async");
        self.ask("POST", &path, folder, &body).map(drop)
    }

    /// Aborts a session.
    pub fn abort(&self, folder: &Path, session: &str) -> Result<(), TestkitError> {
        self.ask("POST", &format!("/session/{session}/abort"), folder, &json!({})).map(drop)
    }

    /// Returns a session as the server returns it, byte for byte.
    pub fn session(&self, folder: &Path, session: &str) -> Result<Vec<u8>, TestkitError> {
        self.ask("GET", &format!("/session/{session}"), folder, &Value::Null)
    }

    /// Returns the messages of a session as the server returns them, byte for byte.
    pub fn messages(&self, folder: &Path, session: &str) -> Result<Vec<u8>, TestkitError> {
        self.ask("GET", &format!("/session/{session}/message"), folder, &Value::Null)
    }

    /// Returns the ids of a session's descendants.
    pub fn descendants(&self, folder: &Path, session: &str) -> Result<Vec<String>, TestkitError> {
        let mut found = vec![session.to_owned()];
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            let path = format!("/session/{parent}/children");
            let children = self.json("GET", &path, folder, &Value::Null)?;
            let ids = children.as_array().into_iter().flatten();
            found.extend(ids.filter_map(|it| Some(it["id"].as_str()?.to_owned())));
            next += 1;
        }
        found.remove(0);
        Ok(found)
    }

    /// Reads the bus of a folder, from now on.
    pub fn events(&self, folder: &Path) -> Result<Events, TestkitError> {
        let path = format!("/event?directory={}", folder.display());
        let request = Request { method: "GET", path: &path, body: "", authorization: None };
        http::send(self.address, &request, LIMIT)
            .and_then(|answer| Events::listen(answer.body, LIMIT))
            .map_err(TestkitError::io("listen to OpenCode's bus"))
    }

    /// Returns the output of `opencode export` for a session.
    pub fn export(&self, folder: &Path, session: &str) -> Result<Vec<u8>, TestkitError> {
        let doing = || format!("export the session `{session}`");
        let output = command(&self.binary, self.home)
            .args(["export", session])
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .map_err(TestkitError::io(doing()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(TestkitError::io(doing())(io::Error::other(said)))
    }

    /// Returns the path of the database, which the server writes while it runs.
    pub fn database(&self) -> PathBuf {
        self.home.path().join(".local/share/opencode/opencode.db")
    }

    fn wait_until_it_answers(&self) -> Result<(), TestkitError> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            let request =
                Request { method: "GET", path: "/session", body: "", authorization: None };
            match http::send(self.address, &request, FIRST_ANSWER) {
                Ok(answer) if answer.status == 200 => return Ok(()),
                _ => thread::sleep(BETWEEN_LOOKS),
            }
        }
        let what = "an answer of OpenCode".to_owned();
        Err(TestkitError::TimedOut { what, limit: START_LIMIT })
    }

    fn json(
        &self,
        method: &str,
        path: &str,
        folder: &Path,
        body: &Value,
    ) -> Result<Value, TestkitError> {
        let bytes = self.ask(method, path, folder, body)?;
        serde_json::from_slice(&bytes)
            .map_err(io::Error::from)
            .map_err(TestkitError::io(format!("read the answer to `{method} {path}`")))
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        folder: &Path,
        body: &Value,
    ) -> Result<Vec<u8>, TestkitError> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let whole = format!("{path}?directory={}", folder.display());
        let request = Request { method, path: &whole, body: &body, authorization: None };
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

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // The process is not reaped yet, so the id of its group is still valid.
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
        self.child.wait().ok();
    }
}

pub(super) fn configuration(home: &AgentHome) -> PathBuf {
    home.path().join("opencode.json")
}

pub(super) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Configures a single model, disables sharing and downloads, and allows nested subagents.
fn settings(model_url: &str) -> Value {
    json!({
        "share": "disabled",
        "autoupdate": false,
        "lsp": false,
        "formatter": false,
        "enabled_providers": ["scripted"],
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": { "baseURL": format!("{model_url}/v1"), "apiKey": "a-fake-key" },
            "models": { "model": {
                "name": "Model",
                "tool_call": true,
                "reasoning": true,
                "limit": { "context": 200_000, "output": 8_000 },
            } },
        } },
        "model": "scripted/model",
        "small_model": "scripted/model",
        "subagent_depth": 3,
        "permission": { "task": "allow" },
        "agent": { "general": { "permission": { "task": "allow" } } },
    })
}

/// Returns a command without background traffic, and without the machine's environment.
pub(super) fn command(binary: &Path, home: &AgentHome) -> Command {
    let mut command = Command::new(binary);
    let under = |folder: &str| home.path().join(folder);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home.path())
        .env("XDG_DATA_HOME", under(".local/share"))
        .env("XDG_STATE_HOME", under(".local/state"))
        .env("XDG_CONFIG_HOME", under(".config"))
        .env("XDG_CACHE_HOME", under(".cache"))
        .env("TMPDIR", home.temporary())
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .env("SHELL", "/bin/bash")
        .env("OPENCODE_CONFIG", configuration(home));
    for switch in [
        "MODELS_FETCH",
        "AUTOUPDATE",
        "LSP_DOWNLOAD",
        "DEFAULT_PLUGINS",
        "SHARE",
        "EXTERNAL_SKILLS",
        "CLAUDE_CODE",
    ] {
        command.env(format!("OPENCODE_DISABLE_{switch}"), "1");
    }
    command
}
