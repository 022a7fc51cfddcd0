//! Plays a scenario with the real program.

use std::{
    fs, io,
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Abilities, Act, Scenario, Stop, scenario::View};
use crate::{
    AgentHome, AgentProcess, AppServer, Codex, CodexOptions, NextLine, ProcessOutput,
    ScriptedModel, TestkitError, codex_scripts, recording::Recording,
};

/// The time limit of a process.
const LIMIT: Duration = Duration::from_secs(90);
/// How long the start of a command is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long nothing comes once subagents have ended.
const SILENCE: Duration = Duration::from_millis(2_500);
/// How often the time is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A picture of one dot.
const DOT: &[u8] = include_bytes!("dot.png");

/// Plays a scenario, and hands over its recording while its home still exists.
pub fn record<T>(
    codex: &Codex,
    abilities: &Abilities,
    scenario: &Scenario,
    keep: impl FnOnce(&Recording) -> Result<T, TestkitError>,
) -> Result<T, TestkitError> {
    let home = AgentHome::new()?;
    let given: [(&str, &[u8]); 2] = [("given.txt", b"old line\nlast line\n"), ("dot.png", DOT)];
    for (name, content) in given {
        let path = home.project().join(name);
        fs::write(&path, content)
            .map_err(TestkitError::io(format!("write `{}`", path.display())))?;
    }
    let scripts = codex_scripts(abilities.subagent_tools).into_iter().enumerate();
    let scripts = scripts.map(|(index, it)| it.distinct_usage(10 * index as u64));
    let model = ScriptedModel::builder().scripts(scripts).start()?;
    let options = CodexOptions::new(&home, model.base_url(), codex.version())
        .model(scenario.model)
        .time_limit(LIMIT);

    let mut outputs = match scenario.view {
        View::Exec => play_exec(codex, &options, scenario)?,
        View::AppServer => play_app_server(codex, &options, scenario, &home)?,
    };
    let transcripts = set_apart(&home).map_err(TestkitError::io("set the rollouts apart"))?;
    let lines = outputs.iter_mut().flat_map(|it| std::mem::take(&mut it.lines));
    let lines = lines.map(without_host).collect();
    let last = outputs.last().expect("a scenario has a process");
    keep(&Recording {
        scenario: scenario.name.clone(),
        version: codex.version().to_owned(),
        arguments: vec![if scenario.view == View::Exec { "exec" } else { "app-server" }.to_owned()],
        exit_code: last.status.code(),
        signal: last.status.signal(),
        stderr: String::from_utf8_lossy(&last.stderr).chars().take(2_000).collect(),
        missed: Vec::new(),
        may_lack: scenario.may_lack.clone(),
        // All files belong to it, also those of subagents and forks.
        session: Some(String::new()),
        lines,
        transcripts,
    })
}

/// Replaces the name of this machine, which the app-server reports.
fn without_host(line: Vec<u8>) -> Vec<u8> {
    const KEY: &str = "\"serverName\":\"";
    let Ok(text) = std::str::from_utf8(&line) else { return line };
    let Some((before, rest)) = text.split_once(KEY) else { return line };
    let Some((_, after)) = rest.split_once('"') else { return line };
    format!("{before}{KEY}host\"{after}").into_bytes()
}

/// Moves the rollouts to a folder of their own, without settings and databases.
fn set_apart(home: &AgentHome) -> io::Result<std::path::PathBuf> {
    let folder = home.codex().join("recorded");
    fs::create_dir_all(&folder)?;
    for name in ["sessions", "archived_sessions"] {
        let from = home.codex().join(name);
        if from.exists() {
            fs::rename(from, folder.join(name))?;
        }
    }
    Ok(folder)
}

fn prompt_of(script: &str) -> String {
    format!("[[play:{script}]] please run")
}

