//! Scenarios in which the model's provider fails.

use std::time::Duration;

use serde_json::json;

use super::{Scenario, subagents::call};
use crate::{Attempts, Fault, Place, Script, Step, SubagentTool};

/// Long enough for a client to process a block.
const SILENCE: Duration = Duration::from_millis(600);
/// Two retries are enough to show what happens.
const RETRIES: (&str, &str) = ("CLAUDE_CODE_MAX_RETRIES", "2");

pub(super) fn scenarios(tool: SubagentTool) -> Vec<Scenario> {
    let echo = json!({"command": "echo done", "description": "Echo"});
    let all = vec![
        Scenario::play("drop_midstream"),
        Scenario::play("drop_after_tool"),
        Scenario::play("error_midstream"),
        Scenario::play("error_retry"),
        Scenario::play("error400"),
        Scenario::play("error500").script(
            Script::new("error500").step(Step::new().fault(Attempts::Every, Fault::status(500))),
        ),
        Scenario::play("error_after_tool").script(
            Script::new("error_after_tool")
                .step(Step::new().text("A tool first.").tool_use("Bash", echo.clone()))
                .step(Step::new().fault(Attempts::Every, Fault::status(400))),
        ),
        Scenario::play("drop_in_tool").script(
            Script::new("drop_in_tool")
                .step(Step::new().text("A tool.").tool_use("Bash", echo.clone()).fault(
                    Attempts::First(1),
                    Fault::cut_after(Place::Within { block: 1, deltas: 1 }, SILENCE),
                ))
                .step(Step::new().text("After the cut.")),
        ),
        Scenario::play("drop_at_start").script(
            Script::new("drop_at_start")
                .step(
                    Step::new()
                        .text("At last.")
                        .fault(Attempts::First(1), Fault::cut_after(Place::Start, SILENCE)),
                )
                .step(Step::new().text("After the cut.")),
        ),
        Scenario::play("drop_always").script(Script::new("drop_always").step(
            Step::new().text("This text never ends well.").fault(
                Attempts::Every,
                Fault::cut_after(Place::Within { block: 0, deltas: 1 }, SILENCE),
            ),
        )),
        Scenario::play("drop_in_subagent")
            .script(
                Script::new("drop_in_subagent")
                    .step(call(
                        Step::new().text("I delegate."),
                        tool,
                        "dropped",
                        &json!({"run_in_background": false}),
                    ))
                    .step(Step::new().text("It has reported.")),
            )
            .script(
                Script::new("dropped")
                    .step(Step::new().text("The child starts.").tool_use("Bash", echo).fault(
                        Attempts::First(1),
                        Fault::cut_after(Place::After { block: 1 }, SILENCE),
                    ))
                    .step(Step::new().text("The child is done.")),
            ),
    ];
    let (name, value) = RETRIES;
    all.into_iter().map(|it| it.run(|run| run.variable(name, value))).collect()
}
