//! Scenarios of Codex, for any version, in both of its live views.
//!
//! What a version can do is probed: [`Abilities`] holds the tools that it offers to the model. The
//! stream of a scenario is what all of its processes emitted, one after the other; in that of an
//! app-server, each line also has the direction. The transcript is the tree of rollouts.

mod act;
mod run;
mod scenario;

use std::collections::BTreeSet;

use serde_json::Value;

pub use self::{
    act::{Act, Stop},
    run::record,
    scenario::{Scenario, scenarios},
};
use crate::{
    AgentHome, Codex, CodexModel, CodexOptions, CodexTools, Script, ScriptedModel, Step,
    TestkitError,
};

/// What a version of Codex can do.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// The tools that it offers to a model that calls them directly.
    pub tools: BTreeSet<String>,
    /// How it names the tools of subagents.
    pub subagent_tools: CodexTools,
    /// It knows a model that writes scripts.
    pub has_code_mode: bool,
}

impl Abilities {
    /// Probes a version with two short runs.
    pub fn probe(codex: &Codex) -> Result<Self, TestkitError> {
        let tools = offered(codex, CodexModel::Direct)?;
        let namespace = match tools.contains("spawn_agent") {
            true => None,
            // Newer versions offer them once the model has searched for them.
            false => CodexTools::NEWEST.namespace,
        };
        let wait = if tools.contains("wait") { "wait" } else { CodexTools::NEWEST.wait };
        Ok(Self {
            tools,
            subagent_tools: CodexTools { namespace, wait },
            has_code_mode: offered(codex, CodexModel::CodeMode)?.contains("exec"),
        })
    }
}

fn offered(codex: &Codex, model: CodexModel) -> Result<BTreeSet<String>, TestkitError> {
    let script = Script::new("probe").step(Step::new().text("Yes."));
    let scripted = ScriptedModel::builder().script(script).start()?;
    let home = AgentHome::new()?;
    let options = CodexOptions::new(&home, scripted.base_url(), codex.version()).model(model);
    let arguments = ["--json", "--skip-git-repo-check", "[[play:probe]]"];
    codex.exec(&options, &arguments)?.finish()?;
    let mut names = BTreeSet::new();
    for request in scripted.requests() {
        let request = request.json();
        collect_names(&request["tools"], &mut names);
        // Code mode announces its tools in the conversation.
        for item in request["input"].as_array().into_iter().flatten() {
            collect_names(&item["tools"], &mut names);
        }
    }
    Ok(names)
}

/// Adds the names of tools, also of those in namespaces.
fn collect_names(tools: &Value, names: &mut BTreeSet<String>) {
    for tool in tools.as_array().into_iter().flatten() {
        names.extend(tool["name"].as_str().map(str::to_owned));
        collect_names(&tool["tools"], names);
    }
}