/// Runs a process for each prompt; each one after the first resumes the thread.
fn play_exec(
    codex: &Codex,
    options: &CodexOptions<'_>,
    scenario: &Scenario,
) -> Result<Vec<ProcessOutput>, TestkitError> {
    let mut outputs: Vec<ProcessOutput> = Vec::new();
    let mut running: Option<AgentProcess<'_>> = None;
    for act in &scenario.acts {
        match act {
            Act::Play(script) | Act::Begin(script) | Act::PlayWithImage(script) => {
                let prompt = prompt_of(script);
                let thread = outputs.first().map(thread_of);
                let mut arguments: Vec<&str> = Vec::new();
                if thread.is_some() {
                    arguments.push("resume");
                }
                arguments.extend(["--json", "--skip-git-repo-check"]);
                if matches!(act, Act::PlayWithImage(_)) {
                    arguments.extend(["-i", "dot.png", "--"]);
                }
                arguments.extend(thread.as_deref());
                arguments.push(&prompt);
                let process = codex.exec(options, &arguments)?;
                match act {
                    Act::Begin(_) => running = Some(process),
                    _ => outputs.push(process.finish()?),
                }
            }
            Act::WaitForCommand => {
                if let Some(process) = &mut running {
                    read_to_command(process);
                }
            }
            Act::Restart(stop) | Act::Stop(stop) => {
                if let Some(process) = running.take() {
                    match stop {
                        Stop::Close => {}
                        Stop::Interrupt => process.interrupt()?,
                        Stop::Terminate => process.terminate()?,
                        Stop::Kill => process.kill()?,
                    }
                    outputs.push(process.finish()?);
                }
            }
            Act::Linger => {}
            other => unreachable!("`codex exec` has no way to do {other:?}"),
        }
    }
    Ok(outputs)
}

/// Reads until a command has started, or for as long as patience lasts.
fn read_to_command(process: &mut AgentProcess<'_>) {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match process.next_within(BETWEEN_LOOKS) {
            NextLine::Line(line) => {
                let line: Value = serde_json::from_slice(&line).unwrap_or(Value::Null);
                if line["type"] == "item.started" && line["item"]["type"] == "command_execution" {
                    return;
                }
            }
            NextLine::Quiet => {}
            NextLine::End | NextLine::TimedOut => return,
        }
    }
}

/// Returns the thread that a stream of `codex exec` names.
fn thread_of(output: &ProcessOutput) -> String {
    let lines = output.lines.iter().filter_map(|it| serde_json::from_slice::<Value>(it).ok());
    let mut threads = lines.filter_map(|it| it["thread_id"].as_str().map(str::to_owned));
    threads.next().unwrap_or_default()
}

fn play_app_server(
    codex: &Codex,
    options: &CodexOptions<'_>,
    scenario: &Scenario,
    home: &AgentHome,
) -> Result<Vec<ProcessOutput>, TestkitError> {
    let start = || -> Result<AppServer<'_>, TestkitError> {
        let mut server = codex.app_server(options)?;
        server.answer_with(answer);
        Ok(server)
    };
    let mut server = start()?;
    let thread = server.start_thread(&home.project(), &scenario.thread)?;
    let mut client = Client { home, thread, turn: String::new() };
    let mut outputs = Vec::new();
    for act in &scenario.acts {
        match act {
            Act::Restart(stop) => {
                stop_server(&server, *stop)?;
                outputs.push(server.finish()?);
                server = start()?;
                server.request("thread/resume", &json!({"threadId": client.thread}))?;
            }
            Act::Stop(stop) => stop_server(&server, *stop)?,
            act => client.perform(&mut server, act)?,
        }
    }
    if !matches!(scenario.acts.last(), Some(Act::Stop(_))) {
        // What is still running would only be in the file.
        server.wait_until_idle()?;
    }
    outputs.push(server.finish()?);
    Ok(outputs)
}

