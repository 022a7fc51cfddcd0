//! Scenarios with subagents: in the foreground, in the background, nested, failing.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Act, Moment, Run, Scenario};
use crate::{Attempts, Fault, Script, Step, SubagentTool};

/// Long enough for a subagent in the background to end.
const BACKGROUND: Duration = Duration::from_secs(8);

/// Calls a subagent that plays a script.
pub(super) fn call(step: Step, tool: SubagentTool, child: &str, more: &Value) -> Step {
    let mut input = json!({
        "description": format!("Play {child}"),
        "prompt": format!("[[play:{child}]] Do your part."),
        "subagent_type": "general-purpose",
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    step.tool_use(tool.name(), input)
}

fn foreground() -> Value {
    json!({"run_in_background": false})
}

fn background() -> Value {
    json!({"run_in_background": true})
}

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "Work"})
}

pub(super) fn scenarios(tool: SubagentTool) -> Vec<Scenario> {
    let unforwarded = |name, script: &str| {
        Scenario::of(name, Run::with_prompt(&format!("[[play:{script}]] please run")).unforwarded())
    };
    let whole = Run::with_prompt("[[play:subagents_parallel]] please run").whole_messages();
    vec![
        Scenario::play("subagent"),
        Scenario::play("subagents_parallel"),
        Scenario::play("nested"),
        unforwarded("subagent_unforwarded", "subagent"),
        unforwarded("subagents_parallel_unforwarded", "subagents_parallel"),
        unforwarded("nested_unforwarded", "nested"),
        Scenario::of("subagents_parallel_whole", whole),
        Scenario::play("background"),
        wait_for_background("background_stdin", "background"),
        unforwarded("background_unforwarded", "background"),
        default_mode(tool),
        nested_background(tool),
        outliving(tool),
        failing(tool),
        failing_in_background(tool),
        unknown_type(tool),
        background_shell(),
        send_message(tool),
    ]
}

/// Prompts on standard input, and keeps it open until the background is quiet.
fn wait_for_background(name: &'static str, script: &str) -> Scenario {
    let linger = Act::Linger(Moment::RESULT, BACKGROUND);
    Scenario::acts(name, [Act::play(script), Act::wait_for_result(), linger.clone(), linger])
}

/// A call that leaves it to the version whether the subagent runs in the background.
fn default_mode(tool: SubagentTool) -> Scenario {
    wait_for_background("subagent_default_mode", "default_mode").script(
        Script::new("default_mode")
            .step(call(Step::new().text("As you like."), tool, "child", &Value::Null))
            .step(Step::new().text("Started or done."))
            .step(Step::new().text("Done in the end.")),
    )
}

fn nested_background(tool: SubagentTool) -> Scenario {
    let inner = call(Step::new().text("Two inner ones."), tool, "left", &background());
    wait_for_background("nested_background", "nested_background")
        .script(
            Script::new("nested_background")
                .step(call(Step::new().text("An outer one."), tool, "outer_bg", &background()))
                .step(Step::new().text("Meanwhile.").tool_use("Bash", bash("sleep 3; echo main")))
                .step(Step::new().text("The main one is done."))
                .step(Step::new().text("Noted."))
                .step(Step::new().text("Noted again.")),
        )
        .script(
            Script::new("outer_bg")
                .step(call(inner, tool, "right", &background()))
                .step(Step::new().tool_use("Bash", bash("sleep 1; echo outer")))
                .step(Step::new().text("The outer one is done."))
                .step(Step::new().text("The outer one heard of the first."))
                .step(Step::new().text("The outer one heard of the second.")),
        )
}

/// A nested subagent in the background that outlives its caller.
fn outliving(tool: SubagentTool) -> Scenario {
    wait_for_background("nested_outlives", "nested_outlives")
        .script(
            Script::new("nested_outlives")
                .step(call(Step::new().text("An outer one."), tool, "outer_ends", &background()))
                .step(Step::new().text("Meanwhile.").tool_use("Bash", bash("sleep 5; echo main")))
                .step(Step::new().text("The main one is done."))
                .step(Step::new().text("Noted."))
                .step(Step::new().text("Noted again.")),
        )
        .script(
            Script::new("outer_ends")
                .step(call(Step::new().text("It delegates."), tool, "sleeper", &background()))
                .step(Step::new().text("The outer one ends its turn."))
                .step(Step::new().text("The outer one wakes up.")),
        )
        .script(
            Script::new("sleeper")
                .step(Step::new().text("I sleep.").tool_use("Bash", bash("sleep 2; echo slept")))
                .step(Step::new().text("The sleeper is done.")),
        )
}

/// A child whose second request is always refused.
fn broken_child() -> Script {
    Script::new("broken")
        .step(Step::new().text("I try.").tool_use("Bash", bash("echo tried")))
        .step(Step::new().fault(Attempts::Every, Fault::status(400)))
}

fn failing(tool: SubagentTool) -> Scenario {
    Scenario::play("subagent_error").script(broken_child()).script(
        Script::new("subagent_error")
            .step(call(Step::new().text("I delegate."), tool, "broken", &foreground()))
            .step(Step::new().text("It failed.")),
    )
}

fn failing_in_background(tool: SubagentTool) -> Scenario {
    wait_for_background("background_error", "background_error").script(broken_child()).script(
        Script::new("background_error")
            .step(call(Step::new().text("I delegate."), tool, "broken", &background()))
            .step(Step::new().tool_use("Bash", bash("sleep 2; echo main")))
            .step(Step::new().text("The main one is done."))
            .step(Step::new().text("It failed.")),
    )
}

fn unknown_type(tool: SubagentTool) -> Scenario {
    let more = json!({"subagent_type": "no-such-type", "run_in_background": false});
    Scenario::play("unknown_subagent").script(
        Script::new("unknown_subagent")
            .step(call(Step::new().text("I delegate."), tool, "child", &more))
            .step(Step::new().text("There is no such type.")),
    )
}

fn background_shell() -> Scenario {
    let start = json!({"command": "sleep 1; echo late", "run_in_background": true,
        "description": "Work in the background"});
    wait_for_background("background_shell", "background_shell").script(
        Script::new("background_shell")
            .step(Step::new().text("I start it.").tool_use("Bash", start))
            .step(Step::new().tool_use("Bash", bash("sleep 2; echo main")))
            .step(Step::new().text("My work is done."))
            .step(Step::new().text("The shell has ended.")),
    )
}

/// A message to a subagent that has finished, which continues it.
fn send_message(tool: SubagentTool) -> Scenario {
    let named = json!({"name": "namer", "run_in_background": false});
    let message = json!({"to": "namer", "summary": "again please", "type": "message",
        "recipient": "namer", "message": "[[play:right]] Once more.",
        "content": "[[play:right]] Once more."});
    wait_for_background("send_message", "send_message").needs("SendMessage").script(
        Script::new("send_message")
            .step(call(Step::new().text("I delegate."), tool, "left", &named))
            .step(Step::new().text("Once more.").tool_use("SendMessage", message))
            .step(Step::new().tool_use("Bash", bash("sleep 2; echo main")))
            .step(Step::new().text("Both are done."))
            .step(Step::new().text("Noted.")),
    )
}
