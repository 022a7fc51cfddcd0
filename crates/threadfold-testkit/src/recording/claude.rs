//! Scenarios of Claude Code, for any version.
//!
//! What a version can do is probed, not listed: [`Abilities`] holds the tools that it offers to the
//! model, and the options that it has. A scenario that needs more is left out.

mod act;
mod cuts;
mod faults;
mod plain;
mod run;
mod scenario;
mod sessions;
mod subagents;

use std::collections::BTreeSet;

use serde_json::Value;

pub use self::{
    act::{Act, Moment},
    run::record,
    scenario::{Run, Scenario},
};
use crate::{
    AgentHome, ClaudeCode, Input, RunOptions, Script, ScriptedModel, Step, SubagentTool,
    TestkitError,
};

/// What a version of Claude Code can do.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// The tools that it offers to the model or lists in its stream.
    pub tools: BTreeSet<String>,
    /// The tool that starts a subagent.
    pub subagent_tool: SubagentTool,
    /// It can forward the text of subagents.
    pub forwards_text: bool,
}

impl Abilities {
    /// Probes a version with one short run and its help.
    pub fn probe(claude: &ClaudeCode) -> Result<Self, TestkitError> {
        let model = ScriptedModel::builder()
            .script(Script::new("probe").step(Step::new().text("Yes.")))
            .start()?;
        let home = AgentHome::new()?;
        let input = Input::Prompt("[[play:probe]]".to_owned());
        let output = claude.run(&RunOptions::new(&home, model.base_url(), input))?;

        let init = output.lines.iter().filter_map(|it| serde_json::from_slice::<Value>(it).ok());
        let listed: Vec<Value> = init
            .filter(|it| it["subtype"] == "init")
            .flat_map(|it| it["tools"].as_array().cloned().unwrap_or_default())
            .collect();
        let requests: Vec<Value> = model.requests().iter().map(|it| it.json()).collect();
        let offered: BTreeSet<String> = requests
            .iter()
            .flat_map(|it| it["tools"].as_array().into_iter().flatten())
            .filter_map(|it| it["name"].as_str().map(str::to_owned))
            .collect();
        // The stream lists the tool as `Task` in versions that call it `Agent`.
        let subagent_tool = match offered.contains(SubagentTool::Agent.name()) {
            true => SubagentTool::Agent,
            false => SubagentTool::Task,
        };
        let listed = listed.iter().filter_map(|it| it.as_str().map(str::to_owned));
        Ok(Self {
            tools: offered.into_iter().chain(listed).collect(),
            subagent_tool,
            forwards_text: claude.help()?.contains("--forward-subagent-text"),
        })
    }
}

/// Returns the scenarios that a version with these abilities can play.
pub fn scenarios(abilities: &Abilities) -> Vec<Scenario> {
    let tool = abilities.subagent_tool;
    let mut all = plain::scenarios();
    all.extend(subagents::scenarios(tool));
    all.extend(cuts::scenarios(tool));
    all.extend(faults::scenarios(tool));
    all.extend(sessions::scenarios());
    all.retain(|it| it.is_possible(abilities));
    all
}
