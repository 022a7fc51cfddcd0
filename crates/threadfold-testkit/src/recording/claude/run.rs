//! Plays a scenario with the real program.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use threadfold_fold::parity::RunGap;

use super::{
    Abilities, Act, Moment, Run, Scenario,
    scenario::{Forwarding, Messages, Permissions, RunSession},
};
use crate::{
    AgentHome, AgentProcess, ClaudeCode, Input, NextLine, RunOptions, ScriptedModel, TestkitError,
    ready_scripts, recording::Recording,
};

/// How long a moment is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often files are looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// The time limit of a run.
const LIMIT: Duration = Duration::from_secs(90);

/// Plays a scenario, and hands over the recording of its last run, while its home still exists.
pub fn record<T>(
    claude: &ClaudeCode,
    abilities: &Abilities,
    scenario: &Scenario,
    keep: impl FnOnce(&Recording) -> Result<T, TestkitError>,
) -> Result<T, TestkitError> {
    let home = AgentHome::new()?;
    for (name, content) in &scenario.files {
        write_file(&home, name, content)?;
    }
    let scripts = ready_scripts(abilities.subagent_tool).into_iter();
    let scripts = scripts.chain(scenario.scripts.iter().cloned()).enumerate();
    let scripts = scripts.map(|(index, it)| it.distinct_usage(10 * index as u64));
    let model = ScriptedModel::builder().scripts(scripts).start()?;

    let mut may_lack = scenario.may_lack.clone();
    let is_unforwarded = |it: &Run| it.forwarding == Forwarding::Off;
    if !abilities.forwards_text || scenario.runs.iter().any(is_unforwarded) {
        may_lack.push(RunGap::SubagentWords);
    }
    let mut recording = None;
    for run in &scenario.runs {
        let input = match &run.prompt {
            Some(prompt) => Input::Prompt(prompt.clone()),
            None => Input::Lines(Vec::new()),
        };
        let options = RunOptions::new(&home, model.base_url(), input).time_limit(LIMIT);
        let options = complete(options, run, abilities, &session_id(scenario.name));
        recording = Some(play(claude, &options, run, scenario, &home, &model)?);
    }
    let mut recording = recording.expect("a scenario has a run");
    recording.may_lack = may_lack;
    keep(&recording)
}

fn write_file(home: &AgentHome, name: &str, content: &[u8]) -> Result<(), TestkitError> {
    let path = home.project().join(name);
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(&path, content))
        .map_err(TestkitError::io(format!("write `{}`", path.display())))
}

fn complete<'a>(
    mut options: RunOptions<'a>,
    run: &Run,
    abilities: &Abilities,
    session: &str,
) -> RunOptions<'a> {
    options = match run.session {
        RunSession::New => options.session_id(session),
        RunSession::Resumed => options.argument(format!("--resume={session}")),
        RunSession::Forked => {
            options.argument(format!("--resume={session}")).argument("--fork-session")
        }
    };
    if run.forwarding == Forwarding::IfPossible && abilities.forwards_text {
        options = options.forward_subagent_text();
    }
    if run.messages == Messages::Whole {
        options = options.whole_messages();
    }
    if run.permissions != Permissions::Skipped {
        options = options.keep_permissions();
    }
    options = run.arguments.iter().fold(options, |options, it| options.argument(it));
    run.variables.iter().fold(options, |options, (name, value)| options.variable(*name, *value))
}

/// Returns the session id of a scenario: a UUID that depends on its name alone.
fn session_id(scenario: &str) -> String {
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = scenario.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("5e550000-0000-4000-8000-{:012x}", hash & 0xffff_ffff_ffff)
}

