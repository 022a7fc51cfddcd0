//! Scripts for Codex's own tools.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Attempts, Block, Fault, Place, Script, Step, StopReason};

/// Long enough for the agent to process what came before a cut.
const SILENCE: Duration = Duration::from_millis(300);

/// How a version names the tools of its subagents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodexTools {
    /// The namespace, which old versions do not have.
    pub namespace: Option<&'static str>,
    /// The tool that waits for subagents.
    pub wait: &'static str,
}

impl CodexTools {
    /// The newest version's.
    pub const NEWEST: Self = Self { namespace: Some("multi_agent_v1"), wait: "wait_agent" };

    /// Adds a call of one of these tools.
    fn call(self, step: Step, name: &str, input: Value) -> Step {
        match self.namespace {
            Some(namespace) => step.tool_use_in(namespace, name, &input),
            None => step.tool_use(name, input),
        }
    }

    fn spawn(self, step: Step, script: &str) -> Step {
        let message = format!("[[play:{script}]] Do your part.");
        self.call(step, "spawn_agent", json!({ "message": message }))
    }

    /// Waits until one of the subagents that were started has ended.
    fn wait_for_any(self, step: Step) -> Step {
        self.wait_for(step, &json!("{{agents}}"))
    }

    fn wait_for(self, step: Step, agents: &Value) -> Step {
        // Versions differ in the name of the field, and ignore the other one.
        let input = json!({ "targets": agents, "ids": agents, "timeout_ms": 20_000 });
        self.call(step, self.wait, input)
    }
}

/// Returns the scripts, for a version with these tools.
pub fn codex_scripts(tools: CodexTools) -> Vec<Script> {
    let mut all = plain();
    all.extend(commands());
    all.extend(patches());
    all.extend(faults());
    all.extend(subagents(tools));
    all.extend(code_mode());
    all
}

fn plain() -> Vec<Script> {
    let summary = |text: &str| json!({ "type": "summary_text", "text": text });
    let reasoning = |summary: Value, content: Value| {
        Block::Item(json!({ "type": "reasoning", "summary": summary, "content": content,
            "encrypted_content": "b3BhcXVl" }))
    };
    let parts = json!([summary("**Looking around**\n\nFirst."), summary("**Deciding**\n\nThen.")]);
    let raw = json!([{ "type": "reasoning_text", "text": "The raw thought, word by word." }]);
    let message = |text: &str, phase: &str| {
        let content = json!([{ "type": "output_text", "text": text }]);
        Block::Item(json!({ "type": "message", "role": "assistant", "phase": phase,
            "content": content }))
    };
    let search = json!({ "type": "web_search_call", "status": "completed",
        "action": { "type": "search", "query": "a scripted query" } });
    vec![
        one(
            "text",
            Step::new().text("Hello! This is a short answer in two sentences. Ünïcödé 🦀."),
        ),
        one("text2", Step::new().text("A second answer.")),
        one("text3", Step::new().text("A third answer.")),
        one("long_text", Step::new().text("A line of a long text.\n".repeat(80)).chunk_chars(40)),
        one(
            "two_texts",
            Step::new()
                .block(message("First I say this.", "commentary"))
                .block(message("And then this.", "final_answer")),
        ),
        one(
            "thinking",
            Step::new().thinking("**One part**\n\nOf a thought.", "c2ln").text("Thought."),
        ),
        one(
            "thinking_parts",
            Step::new().block(reasoning(parts, Value::Null)).text("Thought twice."),
        ),
        one("thinking_raw", Step::new().block(reasoning(json!([]), raw)).text("Thought aloud.")),
        one("thinking_hidden", Step::new().redacted_thinking("b3BhcXVl").text("Said at last.")),
        one("web_search", Step::new().block(Block::Item(search)).text("I found it.")),
        one("incomplete", Step::new().text("Half an ans").stop(StopReason::MaxTokens)),
    ]
}

