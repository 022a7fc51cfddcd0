//! Options for a run of Claude Code.

use std::{process::Command, time::Duration};

use crate::AgentHome;

/// Where the agent finds programs.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How the prompt reaches Claude Code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// On the command line; standard input is empty.
    Prompt(String),
    /// As `stream-json` lines on standard input, which stays open for more of them.
    Lines(Vec<String>),
}

/// Options for a run of Claude Code.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    pub(super) home: &'a AgentHome,
    model_url: String,
    pub(super) input: Input,
    session_id: Option<String>,
    forward_subagent_text: bool,
    partial_messages: bool,
    skip_permissions: bool,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    pub(super) limit: Duration,
}

impl<'a> RunOptions<'a> {
    /// Returns options for a run against `model_url`, with a time limit of a minute.
    pub fn new(home: &'a AgentHome, model_url: impl Into<String>, input: Input) -> Self {
        Self {
            home,
            model_url: model_url.into(),
            input,
            session_id: None,
            forward_subagent_text: false,
            partial_messages: true,
            skip_permissions: true,
            arguments: Vec::new(),
            environment: Vec::new(),
            limit: Duration::from_secs(60),
        }
    }

    /// Sets the session id, a UUID; without this, Claude Code generates one.
    #[must_use]
    pub fn session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Includes the text and thinking of subagents in the stream.
    #[must_use]
    pub fn forward_subagent_text(mut self) -> Self {
        self.forward_subagent_text = true;
        self
    }

    /// Leaves partial messages out of the stream, which then has whole messages only.
    #[must_use]
    pub fn whole_messages(mut self) -> Self {
        self.partial_messages = false;
        self
    }

    /// Leaves permissions as the agent's settings and other arguments have them.
    #[must_use]
    pub fn keep_permissions(mut self) -> Self {
        self.skip_permissions = false;
        self
    }

    /// Adds a command-line argument, such as `--resume=UUID`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the time limit after which the run is killed.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the arguments, without the program.
    pub fn arguments(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|it| (*it).to_owned()));
        add(&["-p", "--output-format", "stream-json", "--verbose"]);
        if self.partial_messages {
            add(&["--include-partial-messages"]);
        }
        if self.skip_permissions {
            add(&["--dangerously-skip-permissions"]);
        }
        add(&["--model", "claude-sonnet-4-5"]);
        if let Some(id) = &self.session_id {
            add(&[&format!("--session-id={id}")]);
        }
        if self.forward_subagent_text {
            add(&["--forward-subagent-text"]);
        }
        all.extend_from_slice(&self.arguments);
        match &self.input {
            Input::Prompt(prompt) => all.extend(["--".to_owned(), prompt.clone()]),
            Input::Lines(_) => all.extend(["--input-format", "stream-json"].map(str::to_owned)),
        }
        all
    }

    /// Adds arguments, folder and environment to the command of the program.
    pub(super) fn complete(&self, mut command: Command) -> Command {
        command.current_dir(self.home.project()).args(self.arguments());
        self.set_environment(&mut command);
        command
    }

    /// Sets a fake key, disables background traffic, and clears the machine's environment.
    fn set_environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.temporary())
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("SHELL", "/bin/bash")
            .env("ANTHROPIC_BASE_URL", &self.model_url)
            .env("ANTHROPIC_API_KEY", "a-fake-key")
            // Lets root skip permissions, because build containers often run as root.
            .env("IS_SANDBOX", "1");
        for switch in [
            "DISABLE_TELEMETRY",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_AUTOUPDATER",
            "DISABLE_BUG_COMMAND",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        ] {
            command.env(switch, "1");
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
    }
}
