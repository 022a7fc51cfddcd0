//! The scenarios: which view, which script, what is done to the agent.

use serde_json::{Value, json};
use threadfold_fold::parity::RunGap;

use super::{Abilities, Act, Stop};
use crate::CodexModel;

/// A situation to record.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(super) name: String,
    pub(super) view: View,
    pub(super) model: CodexModel,
    pub(super) acts: Vec<Act>,
    /// Further parameters of the thread.
    pub(super) thread: Value,
    /// What one side may lack in such a run.
    pub(super) may_lack: Vec<RunGap>,
    /// The tool without which it cannot be played.
    needs: Option<&'static str>,
}

/// A live view of Codex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// `codex exec --json`
    Exec,
    /// `codex app-server`
    AppServer,
}

impl Scenario {
    /// Returns the name: the view, then what happens.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn new(view: View, name: &str, acts: impl IntoIterator<Item = Act>) -> Self {
        let prefix = match view {
            View::Exec => "exec",
            View::AppServer => "app",
        };
        Self {
            name: format!("{prefix}_{name}"),
            view,
            model: CodexModel::Direct,
            acts: acts.into_iter().collect(),
            thread: json!({}),
            may_lack: Vec::new(),
            needs: None,
        }
    }

    fn may_lack(mut self, gaps: &[RunGap]) -> Self {
        self.may_lack.extend(gaps);
        self
    }

    fn code_mode(mut self) -> Self {
        self.model = CodexModel::CodeMode;
        self
    }

    fn needs(mut self, tool: &'static str) -> Self {
        self.needs = Some(tool);
        self
    }

    fn thread(mut self, params: Value) -> Self {
        self.thread = params;
        self
    }

    fn is_possible(&self, abilities: &Abilities) -> bool {
        (self.model == CodexModel::Direct || abilities.has_code_mode)
            && self.needs.is_none_or(|it| abilities.tools.contains(it))
    }
}

/// Scripts that are played in both views, and what a stream or file may then lack.
const BOTH: [(&str, &[RunGap]); 33] = [
    ("text", &[]),
    ("long_text", &[]),
    ("two_texts", &[]),
    ("thinking", &[]),
    ("thinking_parts", &[]),
    ("thinking_raw", &[]),
    ("thinking_hidden", &[]),
    ("web_search", &[]),
    ("incomplete", &[]),
    ("tools", &[]),
    ("failing", &[]),
    ("parallel", &[RunGap::ParallelOrder]),
    ("parallel_same", &[RunGap::ParallelOrder]),
    ("parallel_mixed", &[RunGap::ParallelOrder]),
    ("empty_output", &[]),
    ("long_output", &[RunGap::ShortenedOutput]),
    ("slow_output", &[]),
    ("outliving", &[]),
    ("unknown_tool", &[]),
    ("bad_arguments", &[]),
    ("patch", &[]),
    ("patch_adds", &[]),
    ("patch_deletes", &[]),
    ("patch_fails", &[]),
    ("error_retry", &[]),
    ("error400", &[]),
    ("error500", &[]),
    ("failed_response", &[]),
    ("error_after_tool", &[]),
    ("drop_midstream", &[]),
    ("drop_in_thinking", &[]),
    ("drop_after_tool", &[RunGap::CutResult]),
    ("drop_always", &[]),
];

