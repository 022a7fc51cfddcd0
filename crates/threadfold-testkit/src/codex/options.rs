//! What a run of Codex is given: a home, a model, and what it may do.

use std::{fs, path::Path, process::Command, time::Duration};

use crate::{AgentHome, TestkitError};

/// The search path of an agent: only what every machine has.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The first minor version in which all requests go to the configured provider.
const FIRST_WITH_ONE_PROVIDER: u32 = 110;

/// Which of Codex's own models it believes to use; the model decides the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodexModel {
    /// It calls tools directly.
    Direct,
    /// It writes scripts that call tools, where the version knows such a model.
    CodeMode,
}

impl CodexModel {
    /// Returns the name of a model that the version knows.
    fn name(self, minor: u32) -> &'static str {
        match (self, minor) {
            (Self::Direct, ..110) => "gpt-5.2-codex",
            (Self::Direct, 110..140) => "gpt-5.4",
            (Self::Direct, _) => "gpt-5.5",
            (Self::CodeMode, ..160) => "gpt-5.6-sol",
            (Self::CodeMode, _) => "gpt-6-sol",
        }
    }
}

/// Describes a run of Codex.
#[derive(Clone, Debug)]
pub struct CodexOptions<'a> {
    pub(super) home: &'a AgentHome,
    pub(super) limit: Duration,
    model_url: String,
    model: CodexModel,
    minor: u32,
    settings: String,
}

impl<'a> CodexOptions<'a> {
    /// Describes a run of a version that may do everything and asks nothing.
    pub fn new(home: &'a AgentHome, model_url: String, version: &str) -> Self {
        let minor = version.split('.').nth(1).and_then(|it| it.parse().ok()).unwrap_or(u32::MAX);
        let (model, settings) = (CodexModel::Direct, String::new());
        Self { home, limit: Duration::from_secs(60), model_url, model, minor, settings }
    }

    /// Sets the model.
    #[must_use]
    pub fn model(mut self, model: CodexModel) -> Self {
        self.model = model;
        self
    }

    /// Adds a line to the beginning of the configuration.
    #[must_use]
    pub fn setting(mut self, line: &str) -> Self {
        self.settings = format!("{}{line}\n", self.settings);
        self
    }

    /// Sets the time limit after which a run is killed.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the command without arguments, with its configuration written.
    pub(super) fn command(&self, binary: &Path) -> Result<Command, TestkitError> {
        let folder = self.home.codex();
        let path = folder.join("config.toml");
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, self.configuration()))
            .map_err(TestkitError::io(format!("write `{}`", path.display())))?;
        let mut command = Command::new(binary);
        command
            .current_dir(self.home.project())
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.home.path())
            .env("CODEX_HOME", folder)
            .env("TMPDIR", self.home.temporary())
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("SHELL", "/bin/bash")
            .env("SCRIPTED_API_KEY", "a-fake-key")
            // Requests that do not concern the model, such as for a list of models, end here.
            .env("HTTPS_PROXY", &self.model_url)
            .env("NO_PROXY", "127.0.0.1,localhost");
        if self.minor < FIRST_WITH_ONE_PROVIDER {
            // These versions ask OpenAI for models, whatever the provider is, and retry for seconds.
            command.env("OPENAI_BASE_URL", format!("{}/v1", self.model_url));
        }
        Ok(command)
    }

    fn configuration(&self) -> String {
        let Self { model_url, settings, .. } = self;
        let model = self.model.name(self.minor);
        // The flag was renamed, and both names at once are reported as a warning.
        let subagents = if self.minor < 110 { "collab" } else { "multi_agent" };
        format!(
            r#"{settings}model = "{model}"
model_provider = "scripted"
model_reasoning_summary = "detailed"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{model_url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_API_KEY"
request_max_retries = 2
stream_max_retries = 2

[analytics]
enabled = false

[features]
{subagents} = true
"#
        )
    }
}
