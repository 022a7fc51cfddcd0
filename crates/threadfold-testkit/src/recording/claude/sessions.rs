//! Scenarios of whole sessions: several turns, resuming, compaction, commands, skills.

use serde_json::json;
use threadfold_fold::parity::RunGap;

use super::{Act, Moment, Run, Scenario, scenario::RunSession};
use crate::{Place, Script, Step};

pub(super) fn scenarios() -> Vec<Scenario> {
    let turns =
        || [Act::play("tools"), Act::wait_for_result(), Act::play("text"), Act::wait_for_result()];
    let mut all = vec![
        Scenario::acts("multi", turns()),
        Scenario::of(
            "multi_replay",
            Run::with_acts(turns()).arguments(&["--replay-user-messages"]),
        ),
        queued("queued"),
        queued("queued_replay")
            .run(|run| run.arguments(&["--replay-user-messages"]))
            .may_lack(RunGap::QueuedPrompt),
        Scenario::of(
            "max_turns",
            Run::with_prompt("[[play:tools]] please run").arguments(&["--max-turns", "2"]),
        ),
        slash_commands(),
        clear(),
        custom_command(),
        skill(),
        Scenario::acts(
            "compact",
            [
                Act::play("tools"),
                Act::wait_for_result(),
                Act::say("/compact"),
                Act::wait_for_result(),
                Act::play("text"),
                Act::wait_for_result(),
            ],
        ),
    ];
    all.extend(resumed());
    all
}

/// A second prompt while the first one is still being answered.
fn queued(name: &'static str) -> Scenario {
    let acts = [
        Act::play("held"),
        Act::Wait(Moment::SECOND_BLOCK),
        Act::play("text"),
        Act::Release("later"),
        Act::wait_for_result(),
        Act::Linger(Moment::RESULT, std::time::Duration::from_secs(4)),
    ];
    let slow = json!({"command": "sleep 1; echo slow", "description": "Be slow"});
    Scenario::acts(name, acts).script(
        Script::new("held")
            .step(
                Step::new()
                    .text("A first text.")
                    .text("A second text, which takes its time.")
                    .tool_use("Bash", slow)
                    .hold(Place::Within { block: 1, deltas: 2 }, "later"),
            )
            .step(Step::new().text("The first prompt is answered.")),
    )
}

fn slash_commands() -> Scenario {
    let commands = ["/cost", "/usage", "/context", "/no-such-command"];
    let mut acts = vec![Act::play("text"), Act::wait_for_result()];
    acts.extend(commands.iter().flat_map(|it| [Act::say(it), Act::wait_for_result()]));
    acts.extend([Act::play("text"), Act::wait_for_result()]);
    Scenario::acts("slash_commands", acts)
}

fn clear() -> Scenario {
    Scenario::acts(
        "clear",
        [
            Act::play("tools"),
            Act::wait_for_result(),
            Act::say("/clear"),
            Act::wait_for_result(),
            Act::play("text"),
            Act::wait_for_result(),
        ],
    )
}

fn custom_command() -> Scenario {
    let text = "---\ndescription: Greets\n---\n[[play:text]] Greet $ARGUMENTS politely.\n";
    Scenario::acts("custom_command", [Act::say("/greet the world"), Act::wait_for_result()])
        .file(".claude/commands/greet.md", text)
}

fn skill() -> Scenario {
    let text = "---\nname: greet\ndescription: Greets somebody\n---\nSay hello to $ARGUMENTS.\n";
    Scenario::play("skill").needs("Skill").file(".claude/skills/greet/SKILL.md", text).script(
        Script::new("skill")
            .step(
                Step::new()
                    .text("A skill.")
                    .tool_use("Skill", json!({"skill": "greet", "args": "the world"})),
            )
            .step(Step::new().text("Greeted.")),
    )
}

/// Sessions that a second run continues.
fn resumed() -> Vec<Scenario> {
    let again = |script: &str, session| {
        Run::with_prompt(&format!("[[play:{script}]] please go on")).on(session)
    };
    let scenarios = [
        ("resume", "tools", again("text", RunSession::Resumed)),
        ("resume_subagents", "nested", again("subagents_parallel", RunSession::Resumed)),
        ("fork", "tools", again("text", RunSession::Forked)),
        ("fork_subagents", "nested", again("subagent", RunSession::Forked)),
        ("resume_compact", "tools", Run::with_prompt("/compact").on(RunSession::Resumed)),
    ];
    let scenario = |(name, first, second): (&'static str, &str, Run)| {
        let first = Run::with_prompt(&format!("[[play:{first}]] please run"));
        Scenario::of(name, first).then(second).may_lack(RunGap::EarlierTurns)
    };
    scenarios.map(scenario).into()
}
