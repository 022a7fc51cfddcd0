//! Scripts that most tests of an agent need: each covers one situation of a session.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    fault::{Attempts, Fault, Place},
    script::{Script, Step, StopReason, directive},
};

/// Long enough for a client to process a block and to run a trivial tool.
const SILENCE: Duration = Duration::from_millis(800);

/// The agent's name for the tool that starts a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubagentTool {
    /// Claude Code from 2.1.
    Agent,
    /// Claude Code before that.
    Task,
}

impl SubagentTool {
    /// Returns the tool's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "Agent",
            Self::Task => "Task",
        }
    }
}

/// Returns the ready scripts, which use the tools of Claude Code on files in its folder.
///
/// | name | shows |
/// |---|---|
/// | `text` | one answer of plain text |
/// | `thinking` | thinking, redacted thinking, and thinking before a tool |
/// | `tools` | `Write`, `Read` and `Edit` of `notes.txt`, `Bash` that writes `copy.txt`, one that fails |
/// | `parallel` | three tools in one answer, of which the first is the slowest |
/// | `subagent` | a subagent in the foreground |
/// | `subagents_parallel` | two subagents at once |
/// | `nested` | a subagent that starts another |
/// | `background` | a subagent in the background, while the main conversation continues |
/// | `error_retry` | status 529 and 429 before the answer |
/// | `drop_midstream` | a connection cut within the second block |
/// | `drop_after_tool` | a connection cut after a tool call that writes `side_effect.txt` |
/// | `error_midstream` | a stream that reports an overload |
/// | `error400` | a request that is always refused |
/// | `maxtokens` | an answer truncated by the token limit |
///
/// `child`, `left`, `right` and `outer` are the scripts of the subagents.
pub fn ready_scripts(subagent_tool: SubagentTool) -> Vec<Script> {
    let mut scripts = answers();
    scripts.extend(tools());
    scripts.extend(subagents(subagent_tool));
    scripts.extend(faults());
    scripts
}

fn answers() -> Vec<Script> {
    vec![
        Script::new("text").step(
            Step::new().text("Every event is folded into one state; größer heißt nicht schöner."),
        ),
        Script::new("thinking")
            .step(
                Step::new()
                    .thinking("First the stream, then the file.", "c2lnbmF0dXJlLTE=")
                    .redacted_thinking("b3BhcXVlLWRhdGE=")
                    .text("I look at the folder.")
                    .tool_use("Bash", bash("echo thought", "Echo a word")),
            )
            .step(
                Step::new()
                    .thinking("Both agree.", "c2lnbmF0dXJlLTI=")
                    .text("They agree, after some thought."),
            ),
        Script::new("maxtokens")
            .step(Step::new().text("This answer is too long to").stop(StopReason::MaxTokens))
            .step(Step::new().text("end in one go.")),
    ]
}

fn tools() -> Vec<Script> {
    let notes = json!({ "file_path": "notes.txt", "content": "alpha\nbeta\ngamma\n" });
    let edit = json!({ "file_path": "notes.txt", "old_string": "beta", "new_string": "BETA" });
    vec![
        Script::new("tools")
            .step(Step::new().text("I write a file.").tool_use("Write", notes))
            .step(Step::new().tool_use("Read", json!({ "file_path": "notes.txt" })))
            .step(Step::new().text("Now I edit it.").tool_use("Edit", edit))
            .step(Step::new().tool_use("Bash", bash("cp notes.txt copy.txt", "Copy the file")))
            .step(Step::new().tool_use("Bash", bash("echo oops >&2; exit 3", "Fail on purpose")))
            .step(Step::new().text("One file written, edited and copied; one failure seen.")),
        Script::new("parallel")
            .step(
                Step::new()
                    .text("Three at once.")
                    .tool_use("Bash", bash("sleep 0.3; echo slow", "Slow"))
                    .tool_use("Bash", bash("echo fast", "Fast"))
                    .tool_use("Bash", bash("echo other", "Other")),
            )
            .step(Step::new().text("All three finished.")),
    ]
}

