//! Runs real Claude Code and OpenCode against a scripted model, for tests in another language.
//!
//! `page_agents AGENTS_FOLDER`. It prints one JSON object per line: first `{"home":…}`, where the
//! agents keep their sessions, or `{"unavailable":…}`; then `{"agent","session"}` of each run,
//! `{"agent","line"}` of each line of its stream, and `{"agent","ended":true}`. It reads commands,
//! one per line: `start`, and `release GATE` with `inner` (the nested subagents) or `last` (the last
//! answer). It ends with its standard input.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(unix)]
    let done = unix::run();
    #[cfg(not(unix))]
    let done: Result<(), Box<dyn Error>> = Err("agents run on Unix only".into());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(value: &serde_json::Value) {
    let mut out = io::stdout().lock();
    // Whoever started this is gone if it cannot be written, and then the input ends as well.
    writeln!(out, "{value}").and_then(|()| out.flush()).ok();
}

#[cfg(unix)]
mod unix {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use serde_json::{Value, json};
    use threadfold_testkit::{
        AgentHome, Availability, ClaudeCode, Input, NextLine, OpenCode, Place, RunOptions, Script,
        ScriptedModel, Step,
    };

    use super::*;

    const SESSION: &str = "3d5f0c1e-0000-4000-8000-000000000017";
    const LIMIT: Duration = Duration::from_secs(300);

    /// The names of an agent's tools, and of their inputs.
    struct Tools {
        shell: &'static str,
        edit: &'static str,
        write: &'static str,
        task: &'static str,
        agent_type: &'static str,
        path: &'static str,
        old: &'static str,
        new: &'static str,
    }

    const CLAUDE: Tools = Tools {
        shell: "Bash",
        edit: "Edit",
        write: "Write",
        task: "Agent",
        agent_type: "general-purpose",
        path: "file_path",
        old: "old_string",
        new: "new_string",
    };

