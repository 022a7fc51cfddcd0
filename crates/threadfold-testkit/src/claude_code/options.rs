//! What a run of Claude Code is told.

use std::{path::Path, process::Command, time::Duration};

use crate::AgentHome;

/// How the prompt reaches Claude Code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// On the command line; standard input is empty.
    Prompt(String),
    /// As `stream-json` lines on standard input, which stays open for more of them.
    Lines(Vec<String>),
}

/// What a run of Claude Code is told.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    pub(super) home: &'a AgentHome,
    model_url: String,
    pub(super) input: Input,
    session_id: Option<String>,
    forward_subagent_text: bool,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    pub(super) limit: Duration,
}

impl<'a> RunOptions<'a> {
    /// Starts the options of a run that talks to `model_url` and may take a minute.
    pub fn new(home: &'a AgentHome, model_url: impl Into<String>, input: Input) -> Self {
        Self {
            home,
            model_url: model_url.into(),
            input,
            session_id: None,
            forward_subagent_text: false,
            arguments: Vec::new(),
            environment: Vec::new(),
            limit: Duration::from_secs(60),
        }
    }

    /// Names the session, with a UUID; without this, Claude Code makes one up.
    #[must_use]
    pub fn session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Asks for the text and thinking of subagents in the stream.
    #[must_use]
    pub fn forward_subagent_text(mut self) -> Self {
        self.forward_subagent_text = true;
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

    /// Sets how long the run may take before it is killed.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(super) fn command(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        command.current_dir(self.home.project());
        self.set_environment(&mut command);

        command
            .args(["-p", "--output-format", "stream-json", "--verbose"])
            .args(["--include-partial-messages", "--dangerously-skip-permissions"])
            .args(["--model", "claude-sonnet-4-5"]);
        if let Some(id) = &self.session_id {
            command.arg(format!("--session-id={id}"));
        }
        if self.forward_subagent_text {
            command.arg("--forward-subagent-text");
        }
        command.args(&self.arguments);
        match &self.input {
            Input::Prompt(prompt) => command.args(["--", prompt]),
            Input::Lines(_) => command.args(["--input-format", "stream-json"]),
        };
        command
    }

    /// Gives the agent a fake key and a quiet life, and nothing of the machine's.
    fn set_environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.temporary())
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("SHELL", "/bin/bash")
            .env("ANTHROPIC_BASE_URL", &self.model_url)
            .env("ANTHROPIC_API_KEY", "a-fake-key")
            // Lets root skip permissions, as containers of a build often run as root.
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