fn subagents(tool: SubagentTool) -> Vec<Script> {
    let start =
        |step: Step, child: &str, mode: Mode| step.tool_use(tool.name(), subagent(child, mode));
    let worker = |name: &str| {
        let command = format!("echo {name} > {name}.txt");
        Script::new(name)
            .step(
                Step::new()
                    .thinking("I am the subagent.", "c2lnbmF0dXJlLTM=")
                    .text(format!("The {name} starts."))
                    .tool_use("Bash", bash(&command, "Leave a mark")),
            )
            .step(Step::new().text(format!("The {name} is done.")))
    };

    let both = start(Step::new().text("Two subagents."), "left", Mode::Foreground);
    vec![
        Script::new("subagent")
            .step(start(Step::new().text("I delegate this."), "child", Mode::Foreground))
            .step(Step::new().text("The subagent has reported.")),
        Script::new("subagents_parallel")
            .step(start(both, "right", Mode::Foreground))
            .step(Step::new().text("Both have reported.")),
        Script::new("nested")
            .step(start(Step::new().text("I start the outer one."), "outer", Mode::Foreground))
            .step(Step::new().text("The nested run is finished.")),
        Script::new("background")
            .step(start(
                Step::new().text("I start one in the background."),
                "child",
                Mode::Background,
            ))
            .step(
                Step::new()
                    .text("Meanwhile I work.")
                    .tool_use("Bash", bash("echo main > main.txt", "Main work")),
            )
            .step(Step::new().text("My own work is done."))
            .step(Step::new().text("The one in the background has reported.")),
        Script::new("outer")
            .step(start(Step::new().text("The outer delegates."), "child", Mode::Foreground))
            .step(Step::new().text("The outer is done.")),
        worker("child"),
        worker("left"),
        worker("right"),
    ]
}

fn faults() -> Vec<Script> {
    let two_blocks = Step::new()
        .text("A finished block before the fault.")
        .text("This block is never finished.");
    let within_the_second = Place::Within { block: 1, deltas: 1 };
    vec![
        Script::new("error_retry").step(
            Step::new()
                .text("It worked on the third attempt.")
                .fault(Attempts::Only(1), Fault::status(529))
                .fault(Attempts::Only(2), Fault::rate_limit(0)),
        ),
        Script::new("drop_midstream")
            .step(
                two_blocks
                    .clone()
                    .fault(Attempts::First(1), Fault::cut_after(within_the_second, SILENCE)),
            )
            .step(Step::new().text("Here is the rest.")),
        Script::new("drop_after_tool")
            .step(
                Step::new()
                    .text("Text before the tool.")
                    .tool_use("Bash", bash("echo once >> side_effect.txt", "Side effect"))
                    .fault(
                        Attempts::First(1),
                        Fault::cut_after(Place::After { block: 1 }, SILENCE),
                    ),
            )
            .step(Step::new().text("Finished after a cut.")),
        Script::new("error_midstream")
            .step(two_blocks.fault(
                Attempts::First(1),
                Fault::overloaded(Place::Within { block: 0, deltas: 1 }),
            ))
            .step(Step::new().text("Finished after an error.")),
        Script::new("error400").step(Step::new().fault(Attempts::Every, Fault::status(400))),
    ]
}

#[derive(Clone, Copy)]
enum Mode {
    Foreground,
    Background,
}

fn bash(command: &str, description: &str) -> Value {
    json!({ "command": command, "description": description })
}

fn subagent(child: &str, mode: Mode) -> Value {
    json!({
        "description": format!("Play {child}"),
        "prompt": format!("{} Do your part.", directive(child)),
        "subagent_type": "general-purpose",
        "run_in_background": matches!(mode, Mode::Background),
    })
}