    const OPENCODE: Tools = Tools {
        shell: "bash",
        edit: "edit",
        write: "write",
        task: "task",
        agent_type: "general",
        path: "filePath",
        old: "oldString",
        new: "newString",
    };

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let agents = std::env::args().nth(1).ok_or("`page_agents AGENTS_FOLDER` was wanted")?;
        let (claude, opencode) =
            match (ClaudeCode::find(Path::new(&agents))?, OpenCode::find(Path::new(&agents))?) {
                (Availability::Found(claude), Availability::Found(opencode)) => (claude, opencode),
                (Availability::Unavailable(why), _) | (_, Availability::Unavailable(why)) => {
                    print(&json!({ "unavailable": why }));
                    return Ok(());
                }
            };
        let home = AgentHome::new()?;
        let (claude_model, opencode_model) = (model(&CLAUDE)?, model(&OPENCODE)?);
        let is_last = AtomicBool::new(false);
        print(&json!({ "home": home.path() }));
        thread::scope(|scope| {
            for line in io::stdin().lock().lines() {
                match line?.split_once(' ') {
                    None => {
                        scope.spawn(|| {
                            report("claude", run_claude(&claude, &home, &claude_model));
                        });
                        scope.spawn(|| {
                            let done = run_opencode(&opencode, &home, &opencode_model, &is_last);
                            report("opencode", done);
                        });
                    }
                    Some((_, gate)) => {
                        is_last.fetch_or(gate == "last", Ordering::Relaxed);
                        claude_model.release(gate);
                        opencode_model.release(gate);
                    }
                }
            }
            is_last.store(true, Ordering::Relaxed);
            for gate in ["inner", "last"] {
                claude_model.release(gate);
                opencode_model.release(gate);
            }
            Ok(())
        })
    }

    fn report(agent: &str, done: Result<(), Box<dyn Error>>) {
        let error = done.err().map(|it| it.to_string());
        print(&json!({ "agent": agent, "ended": true, "error": error }));
    }

    fn run_claude(
        claude: &ClaudeCode,
        home: &AgentHome,
        model: &ScriptedModel,
    ) -> Result<(), Box<dyn Error>> {
        let prompt = Input::Prompt("[[play:main]] Count the notes, please.".to_owned());
        let options = RunOptions::new(home, model.base_url(), prompt)
            .session_id(SESSION)
            .forward_subagent_text()
            .time_limit(LIMIT);
        let mut running = claude.start(&options)?;
        print(&json!({ "agent": "claude", "session": SESSION }));
        loop {
            match running.next_within(LIMIT) {
                NextLine::Line(line) => print_line("claude", &line),
                NextLine::Quiet => {}
                NextLine::End | NextLine::TimedOut => break,
            }
        }
        running.finish()?;
        Ok(())
    }

    fn run_opencode(
        opencode: &OpenCode,
        home: &AgentHome,
        model: &ScriptedModel,
        is_last: &AtomicBool,
    ) -> Result<(), Box<dyn Error>> {
        let agent = opencode.serve(home, &model.base_url())?;
        let folder = home.project().join("live");
        std::fs::create_dir_all(&folder)?;
        let session = agent.create_session(&folder)?;
        let mut bus = agent.events(&folder)?;
        print(&json!({ "agent": "opencode", "session": session }));
        agent.prompt(&folder, &session, "[[play:main]] Count the notes, please.")?;
        // Its server does not end: it is done when nothing is held back any more, and nothing comes.
        let mut is_quiet = false;
        while !(is_quiet && is_last.load(Ordering::Relaxed)) {
            let line = bus.next_within(Duration::from_secs(4));
            is_quiet = line.is_none();
            if let Some(line) = line {
                print_line("opencode", &line);
            }
        }
        Ok(())
    }

    fn print_line(agent: &str, line: &[u8]) {
        print(&json!({ "agent": agent, "line": String::from_utf8_lossy(line) }));
    }

    /// Returns a model that writes and edits a file, runs a command with colours, and then starts two
    /// subagents at once, of which one starts another. The inner ones and the last answer wait.
    fn model(tools: &Tools) -> Result<ScriptedModel, Box<dyn Error>> {
        let shell = |command: &str, description: &str| -> Value {
            json!({ "command": command, "description": description })
        };
        let task = |name: &str, description: &str| -> Value {
            json!({
                "description": description,
                "prompt": format!("[[play:{name}]] Do your part."),
                "subagent_type": tools.agent_type,
                "run_in_background": false,
            })
        };
        let notes = json!({ tools.path: "notes.txt", "content": "alpha\nbeta\ngamma\n" });
        let edit = json!({ tools.path: "notes.txt", tools.old: "beta", tools.new: "BETA" });
        let colours = "printf '\\033[32mok\\033[0m 12 passed\\n\\033[31mFAIL\\033[0m 1 failed\\n'";
        let held = |name: &str, words: &str| {
            let middle = Place::Within { block: 0, deltas: 2 };
            Script::new(name)
                .step(
                    Step::new()
                        .text(format!("{words} begins."))
                        .tool_use(tools.shell, shell("wc -l notes.txt", "Count the lines")),
                )
                .step(
                    Step::new()
                        .text(format!("{words} has counted three lines, one after another."))
                        .hold(middle, "inner"),
                )
        };
        let first = Step::new().text("I write the notes first.").tool_use(tools.write, notes);
        let both = Step::new()
            .text("Two of my helpers count them.")
            .tool_use(tools.task, task("outer", "Count with help"))
            .tool_use(tools.task, task("right", "Count alone"));
        let last = "## Result\n\nThe notes have **three lines**.\n\n- alpha\n- BETA\n- gamma\n";
        let main = Script::new("main")
            .step(first)
            .step(Step::new().tool_use(tools.edit, edit))
            .step(Step::new().tool_use(tools.shell, shell(colours, "Run the tests")))
            .step(both)
            .step(Step::new().text(last).hold(Place::Within { block: 0, deltas: 2 }, "last"));
        let outer = Script::new("outer")
            .step(
                Step::new()
                    .text("I ask another one.")
                    .tool_use(tools.task, task("inner", "Count inside")),
            )
            .step(Step::new().text("The one inside reports three lines."));
        let scripts = [main, outer, held("inner", "The inner one"), held("right", "The right one")];
        let title = Script::new("text").step(Step::new().text("A title."));
        let builder = ScriptedModel::builder().require_tools().scripts(scripts).script(title);
        Ok(builder.start()?)
    }
}
