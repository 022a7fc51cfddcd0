//! Scripts for OpenCode's tools, equivalent to the ready scripts for Claude Code.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{Attempts, Fault, Place, Script, Step, StopReason};

/// Long enough for a client to process a block and to run a trivial tool.
const SILENCE: Duration = Duration::from_millis(300);

/// Returns scripts that use the tools of OpenCode on files in its folder.
///
/// | name | shows |
/// |---|---|
/// | `text` | one answer of plain text |
/// | `thinking` | thinking before a tool, and before the answer |
/// | `tools` | `write`, `read` and `edit` of `notes.txt`, a command, a failing tool, an unknown tool |
/// | `parallel` | three tools in one answer, of which the first is the slowest |
/// | `subagent` | a subagent |
/// | `subagents_parallel` | two subagents at once |
/// | `nested` | a subagent that starts another |
/// | `error_retry` | status 529 and 429 before the answer |
/// | `error400` | a request that is always refused |
/// | `drop_midstream` | a connection cut within a text |
/// | `drop_after_tool` | a connection cut after a tool call |
/// | `held_text` | a text that pauses halfway at the gate `held` |
/// | `held_tool` | a tool that runs longer than any timeout |
/// | `maxtokens` | an answer truncated by the token limit |
///
/// `child`, `left`, `right` and `outer` are the scripts of the subagents.
pub fn opencode_scripts() -> Vec<Script> {
    scripts_for(&ToolNames {
        shell: "bash",
        path: "filePath",
        task: "task",
        agent: "subagent_type",
    })
}

/// Returns the same scripts with the tools of version 2.
pub fn opencode_newer_scripts() -> Vec<Script> {
    scripts_for(&ToolNames { shell: "shell", path: "path", task: "subagent", agent: "agent" })
}

/// The names of tools and of their inputs, which differ between the versions.
struct ToolNames {
    shell: &'static str,
    path: &'static str,
    task: &'static str,
    agent: &'static str,
}

fn scripts_for(names: &ToolNames) -> Vec<Script> {
    let mut scripts = answers(names);
    scripts.extend(subagents(names));
    scripts.extend(faults(names));
    scripts
}

fn answers(names: &ToolNames) -> Vec<Script> {
    let path = names.path;
    let notes = json!({ path: "notes.txt", "content": "alpha\nbeta\ngamma\n" });
    let edit = json!({ path: "notes.txt", "oldString": "beta", "newString": "BETA" });
    vec![
        Script::new("text").step(
            Step::new().text("Every event is folded into one state; größer heißt nicht schöner."),
        ),
        Script::new("thinking")
            .step(
                Step::new()
                    .thinking("First the bus, then the store.", "")
                    .text("I look at the folder.")
                    .tool_use(names.shell, shell("echo thought")),
            )
            .step(Step::new().thinking("Both agree.", "").text("They agree, after some thought.")),
        Script::new("tools")
            .step(Step::new().text("I write a file.").tool_use("write", notes))
            .step(Step::new().tool_use("read", json!({ path: "notes.txt" })))
            .step(Step::new().text("Now I edit it.").tool_use("edit", edit))
            .step(Step::new().tool_use(names.shell, shell("echo oops >&2; exit 3")))
            .step(Step::new().tool_use("read", json!({ path: "missing.txt" })))
            .step(Step::new().tool_use("no_such_tool", json!({ "a": 1 })))
            .step(Step::new().text("One file written and edited; three failures seen.")),
        Script::new("parallel")
            .step(
                Step::new()
                    .text("Three at once.")
                    .tool_use(names.shell, shell("sleep 0.3; echo slow"))
                    .tool_use(names.shell, shell("echo fast"))
                    .tool_use(names.shell, shell("echo other")),
            )
            .step(Step::new().text("All three finished.")),
        Script::new("held_text").step(
            Step::new()
                .text("This text is begun, and then nothing comes for a long time.")
                .hold(Place::Within { block: 0, deltas: 2 }, "held"),
        ),
        Script::new("held_tool")
            .step(Step::new().text("I wait.").tool_use(names.shell, shell("echo begun; sleep 60")))
            .step(Step::new().text("I have waited.")),
        Script::new("maxtokens")
            .step(Step::new().text("This answer is too long to").stop(StopReason::MaxTokens)),
    ]
}

fn subagents(names: &ToolNames) -> Vec<Script> {
    let start = |step: Step, child: &str| step.tool_use(names.task, task(names, child));
    let worker = |name: &str| {
        Script::new(name)
            .step(
                Step::new()
                    .thinking("I am the subagent.", "")
                    .text(format!("The {name} starts."))
                    .tool_use(names.shell, shell(&format!("echo {name} > {name}.txt"))),
            )
            .step(Step::new().text(format!("The {name} is done.")))
    };
    vec![
        Script::new("subagent")
            .step(start(Step::new().text("I delegate this."), "child"))
            .step(Step::new().text("The subagent has reported.")),
        Script::new("subagents_parallel")
            .step(start(start(Step::new().text("Two subagents."), "left"), "right"))
            .step(Step::new().text("Both have reported.")),
        Script::new("nested")
            .step(start(Step::new().text("I start the outer one."), "outer"))
            .step(Step::new().text("The nested run is finished.")),
        Script::new("outer")
            .step(start(Step::new().text("The outer delegates."), "child"))
            .step(Step::new().text("The outer is done.")),
        worker("child"),
        worker("left"),
        worker("right"),
    ]
}

fn faults(names: &ToolNames) -> Vec<Script> {
    let at_once = |status| Fault::Status { status, retry_after: Some(0) };
    vec![
        Script::new("error_retry").step(
            Step::new()
                .text("It worked on the third attempt.")
                .fault(Attempts::Only(1), at_once(529))
                .fault(Attempts::Only(2), at_once(429)),
        ),
        Script::new("error400").step(Step::new().fault(Attempts::Every, Fault::status(400))),
        Script::new("drop_midstream").step(
            Step::new()
                .text("This text is cut on the first attempt, and whole on the next.")
                .fault(
                    Attempts::First(1),
                    Fault::cut_after(Place::Within { block: 0, deltas: 2 }, SILENCE),
                ),
        ),
        Script::new("drop_after_tool")
            .step(
                Step::new()
                    .text("Text before the tool.")
                    .tool_use(names.shell, shell("echo once >> side_effect.txt"))
                    .fault(
                        Attempts::First(1),
                        Fault::cut_after(Place::After { block: 1 }, SILENCE),
                    ),
            )
            .step(Step::new().text("Finished after a cut.")),
    ]
}

fn shell(command: &str) -> Value {
    json!({ "command": command, "description": "Runs a command" })
}

fn task(names: &ToolNames, child: &str) -> Value {
    let agent = names.agent;
    json!({
        "description": format!("Play {child}"),
        "prompt": format!("[[play:{child}]] Do your part."),
        agent: "general",
    })
}