fn stop_server(server: &AppServer<'_>, stop: Stop) -> Result<(), TestkitError> {
    match stop {
        Stop::Close | Stop::Interrupt => Ok(()),
        Stop::Terminate => server.terminate(),
        Stop::Kill => server.kill(),
    }
}

/// Allows what is asked for, but what is named `refused`.
fn answer(request: &Value) -> Value {
    match request["params"]["command"].as_str() {
        Some(command) if command.contains("refused") => json!({"decision": "decline"}),
        _ => json!({"decision": "accept"}),
    }
}

/// A client in one thread of an app-server.
struct Client<'a> {
    home: &'a AgentHome,
    thread: String,
    turn: String,
}

impl Client<'_> {
    fn perform(&mut self, server: &mut AppServer<'_>, act: &Act) -> Result<(), TestkitError> {
        let thread = self.thread.clone();
        match act {
            Act::Play(script) => {
                self.begin(server, json!([]), script)?;
                server.wait_for_end(&thread)
            }
            Act::PlayWithImage(script) => {
                let path = self.home.project().join("dot.png");
                self.begin(server, json!([{"type": "localImage", "path": path}]), script)?;
                server.wait_for_end(&thread)
            }
            Act::Begin(script) => self.begin(server, json!([]), script),
            Act::WaitForFile(name) => server.wait_for_file(&self.home.project().join(name)),
            Act::WaitForCommand => {
                let is_command = |it: &Value| {
                    it["method"] == "item/started"
                        && it["params"]["item"]["type"] == "commandExecution"
                };
                server.wait_for("the start of a command", is_command).map(drop)
            }
            Act::WaitFor(method) => server.wait_for(method, |it| it["method"] == *method).map(drop),
            Act::WaitForEnd => server.wait_for_end(&thread),
            Act::Linger => server.linger(SILENCE),
            Act::Steer(words) => {
                let input = json!([{"type": "text", "text": words}]);
                let params =
                    json!({"threadId": thread, "expectedTurnId": self.turn, "input": input});
                server.request("turn/steer", &params).map(drop)
            }
            Act::Interrupt => server.interrupt(&thread, &self.turn),
            Act::Compact => {
                server.request("thread/compact/start", &json!({"threadId": thread}))?;
                server.wait_for_end(&thread)
            }
            Act::Review => {
                let target = json!({"type": "custom", "instructions": prompt_of("review")});
                let params = json!({"threadId": thread, "target": target, "delivery": "inline"});
                server.request("review/start", &params)?;
                server.wait_for_end(&thread)
            }
            Act::Fork => {
                let forked = server.request("thread/fork", &json!({"threadId": thread}))?;
                self.thread = forked["thread"]["id"].as_str().unwrap_or_default().to_owned();
                Ok(())
            }
            Act::GoBack => {
                let params = json!({"threadId": thread, "beforeTurnId": self.turn});
                let reverted = server.request("thread/revert", &params)?;
                if reverted.get("code").is_some() {
                    // Before 0.157 it was named otherwise.
                    let params = json!({"threadId": thread, "numTurns": 1});
                    server.request("thread/rollback", &params)?;
                }
                Ok(())
            }
            Act::Restart(_) | Act::Stop(_) => Ok(()),
        }
    }

    fn begin(
        &mut self,
        server: &mut AppServer<'_>,
        mut input: Value,
        script: &str,
    ) -> Result<(), TestkitError> {
        let text = json!({"type": "text", "text": prompt_of(script)});
        if let Some(parts) = input.as_array_mut() {
            parts.insert(0, text);
        }
        self.turn = server.start_turn(&self.thread, &input)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_does_not_name_the_machine() {
        let line = br#"{"params":{"status":"disabled","serverName":"my-laptop","id":null}}"#;
        let expected = br#"{"params":{"status":"disabled","serverName":"host","id":null}}"#;
        assert_eq!(without_host(line.to_vec()), expected);
        assert_eq!(without_host(b"{\"id\":1}".to_vec()), b"{\"id\":1}");
    }
}
