//! Scenarios of OpenCode, for any version that has the server of the pinned one.
//!
//! One server hosts all scenarios, each in a folder and on a bus of its own. The transcript is what
//! the server returns afterwards: session and messages, of the session and of its descendants.

mod newer;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use super::Recording;
use crate::{AgentHome, Events, OpenCode, ScriptedModel, Server, TestkitError, opencode_scripts};

/// After a turn OpenCode sums up, for which there is no sign of an end.
const SILENCE: Duration = Duration::from_millis(500);

/// A situation to record.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    name: &'static str,
    /// The event at which the session is aborted.
    abort_at: Option<fn(&Value) -> bool>,
    /// The type of the event of version 2 at which it is interrupted.
    interrupt_at: Option<&'static str>,
}

impl Scenario {
    /// Returns the name, which is also that of its script.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// Returns the scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let played = [
        "text",
        "thinking",
        "tools",
        "parallel",
        "maxtokens",
        "subagent",
        "subagents_parallel",
        "nested",
        "error_retry",
        "error400",
        "drop_midstream",
        "drop_after_tool",
    ];
    let mut all: Vec<_> = played
        .into_iter()
        .map(|name| Scenario { name, abort_at: None, interrupt_at: None })
        .collect();
    all.push(Scenario {
        name: "held_text",
        abort_at: Some(|event| event["type"] == "message.part.delta"),
        interrupt_at: Some("session.text.delta"),
    });
    all.push(Scenario {
        name: "held_tool",
        abort_at: Some(|event| {
            event["properties"]["part"]["state"]["metadata"]["output"] == "begun\n"
        }),
        interrupt_at: Some("session.tool.progress"),
    });
    all
}

/// Plays scenarios with one server, and hands over each recording.
pub fn record(
    opencode: &OpenCode,
    scenarios: &[Scenario],
    mut keep: impl FnMut(&Recording) -> Result<(), TestkitError>,
) -> Result<(), TestkitError> {
    if opencode.version().starts_with("2.") {
        return newer::record(opencode, scenarios, &mut keep);
    }
    let model = ScriptedModel::builder().require_tools().scripts(opencode_scripts()).start()?;
    let home = AgentHome::new()?;
    let server = opencode.serve(&home, &model.base_url())?;
    for scenario in scenarios {
        let folder = home.project().join(scenario.name);
        let transcripts = home.temporary().join(scenario.name);
        for folder in [&folder, &transcripts] {
            fs::create_dir_all(folder)
                .map_err(TestkitError::io(format!("create `{}`", folder.display())))?;
        }
        let (session, mut bus) = play(&server, &folder, scenario)?;
        bus.settle(|| write_answers(&server, &folder, &session, &transcripts))?;
        keep(&recording(opencode, scenario, session, bus.lines, transcripts))?;
    }
    Ok(())
}

/// Returns a recording, as the server's version makes it.
fn recording(
    opencode: &OpenCode,
    scenario: &Scenario,
    session: String,
    lines: Vec<Vec<u8>>,
    transcripts: PathBuf,
) -> Recording {
    Recording {
        scenario: scenario.name.to_owned(),
        version: opencode.version().to_owned(),
        arguments: vec!["serve".to_owned()],
        exit_code: None,
        signal: None,
        stderr: String::new(),
        missed: Vec::new(),
        may_lack: Vec::new(),
        session: Some(session),
        lines,
        transcripts,
    }
}

/// Returns the session, and its bus.
fn play(
    server: &Server<'_>,
    folder: &Path,
    scenario: &Scenario,
) -> Result<(String, Bus), TestkitError> {
    let mut bus = Bus { events: server.events(folder)?, lines: Vec::new() };
    // The first event is sent to every new listener: from then on nothing is missed.
    bus.read_until(|_| true)?;
    let session = server.create_session(folder)?;
    server.prompt(folder, &session, &format!("[[play:{}]] please run", scenario.name))?;
    if let Some(is_it) = scenario.abort_at {
        bus.read_until(is_it)?;
        server.abort(folder, &session)?;
    }
    bus.read_until(|event| {
        event["type"] == "session.idle" && event["properties"]["sessionID"] == *session
    })?;
    Ok((session, bus))
}

/// A bus that is being read.
struct Bus {
    events: Events,
    lines: Vec<Vec<u8>>,
}

impl Bus {
    /// Reads the answers, again and again until the bus is silent: what the server returns must not
    /// be newer than what it reported.
    fn settle(
        &mut self,
        mut read: impl FnMut() -> Result<(), TestkitError>,
    ) -> Result<(), TestkitError> {
        loop {
            while let Some(line) = self.events.next_within(SILENCE) {
                self.lines.push(line);
            }
            read()?;
            match self.events.next_within(SILENCE) {
                Some(line) => self.lines.push(line),
                None => return Ok(()),
            }
        }
    }

    fn read_until(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<(), TestkitError> {
        for line in self.events.by_ref() {
            let line = line?;
            let data = line.strip_prefix(b"data:").unwrap_or(&line);
            let has_come = is_it(&serde_json::from_slice(data).unwrap_or(Value::Null));
            self.lines.push(line);
            if has_come {
                break;
            }
        }
        Ok(())
    }
}

/// Writes what the server returns for the session and its descendants, in reading order.
fn write_answers(
    server: &Server<'_>,
    folder: &Path,
    session: &str,
    transcripts: &Path,
) -> Result<(), TestkitError> {
    let mut sessions = vec![session.to_owned()];
    sessions.extend(server.descendants(folder, session)?);
    for (number, session) in sessions.iter().enumerate() {
        let answers = [
            ("a.session", server.session(folder, session)?),
            ("b.messages", server.messages(folder, session)?),
        ];
        for (name, bytes) in answers {
            let path = transcripts.join(format!("{number:03}.{name}.json"));
            fs::write(&path, bytes)
                .map_err(TestkitError::io(format!("write `{}`", path.display())))?;
        }
    }
    Ok(())
}