fn commands() -> Vec<Script> {
    let done = Step::new().text("It is done.");
    let plan = |first: &str, second: &str| {
        json!({ "explanation": "Two steps", "plan": [
            { "step": "look", "status": first }, { "step": "write", "status": second }] })
    };
    vec![
        Script::new("tools")
            .step(run(Step::new().text("I look."), "printf 'one\\ntwo\\n'"))
            .step(run(Step::new().thinking("**Next**\n\nWrite.", "c2ln"), "echo made > made.txt"))
            .step(done.clone()),
        Script::new("review")
            .step(run(Step::new().text("I look."), "cat given.txt"))
            .step(run(Step::new().thinking("**Next**\n\nCount.", "c2ln"), "wc -l given.txt"))
            .step(Step::new().text("There is nothing to criticize.")),
        Script::new("failing")
            .step(run(Step::new().text("I try."), "echo before; echo wrong >&2; exit 3"))
            .step(done.clone()),
        Script::new("parallel")
            .step(
                ["sleep 0.5; echo slow", "echo fast", "sleep 0.2; echo middle"]
                    .iter()
                    .fold(Step::new().text("Three at once."), |step, it| run(step, it)),
            )
            .step(Step::new().text("All three came back.")),
        Script::new("parallel_same")
            .step(run(run(Step::new(), "echo same"), "echo same"))
            .step(done.clone()),
        Script::new("parallel_mixed")
            .step(run(Step::new(), "echo mixed").custom_tool_use("apply_patch", ADDED))
            .step(done.clone()),
        Script::new("empty_output").step(run(Step::new(), "true")).step(done.clone()),
        Script::new("long_output").step(run(Step::new(), "seq 1 60000")).step(done.clone()),
        Script::new("slow_output")
            .step(run(Step::new(), "for i in 1 2 3 4; do echo tick $i; sleep 0.2; done"))
            .step(done.clone()),
        Script::new("outliving")
            .step(Step::new().tool_use(
                "exec_command",
                json!({ "cmd": "echo begun; sleep 1; echo late", "yield_time_ms": 250 }),
            ))
            .step(Step::new().tool_use(
                "write_stdin",
                json!({ "session_id": "{{process}}", "chars": "", "yield_time_ms": 5_000 }),
            ))
            .step(done.clone()),
        Script::new("plan")
            .step(Step::new().tool_use("update_plan", plan("in_progress", "pending")))
            .step(Step::new().tool_use("update_plan", plan("completed", "completed")))
            .step(done.clone()),
        Script::new("view_image")
            .step(Step::new().tool_use("view_image", json!({ "path": "dot.png" })))
            .step(done.clone()),
        Script::new("unknown_tool")
            .step(Step::new().tool_use("no_such_tool", json!({ "a": 1 })))
            .step(done.clone()),
        Script::new("bad_arguments")
            .step(Step::new().block(Block::WrittenToolUse {
                name: "exec_command".to_owned(),
                arguments: "{\"cmd\": \"ls".to_owned(),
            }))
            .step(done.clone()),
        Script::new("ask_twice")
            .step(ask(Step::new(), "touch allowed.txt"))
            .step(ask(Step::new(), "touch refused.txt"))
            .step(done),
    ]
}

const ADDED: &str = "*** Begin Patch\n*** Add File: added.txt\n+alpha\n+beta\n*** End Patch\n";

fn patches() -> Vec<Script> {
    let changed = "*** Begin Patch\n*** Update File: given.txt\n@@\n-old line\n+new line\n*** Add \
                   File: second.txt\n+gamma\n*** End Patch\n";
    let misfit = "*** Begin Patch\n*** Update File: given.txt\n@@\n-no such line\n+x\n*** End \
                  Patch\n";
    let deleted = "*** Begin Patch\n*** Delete File: given.txt\n*** End Patch\n";
    let patch = |name: &str, input: &str| {
        Script::new(name)
            .step(Step::new().text("I change a file.").custom_tool_use("apply_patch", input))
            .step(Step::new().text("It is changed."))
    };
    vec![
        patch("patch", changed),
        patch("patch_adds", ADDED),
        patch("patch_deletes", deleted),
        patch("patch_fails", misfit),
    ]
}

fn faults() -> Vec<Script> {
    let words = "This text is cut on the first attempt, and whole on the next.";
    let middle = Fault::cut_after(Place::Within { block: 0, deltas: 2 }, SILENCE);
    let thought = "A thought that is cut off in the middle.";
    vec![
        one(
            "error_retry",
            Step::new()
                .text("It worked on the third attempt.")
                .fault(Attempts::Only(1), Fault::status(500))
                .fault(Attempts::Only(2), Fault::status(503)),
        ),
        one("error400", Step::new().fault(Attempts::Every, Fault::status(400))),
        one("error500", Step::new().fault(Attempts::Every, Fault::status(500))),
        one("error429", Step::new().fault(Attempts::Every, Fault::rate_limit(0))),
        one(
            "failed_response",
            Step::new()
                .text("Never heard.")
                .fault(Attempts::Every, Fault::ErrorEvent { at: Place::Start, status: 400 }),
        ),
        one("drop_midstream", Step::new().text(words).fault(Attempts::First(1), middle.clone())),
        one("drop_always", Step::new().text(words).fault(Attempts::Every, middle.clone())),
        one(
            "drop_in_thinking",
            Step::new().thinking(thought, "c2ln").text("Whole.").fault(Attempts::First(1), middle),
        ),
        Script::new("drop_after_tool")
            .step(
                run(Step::new().text("Text before the tool."), "echo once >> side_effect.txt")
                    .fault(
                        Attempts::First(1),
                        Fault::cut_after(Place::After { block: 1 }, SILENCE),
                    ),
            )
            .step(Step::new().text("Finished after a cut.")),
        Script::new("drop_after_text")
            .step(
                run(Step::new().text("A text that was complete."), "echo after").fault(
                    Attempts::First(1),
                    Fault::cut_after(Place::After { block: 0 }, SILENCE),
                ),
            )
            .step(Step::new().text("Finished after a cut.")),
        Script::new("error_after_tool")
            .step(run(Step::new().text("First a tool."), "echo done"))
            .step(Step::new().fault(Attempts::Every, Fault::status(400))),
        // Held until it is interrupted.
        one(
            "held_text",
            Step::new()
                .text("This text is never finished, whatever happens.")
                .hold(Place::Within { block: 0, deltas: 2 }, "never"),
        ),
        one(
            "held_thinking",
            Step::new()
                .thinking("This thought is never finished, whatever happens.", "c2ln")
                .text("Never said.")
                .hold(Place::Within { block: 0, deltas: 2 }, "never"),
        ),
        Script::new("held_tool")
            .step(run(Step::new().text("This takes long."), "echo begun; touch begun; sleep 40"))
            .step(Step::new().text("It is over.")),
        Script::new("slow_tool")
            .step(run(Step::new().text("This takes long."), "echo begun; sleep 2; echo end"))
            .step(Step::new().text("It is over.")),
        Script::new("held_parallel")
            .step(run(run(Step::new(), "echo begun; sleep 1; touch begun; sleep 40"), "echo fast"))
            .step(Step::new().text("It is over.")),
        Script::new("steered")
            .step(run(Step::new().text("I begin."), "touch begun; sleep 1; echo end"))
            .step(Step::new().text("I heard both.")),
    ]
}