fn play(
    claude: &ClaudeCode,
    options: &RunOptions<'_>,
    run: &Run,
    scenario: &Scenario,
    home: &AgentHome,
    model: &ScriptedModel,
) -> Result<Recording, TestkitError> {
    let process = claude.start(options)?;
    let mut player = Player { process, run, home, model, missed: Vec::new(), is_over: false };
    for act in &run.acts {
        player.perform(act)?;
    }
    let missed = player.read_to_the_end();
    let output = player.process.finish()?;
    Ok(Recording {
        scenario: scenario.name.to_owned(),
        version: claude.version().to_owned(),
        arguments: options.arguments(),
        exit_code: output.status.code(),
        signal: output.status.signal(),
        stderr: String::from_utf8_lossy(&output.stderr).chars().take(2_000).collect(),
        missed,
        may_lack: Vec::new(),
        session: None,
        lines: output.lines,
        transcripts: home.transcript_root(),
    })
}

/// A run that is being played.
struct Player<'a> {
    process: AgentProcess<'a>,
    run: &'a Run,
    home: &'a AgentHome,
    model: &'a ScriptedModel,
    missed: Vec<String>,
    is_over: bool,
}

impl Player<'_> {
    fn perform(&mut self, act: &Act) -> Result<(), TestkitError> {
        if self.is_over && !matches!(act, Act::Wait(_) | Act::Linger(..)) {
            self.missed.push("an act before its end".to_owned());
            return Ok(());
        }
        match act {
            Act::Prompt(content) => {
                let message = json!({"role": "user", "content": content});
                let line = json!({"type": "user", "message": message});
                self.process.send_line(&line.to_string())
            }
            Act::Wait(moment) => {
                if !self.read_until(*moment, PATIENCE)? {
                    self.missed.push(moment.name());
                }
                Ok(())
            }
            Act::Linger(moment, limit) => self.read_until(*moment, *limit).map(|_| ()),
            Act::Request(subtype) => {
                let request = json!({"subtype": subtype});
                let line = json!({"type": "control_request", "request_id": "threadfold-1",
                    "request": request});
                self.process.send_line(&line.to_string())
            }
            Act::Interrupt => self.process.interrupt(),
            Act::Terminate => self.process.terminate(),
            Act::Kill => self.process.kill(),
            Act::Release(gate) => {
                self.model.release(gate);
                Ok(())
            }
        }
    }

    /// Reads until the moment, and returns whether it came in time.
    fn read_until(&mut self, moment: Moment, limit: Duration) -> Result<bool, TestkitError> {
        let start = Instant::now();
        while start.elapsed() < limit {
            let line = match self.process.next_within(BETWEEN_LOOKS) {
                NextLine::Line(line) => serde_json::from_slice(&line).unwrap_or(Value::Null),
                NextLine::Quiet => Value::Null,
                NextLine::End | NextLine::TimedOut => {
                    self.is_over = true;
                    return Ok(false);
                }
            };
            self.answer(&line)?;
            let has_come = match moment {
                Moment::Line(_, is_it) => is_it(&line),
                Moment::File(name) => self.home.project().join(name).exists(),
                Moment::Transcript(text) => {
                    self.home.wait_for_transcript(text, Duration::from_millis(1)).is_ok()
                }
            };
            if has_come {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Closes standard input and reads to the end; returns all that was waited for in vain.
    fn read_to_the_end(&mut self) -> Vec<String> {
        self.process.close_stdin();
        loop {
            match self.process.next_within(LIMIT) {
                NextLine::Line(_) | NextLine::Quiet => {}
                NextLine::End => break,
                NextLine::TimedOut => {
                    self.missed.push(format!("its end within {LIMIT:?}"));
                    break;
                }
            }
        }
        std::mem::take(&mut self.missed)
    }

    /// Answers the question whether a tool may be used.
    fn answer(&mut self, line: &Value) -> Result<(), TestkitError> {
        if line["request"]["subtype"] != "can_use_tool" {
            return Ok(());
        }
        let answer = match self.run.permissions {
            Permissions::Denied => json!({"behavior": "deny", "message": "Not now."}),
            _ => json!({"behavior": "allow", "updatedInput": line["request"]["input"]}),
        };
        let response = json!({"type": "control_response", "response": {"subtype": "success",
            "request_id": line["request_id"], "response": answer}});
        self.process.send_line(&response.to_string())
    }
}