/// Returns the scenarios that a version with these abilities can play.
pub fn scenarios(abilities: &Abilities) -> Vec<Scenario> {
    let mut all = Vec::new();
    for view in [View::Exec, View::AppServer] {
        let played = |name| Scenario::new(view, name, [Act::Play(name)]);
        all.extend(BOTH.iter().map(|(name, gaps)| played(name).may_lack(gaps)));
        all.push(played("plan").needs("update_plan"));
        all.push(played("view_image").needs("view_image"));
        all.push(Scenario::new(view, "image", [Act::PlayWithImage("text")]));
        for name in ["subagent", "subagents_parallel", "subagent_error"] {
            let acts = [Act::Play(name), Act::Linger];
            all.push(Scenario::new(view, name, acts).may_lack(&[RunGap::ParallelOrder]));
        }
        for name in ["code_shell", "code_parallel", "code_subagent", "code_nested"] {
            all.push(played(name).code_mode());
        }
        all.push(Scenario::new(
            view,
            "turns",
            [
                Act::Play("tools"),
                Act::Restart(Stop::Close),
                Act::Play("text"),
                Act::Restart(Stop::Close),
                Act::Play("thinking"),
            ],
        ));
        for (name, stop) in [("kill_tool", Stop::Kill), ("sigterm_tool", Stop::Terminate)] {
            let scenario = in_tool(view, name, Act::Stop(stop));
            all.push(scenario.may_lack(&[RunGap::StreamEndsAtKill]));
        }
        all.push(in_tool(view, "resume_after_kill", Act::Restart(Stop::Kill)).then("text"));
    }
    all.push(in_tool(View::Exec, "sigint_tool", Act::Stop(Stop::Interrupt)));
    all.extend(app_server());
    all.retain(|it| it.is_possible(abilities));
    all
}

impl Scenario {
    fn then(mut self, script: &'static str) -> Self {
        self.acts.push(Act::Play(script));
        self
    }
}

/// Does something while a command runs.
fn in_tool(view: View, name: &str, act: Act) -> Scenario {
    Scenario::new(view, name, [Act::Begin("held_tool"), Act::WaitForCommand, act])
}

/// What only a client of the app-server can do.
fn app_server() -> Vec<Scenario> {
    let new = |name, acts: &[Act]| Scenario::new(View::AppServer, name, acts.iter().copied());
    let held = |name, script, notification| {
        new(name, &[Act::Begin(script), Act::WaitFor(notification), Act::Interrupt])
    };
    let text = "item/agentMessage/delta";
    let asking = json!({"approvalPolicy": "on-request", "sandbox": "read-only"});
    vec![
        held("interrupt_text", "held_text", text),
        held("interrupt_text_then_continue", "held_text", text).then("text"),
        held("interrupt_thinking", "held_thinking", "item/reasoning/summaryTextDelta"),
        in_tool(View::AppServer, "interrupt_tool", Act::Interrupt),
        in_tool(View::AppServer, "interrupt_tool_then_continue", Act::Interrupt).then("text"),
        new(
            "interrupt_parallel",
            &[Act::Begin("held_parallel"), Act::WaitForFile("begun"), Act::Interrupt],
        )
        .may_lack(&[RunGap::ParallelOrder]),
        new(
            "interrupt_subagent",
            &[Act::Begin("held_subagent"), Act::WaitForCommand, Act::Interrupt],
        )
        .may_lack(&[RunGap::AfterInterruption]),
        new("kill_text", &[Act::Begin("held_text"), Act::WaitFor(text), Act::Stop(Stop::Kill)]),
        new(
            "steer",
            &[
                Act::Begin("steered"),
                Act::WaitForFile("begun"),
                Act::Steer("Be brief."),
                Act::WaitForEnd,
            ],
        ),
        new("compact", &[Act::Play("tools"), Act::Compact, Act::Play("text")]),
        new("review", &[Act::Play("text"), Act::Review, Act::Play("text2")]),
        new("fork", &[Act::Play("tools"), Act::Play("text2"), Act::Fork, Act::Play("text3")]),
        new(
            "go_back",
            &[
                Act::Play("tools"),
                Act::Play("text2"),
                Act::Play("text3"),
                Act::GoBack,
                Act::Play("thinking"),
            ],
        ),
        new("ask", &[Act::Play("ask_twice")]).thread(asking.clone()),
        new("ask_for_patch", &[Act::Play("patch_adds")]).thread(asking),
    ]
}
