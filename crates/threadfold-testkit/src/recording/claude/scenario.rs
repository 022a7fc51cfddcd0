//! A scenario: what the model answers, and what is done to the agent.

use threadfold_fold::parity::RunGap;

use super::{Abilities, Act};
use crate::Script;

/// A situation to record.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(super) name: &'static str,
    /// Scripts beside the ready ones.
    pub(super) scripts: Vec<Script>,
    /// Files in the folder in which the agent works.
    pub(super) files: Vec<(&'static str, Vec<u8>)>,
    /// The runs, one after the other in one home; the last one is recorded.
    pub(super) runs: Vec<Run>,
    /// What one side may lack in such a run.
    pub(super) may_lack: Vec<RunGap>,
    /// The tools without which it cannot be played.
    pub(super) needs: Vec<&'static str>,
}

/// One run of a scenario.
#[derive(Clone, Debug)]
pub struct Run {
    /// The prompt as an argument; without it, prompts come on standard input.
    pub(super) prompt: Option<String>,
    pub(super) session: RunSession,
    pub(super) arguments: Vec<String>,
    pub(super) variables: Vec<(&'static str, &'static str)>,
    pub(super) acts: Vec<Act>,
    pub(super) forwarding: Forwarding,
    pub(super) messages: Messages,
    pub(super) permissions: Permissions,
}

/// Which session a run works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunSession {
    New,
    Resumed,
    Forked,
}

/// Whether a run forwards the text of subagents, where the version can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarding {
    IfPossible,
    Off,
}

/// What a stream contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Messages {
    Partial,
    Whole,
}

/// What the agent may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permissions {
    Skipped,
    /// As its settings and arguments have it; questions are answered with yes.
    Allowed,
    /// As its settings and arguments have it; questions are answered with no.
    Denied,
}

impl Scenario {
    /// A scenario whose one prompt is an argument that plays the script of the same name.
    pub(super) fn play(name: &'static str) -> Self {
        Self::of(name, Run::with_prompt(&format!("[[play:{name}]] please run")))
    }

    /// A scenario whose prompts come on standard input.
    pub(super) fn acts(name: &'static str, acts: impl IntoIterator<Item = Act>) -> Self {
        Self::of(name, Run::with_acts(acts))
    }

    pub(super) fn of(name: &'static str, run: Run) -> Self {
        Self {
            name,
            scripts: Vec::new(),
            files: Vec::new(),
            runs: vec![run],
            may_lack: Vec::new(),
            needs: Vec::new(),
        }
    }

    pub(super) fn script(mut self, script: Script) -> Self {
        self.scripts.push(script);
        self
    }

    pub(super) fn file(mut self, name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((name, content.into()));
        self
    }

    /// Adds a run in the same home; the last one is recorded.
    pub(super) fn then(mut self, run: Run) -> Self {
        self.runs.push(run);
        self
    }

    pub(super) fn may_lack(mut self, lack: RunGap) -> Self {
        self.may_lack.push(lack);
        self
    }

    pub(super) fn needs(mut self, tool: &'static str) -> Self {
        self.needs.push(tool);
        self
    }

    /// Changes the last run.
    pub(super) fn run(mut self, change: impl FnOnce(Run) -> Run) -> Self {
        let last = self.runs.pop().expect("a scenario has a run");
        self.runs.push(change(last));
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether a version can play it.
    pub(super) fn is_possible(&self, abilities: &Abilities) -> bool {
        self.needs.iter().all(|it| abilities.tools.contains(*it))
    }
}

impl Run {
    pub(super) fn with_prompt(prompt: &str) -> Self {
        Self {
            prompt: Some(prompt.to_owned()),
            session: RunSession::New,
            arguments: Vec::new(),
            variables: Vec::new(),
            acts: Vec::new(),
            forwarding: Forwarding::IfPossible,
            messages: Messages::Partial,
            permissions: Permissions::Skipped,
        }
    }

    pub(super) fn with_acts(acts: impl IntoIterator<Item = Act>) -> Self {
        let acts = acts.into_iter().collect();
        Self { prompt: None, acts, ..Self::with_prompt("") }
    }

    pub(super) fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|it| (*it).to_owned()));
        self
    }

    pub(super) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    pub(super) fn act(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    pub(super) fn on(mut self, session: RunSession) -> Self {
        self.session = session;
        self
    }

    pub(super) fn unforwarded(mut self) -> Self {
        self.forwarding = Forwarding::Off;
        self
    }

    pub(super) fn whole_messages(mut self) -> Self {
        self.messages = Messages::Whole;
        self
    }

    pub(super) fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }
}