fn subagents(tools: CodexTools) -> Vec<Script> {
    let worker = |name: &str| {
        Script::new(name)
            .step(run(Step::new().text(format!("{name} works.")), &format!("echo {name}")))
            .step(Step::new().text(format!("{name} has finished.")))
    };
    let close =
        |step| tools.call(step, "close_agent", json!({ "id": "{{agent}}", "target": "{{agent}}" }));
    vec![
        Script::new("subagent")
            .step(tools.spawn(Step::new().text("I delegate this."), "child"))
            .step(tools.wait_for_any(Step::new()))
            .step(close(Step::new()))
            .step(Step::new().text("The subagent has reported.")),
        Script::new("subagents_parallel")
            .step(tools.spawn(tools.spawn(Step::new().text("Two subagents."), "left"), "right"))
            // Old files report the end of a subagent only to a caller that waits for it.
            .step(tools.wait_for(Step::new(), &json!(["{{agent}}"])))
            .step(tools.wait_for(Step::new(), &json!(["{{first agent}}"])))
            .step(Step::new().text("Both have reported.")),
        Script::new("subagent_error")
            .step(tools.spawn(Step::new().text("I delegate this."), "error400"))
            .step(tools.wait_for_any(Step::new()))
            .step(Step::new().text("It did not work.")),
        Script::new("held_subagent")
            .step(tools.spawn(Step::new().text("I delegate this."), "slow_tool"))
            .step(tools.wait_for_any(Step::new()))
            .step(Step::new().text("It is over.")),
        worker("child"),
        worker("left"),
        worker("right"),
    ]
}

fn code_mode() -> Vec<Script> {
    let script = |name: &str, input: &str| {
        Script::new(name)
            .step(Step::new().text("I write a script.").custom_tool_use("exec", input))
            .step(Step::new().text("The script has run."))
    };
    let spawn = |step: Step, name: &str, child: &str| {
        let message = format!("[[play:{child}]] Do your part.");
        let input = json!({ "task_name": name, "message": message, "fork_turns": "none" });
        step.tool_use_in("collaboration", "spawn_agent", &input)
    };
    let wait =
        || Step::new().tool_use_in("collaboration", "wait_agent", &json!({ "timeout_ms": 15_000 }));
    let echo = |word: &str| {
        format!("const r = await tools.exec_command({{cmd: 'echo {word}'}});\ntext(r.output);\n")
    };
    vec![
        script("code_shell", &echo("one")),
        script(
            "code_parallel",
            "const rs = await Promise.all([tools.exec_command({cmd: 'sleep 0.5; echo slow'}), \
             tools.exec_command({cmd: 'echo fast'})]);\nfor (const r of rs) text(r.output);\n",
        ),
        Script::new("code_child")
            .step(Step::new().custom_tool_use("exec", &echo("child")))
            .step(Step::new().text("The child has finished.")),
        Script::new("code_subagent")
            .step(spawn(Step::new().text("I delegate."), "helper", "code_child"))
            .step(wait())
            .step(Step::new().text("The helper has reported.")),
        Script::new("code_outer")
            .step(spawn(Step::new().text("The outer delegates."), "inner", "code_child"))
            .step(wait())
            .step(Step::new().text("The outer is done.")),
        Script::new("code_nested")
            .step(spawn(Step::new().text("I delegate."), "outer", "code_outer"))
            .step(wait())
            .step(Step::new().text("All have reported.")),
    ]
}

fn one(name: &str, step: Step) -> Script {
    Script::new(name).step(step)
}

fn run(step: Step, command: &str) -> Step {
    step.tool_use("exec_command", json!({ "cmd": command }))
}

/// Runs a command outside the sandbox, for which the agent asks.
fn ask(step: Step, command: &str) -> Step {
    step.tool_use(
        "exec_command",
        json!({ "cmd": command, "sandbox_permissions": "require_escalated",
            "justification": "May I?" }),
    )
}
