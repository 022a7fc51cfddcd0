//! A client of `codex app-server`, and the log of what both sides sent.

use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{AgentProcess, NextLine, ProcessOutput, TestkitError};

/// How long an answer or a notification is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a file is looked for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A running app-server with one client.
///
/// The log has a line for each message, `{"dir": "client" | "server", "msg"}`, in the order in
/// which the client sent and received them.
pub struct AppServer<'a> {
    process: AgentProcess<'a>,
    log: Vec<Vec<u8>>,
    requests: u64,
    /// The threads whose turn has not ended; those of subagents among them.
    busy: BTreeSet<String>,
    answer: fn(&Value) -> Value,
}

/// Performs the handshake.
pub(super) fn introduce(process: AgentProcess<'_>) -> Result<AppServer<'_>, TestkitError> {
    let mut server =
        AppServer { process, log: Vec::new(), requests: 0, busy: BTreeSet::new(), answer: accept };
    let client = json!({"name": "threadfold", "title": "Threadfold", "version": "0"});
    // Without it, versions hide some of their methods.
    let capabilities = json!({"experimentalApi": true});
    server.request("initialize", &json!({"clientInfo": client, "capabilities": capabilities}))?;
    server.send(&json!({"method": "initialized"}))?;
    Ok(server)
}

/// Accepts whatever the agent asks for.
fn accept(_request: &Value) -> Value {
    json!({"decision": "accept"})
}

impl AppServer<'_> {
    /// Sets how the agent's requests are answered; by default everything is accepted.
    pub fn answer_with(&mut self, answer: fn(&Value) -> Value) {
        self.answer = answer;
    }

    /// Sends a request, and returns its result or its error once it is answered.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value, TestkitError> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"id": id, "method": method, "params": params}))?;
        let is_answer = |it: &Value| it["id"] == id && it.get("method").is_none();
        let mut answer = self.wait_for(method, is_answer)?;
        Ok(match answer.get("error") {
            Some(_) => answer["error"].take(),
            None => answer["result"].take(),
        })
    }

    /// Starts a thread in a folder with further parameters, and returns its id.
    pub fn start_thread(&mut self, folder: &Path, further: &Value) -> Result<String, TestkitError> {
        let mut params = json!({"cwd": folder});
        for (name, value) in further.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        let started = self.request("thread/start", &params)?;
        Ok(started["thread"]["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends a prompt, and returns the id of its turn without waiting for its end.
    pub fn start_turn(&mut self, thread: &str, input: &Value) -> Result<String, TestkitError> {
        let params = json!({"threadId": thread, "input": input});
        let started = self.request("turn/start", &params)?;
        Ok(started["turn"]["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends a text as a prompt, and waits for the end of its turn.
    pub fn prompt(&mut self, thread: &str, text: &str) -> Result<String, TestkitError> {
        let turn = self.start_turn(thread, &json!([{"type": "text", "text": text}]))?;
        self.wait_for_end(thread)?;
        Ok(turn)
    }

    /// Interrupts a turn, and waits for its end.
    pub fn interrupt(&mut self, thread: &str, turn: &str) -> Result<(), TestkitError> {
        self.requests += 1;
        let params = json!({"threadId": thread, "turnId": turn});
        let request = json!({"id": self.requests, "method": "turn/interrupt", "params": params});
        // Some versions answer only after the turn has ended.
        self.send(&request)?;
        self.wait_for_end(thread)
    }

    /// Waits for the end of a thread's turn.
    pub fn wait_for_end(&mut self, thread: &str) -> Result<(), TestkitError> {
        let is_end =
            |it: &Value| it["method"] == "turn/completed" && it["params"]["threadId"] == thread;
        self.wait_for("the end of a turn", is_end).map(drop)
    }

    /// Waits for a message of the server, and answers its requests meanwhile.
    pub fn wait_for(
        &mut self,
        what: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, TestkitError> {
        let start = Instant::now();
        while let Some(rest) = PATIENCE.checked_sub(start.elapsed()) {
            match self.process.next_within(rest) {
                NextLine::Line(line) => {
                    let message = self.receive(&line)?;
                    if is_it(&message) {
                        return Ok(message);
                    }
                }
                NextLine::Quiet => {}
                NextLine::End | NextLine::TimedOut => break,
            }
        }
        Err(TestkitError::TimedOut { what: what.to_owned(), limit: PATIENCE })
    }

    /// Waits until no turn of any thread runs: a subagent may outlive the turn that started it.
    pub fn wait_until_idle(&mut self) -> Result<(), TestkitError> {
        let start = Instant::now();
        while !self.busy.is_empty() {
            let rest = PATIENCE.saturating_sub(start.elapsed());
            match self.process.next_within(rest) {
                NextLine::Line(line) => drop(self.receive(&line)?),
                NextLine::Quiet | NextLine::End | NextLine::TimedOut => {
                    let what = "the end of all turns".to_owned();
                    return Err(TestkitError::TimedOut { what, limit: PATIENCE });
                }
            }
        }
        Ok(())
    }

    /// Reads until nothing comes for this long.
    pub fn linger(&mut self, silence: Duration) -> Result<(), TestkitError> {
        while let NextLine::Line(line) = self.process.next_within(silence) {
            self.receive(&line)?;
        }
        Ok(())
    }

    /// Waits until a file exists, and reads messages meanwhile.
    pub fn wait_for_file(&mut self, path: &Path) -> Result<(), TestkitError> {
        let start = Instant::now();
        while !path.exists() {
            if start.elapsed() > PATIENCE {
                let what = format!("the file `{}`", path.display());
                return Err(TestkitError::TimedOut { what, limit: PATIENCE });
            }
            if let NextLine::Line(line) = self.process.next_within(BETWEEN_LOOKS) {
                self.receive(&line)?;
            }
        }
        Ok(())
    }

    /// Terminates it (SIGTERM).
    pub fn terminate(&self) -> Result<(), TestkitError> {
        self.process.terminate()
    }

    /// Kills it (SIGKILL).
    pub fn kill(&self) -> Result<(), TestkitError> {
        self.process.kill()
    }

    /// Closes its input, reads to its end, and returns the output with the log as its lines.
    pub fn finish(mut self) -> Result<ProcessOutput, TestkitError> {
        self.process.close_stdin();
        while let NextLine::Line(line) = self.process.next_within(PATIENCE) {
            self.note("server", &line);
        }
        let log = std::mem::take(&mut self.log);
        Ok(ProcessOutput { lines: log, ..self.process.finish()? })
    }

    fn receive(&mut self, line: &[u8]) -> Result<Value, TestkitError> {
        self.note("server", line);
        let message: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
        if let Some(thread) = message["params"]["threadId"].as_str() {
            match message["method"].as_str() {
                Some("turn/started") => drop(self.busy.insert(thread.to_owned())),
                Some("turn/completed") => drop(self.busy.remove(thread)),
                _ => {}
            }
        }
        if message.get("method").is_some() && message.get("id").is_some() {
            let result = (self.answer)(&message);
            self.send(&json!({"id": message["id"], "result": result}))?;
        }
        Ok(message)
    }

    fn send(&mut self, message: &Value) -> Result<(), TestkitError> {
        let line = message.to_string();
        self.note("client", line.as_bytes());
        self.process.send_line(&line)
    }

    /// Adds a message to the log, byte for byte.
    fn note(&mut self, side: &str, message: &[u8]) {
        let mut line = format!("{{\"dir\":\"{side}\",\"msg\":").into_bytes();
        line.extend_from_slice(message);
        line.push(b'}');
        self.log.push(line);
    }
}
