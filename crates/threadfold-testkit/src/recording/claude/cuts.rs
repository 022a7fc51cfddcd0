//! Scenarios that are stopped: by a control request, by signals, by a kill.

use serde_json::json;
use threadfold_fold::parity::RunGap;

use super::{Act, Moment, Run, Scenario, scenario::RunSession, subagents::call};
use crate::{Place, Script, Step, SubagentTool};

/// How a run is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Request,
    Interrupt,
    Terminate,
    Kill,
}

impl Stop {
    fn act(self) -> Act {
        match self {
            Self::Request => Act::Request("interrupt"),
            Self::Interrupt => Act::Interrupt,
            Self::Terminate => Act::Terminate,
            Self::Kill => Act::Kill,
        }
    }
}

pub(super) fn scenarios(tool: SubagentTool) -> Vec<Scenario> {
    let mut all = vec![
        in_text("interrupt_text", Stop::Request),
        in_tool("interrupt_tool", Stop::Request),
        in_parallel("interrupt_parallel", Stop::Request),
        in_subagent("interrupt_subagent", Stop::Request, tool),
        in_subagent_tool("interrupt_subagent_tool", Stop::Request, tool),
        in_text("sigint_text", Stop::Interrupt),
        in_tool("sigint_tool", Stop::Interrupt),
        in_subagent("sigint_subagent", Stop::Interrupt, tool),
        in_subagent_tool("sigint_subagent_tool", Stop::Interrupt, tool),
        in_tool("sigterm_tool", Stop::Terminate),
        in_text("kill_text", Stop::Kill),
        in_tool("kill_tool", Stop::Kill),
        in_subagent("kill_subagent", Stop::Kill, tool),
        in_subagent_tool("kill_subagent_tool", Stop::Kill, tool),
    ];
    let continued = [
        in_text("interrupt_then_continue", Stop::Request),
        in_tool("interrupt_tool_then_continue", Stop::Request),
    ];
    all.extend(
        continued.map(|it| it.run(|run| run.act(Act::play("text")).act(Act::wait_for_result()))),
    );
    let resumed = Run::with_prompt("[[play:text]] please go on").on(RunSession::Resumed);
    all.push(
        in_tool("resume_after_kill", Stop::Kill)
            .then(resumed.clone())
            .may_lack(RunGap::EarlierTurns),
    );
    all.push(
        in_subagent_tool("resume_after_kill_subagent", Stop::Kill, tool)
            .then(resumed)
            .may_lack(RunGap::EarlierTurns),
    );
    all
}

/// Plays a script of the same name up to a moment, then stops it.
fn stopped(name: &'static str, moment: Act, stop: Stop) -> Scenario {
    let acts = match stop {
        Stop::Request => vec![Act::play(name), moment, stop.act(), Act::wait_for_result()],
        // Before this, a signal would leave no transcript to compare with.
        _ => vec![moment, Act::Wait(Moment::Transcript(name)), stop.act()],
    };
    let scenario = match stop {
        Stop::Request => Scenario::acts(name, acts),
        _ => acts.into_iter().fold(Scenario::play(name), |it, act| it.run(|run| run.act(act))),
    };
    match stop {
        // Claude Code writes its files behind its stream.
        Stop::Kill | Stop::Terminate => scenario.may_lack(RunGap::FileEndsAtKill),
        // Old versions die of the signal without a word.
        Stop::Interrupt => {
            scenario.may_lack(RunGap::FileEndsAtSignal).may_lack(RunGap::FileEndsAtKill)
        }
        Stop::Request => scenario,
    }
}

fn held_step() -> Step {
    let middle = Place::Within { block: 1, deltas: 2 };
    Step::new()
        .text("A finished block.")
        .text("This text is never finished, whatever happens.")
        .hold(middle, "never")
}

fn in_text(name: &'static str, stop: Stop) -> Scenario {
    stopped(name, Act::Wait(Moment::SECOND_BLOCK), stop).script(Script::new(name).step(held_step()))
}

fn slow_step() -> Step {
    let slow = json!({"command": "echo begun; touch begun; sleep 40", "description": "Be slow"});
    Step::new().text("This takes long.").tool_use("Bash", slow)
}

fn in_tool(name: &'static str, stop: Stop) -> Scenario {
    let script = Script::new(name).step(slow_step()).step(Step::new().text("It is over."));
    stopped(name, Act::wait_for_file("begun"), stop).script(script)
}

fn in_parallel(name: &'static str, stop: Stop) -> Scenario {
    let fast = json!({"command": "echo fast", "description": "Be fast"});
    let step = slow_step().tool_use("Bash", fast);
    stopped(name, Act::wait_for_file("begun"), stop).script(Script::new(name).step(step))
}

/// Stops while a subagent's answer is held.
fn in_subagent(name: &'static str, stop: Stop, tool: SubagentTool) -> Scenario {
    let mark = json!({"command": "touch begun", "description": "Leave a mark"});
    let step = call(
        Step::new().text("I delegate."),
        tool,
        "held_child",
        &json!({"run_in_background": false}),
    );
    stopped(name, Act::wait_for_file("begun"), stop)
        .script(Script::new(name).step(step).step(Step::new().text("It is over.")))
        .script(
            Script::new("held_child")
                .step(Step::new().text("The child starts.").tool_use("Bash", mark))
                .step(held_step()),
        )
        .may_lack(RunGap::SubagentInterruption)
        .may_lack(RunGap::StreamEndsAtKill)
}

/// Stops while a subagent's tool runs.
fn in_subagent_tool(name: &'static str, stop: Stop, tool: SubagentTool) -> Scenario {
    let step = call(
        Step::new().text("I delegate."),
        tool,
        "slow_child",
        &json!({"run_in_background": false}),
    );
    stopped(name, Act::wait_for_file("begun"), stop)
        .script(Script::new(name).step(step).step(Step::new().text("It is over.")))
        .script(Script::new("slow_child").step(slow_step()))
        .may_lack(RunGap::SubagentInterruption)
        .may_lack(RunGap::StreamEndsAtKill)
}
