//! The setup of a run: provider, tools and limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use threadfold_core::{Fields, Json, OptionsUpdate, SessionId};
use threadfold_engine::holder;
use threadfold_loop::{
    AgentLoop, Anthropic, Folder, Key, Limits, McpConfig, McpLog, OpenAiChat, OpenAiResponses,
    Provider, ProviderScript, ScriptedProvider, Tool, builtin_tools, connect_mcp,
};

use super::demo;
use crate::error::{CommandError, print_note};
use crate::provider_keys;
use crate::store::OpenStore;

/// The provider of the model
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProviderArg {
    /// Anthropic's Messages API
    Anthropic,
    /// OpenAI's Chat Completions API, or a compatible server
    Openai,
    /// OpenAI's Responses API
    OpenaiResponses,
    /// A script in a file, without network access
    Scripted,
    /// The script of `--demo`
    #[value(skip)]
    Demo,
}

/// Everything that another process needs to resume a run. Never contains the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunSetup {
    pub(crate) provider: ProviderArg,
    pub(crate) model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) script: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) folder: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mcp: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_turns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease_seconds: Option<u64>,
}

const RUN: &str = "run";

impl RunSetup {
    pub(super) fn to_event(&self) -> OptionsUpdate {
        let mut options = Fields::default();
        options.insert(RUN, Json::of(self));
        OptionsUpdate { options: Some(options) }
    }

    pub(super) fn from_event(update: &OptionsUpdate) -> Option<Self> {
        let run = update.options.as_ref()?.get(RUN)?;
        serde_json::from_str(run.as_str()).ok()
    }

    /// Returns the loop with this setup.
    pub(super) async fn agent_loop(
        &self,
        store: &OpenStore,
        session: &SessionId,
    ) -> Result<AgentLoop, CommandError> {
        let agent_loop = AgentLoop::new(store.shared(), self.provider()?, self.model.as_str())
            .holder(holder("threadfold run"))
            .limits(self.limits());
        let agent_loop = match &self.system {
            Some(system) => agent_loop.system(system.as_str()),
            None => agent_loop,
        };
        let agent_loop = match self.lease_seconds {
            Some(seconds) => agent_loop.lease(Duration::from_secs(seconds.max(1))),
            None => agent_loop,
        };
        if self.provider == ProviderArg::Demo {
            return Ok(agent_loop.tools([demo::count(store, session)?]));
        }
        Ok(agent_loop.tools(self.builtin()?).tools(self.mcp_tools().await?))
    }

    /// Returns the selected built-in tools.
    fn builtin(&self) -> Result<Vec<Arc<dyn Tool>>, CommandError> {
        let folder = Folder::open(&self.folder)
            .with_context(|| format!("`{}` cannot be opened", self.folder.display()))
            .map_err(|error| CommandError::new(error, "`--folder` must be an existing folder"))?;
        let all = builtin_tools(&folder);
        let names: Vec<_> = all.iter().map(|it| it.definition().name).collect();
        let is_wanted = |name: &String| self.tools.iter().any(|it| it == name || it == "all");
        for wanted in self.tools.iter().filter(|it| !matches!(it.as_str(), "all" | "none" | "")) {
            if !names.contains(wanted) {
                return Err(CommandError::new(
                    anyhow!("there is no tool `{wanted}`"),
                    format!("`--tools` takes any of {}, or `all`, or `none`", names.join(", ")),
                ));
            }
        }
        let chosen = all.into_iter().zip(&names).filter(|(_, name)| is_wanted(name));
        Ok(chosen.map(|(tool, _)| tool).collect())
    }

    async fn mcp_tools(&self) -> Result<Vec<Arc<dyn Tool>>, CommandError> {
        let Some(path) = &self.mcp else { return Ok(Vec::new()) };
        let hint =
            r#"the file must contain `{"mcpServers": {"name": {"command": …, "args": […]}}}`"#;
        let text = fs::read_to_string(path)
            .with_context(|| format!("`{}` cannot be read", path.display()))
            .map_err(|error| CommandError::new(error, hint))?;
        let config = McpConfig::parse(&text).map_err(|error| CommandError::new(error, hint))?;
        let log: McpLog = Arc::new(|server, line| print_note(format_args!("{server}: {line}")));
        connect_mcp(&config, log).await.map_err(|error| {
            CommandError::new(error, "check that the server's command runs by itself")
        })
    }

    fn limits(&self) -> Limits {
        let ours = Limits::default();
        Limits {
            turns: self.max_turns.or(ours.turns),
            tokens: self.max_tokens,
            time: self.max_seconds.map(Duration::from_secs),
            tool_time: self.tool_seconds.map_or(ours.tool_time, Duration::from_secs),
            ..ours
        }
    }

    /// Refuses an address that may contain a secret, because the setup is recorded in the session.
    fn check_address(&self) -> Result<(), CommandError> {
        let suspicious = self.base_url.as_deref().filter(|it| it.contains(['?', '#', '@']));
        match suspicious {
            None => Ok(()),
            Some(_) => Err(CommandError::new(
                anyhow!(
                    "the address contains `?`, `#` or `@`, and would be recorded in the session"
                ),
                "pass the address alone, and the key with `--key-file`",
            )),
        }
    }

    fn provider(&self) -> Result<Arc<dyn Provider>, CommandError> {
        self.check_address()?;
        let address = |ours: &str| self.base_url.clone().unwrap_or_else(|| ours.to_owned());
        let unfit = |error: threadfold_loop::AccessError| {
            CommandError::new(
                error,
                "set the address with `--base-url`; see `threadfold run --help`",
            )
        };
        Ok(match self.provider {
            ProviderArg::Anthropic => {
                let key = self.key(provider_keys::ANTHROPIC)?;
                let address = address("https://api.anthropic.com");
                Arc::new(Anthropic::new(&address, key).map_err(unfit)?)
            }
            ProviderArg::Openai => {
                let key = self.key(provider_keys::OPENAI)?;
                let address = address("https://api.openai.com/v1");
                Arc::new(OpenAiChat::new(&address, key).map_err(unfit)?)
            }
            ProviderArg::OpenaiResponses => {
                let key = self.key(provider_keys::OPENAI)?;
                let address = address("https://api.openai.com/v1");
                Arc::new(OpenAiResponses::new(&address, key).map_err(unfit)?)
            }
            ProviderArg::Scripted => Arc::new(ScriptedProvider::new(self.read_script()?)),
            ProviderArg::Demo => Arc::new(ScriptedProvider::new(demo::script())),
        })
    }

    fn key(&self, variable: &str) -> Result<Key, CommandError> {
        let hint = format!("set `{variable}`, or pass a file with the key with `--key-file`");
        let key = match &self.key_file {
            Some(path) => Key::from_file(path),
            None => Key::new(&provider_keys::key(variable)),
        };
        let key = key.map_err(|error| CommandError::new(error, hint))?;
        if key.is_exposed() {
            print_note("warning: other users of this machine can read the key file");
        }
        Ok(key)
    }

    fn read_script(&self) -> Result<ProviderScript, CommandError> {
        let hint = "pass a script with `--script FILE`; `threadfold run --demo` needs none";
        let path = self
            .script
            .as_deref()
            .ok_or_else(|| CommandError::new(anyhow!("the scripted model has no script"), hint))?;
        let text = fs::read_to_string(path)
            .with_context(|| format!("`{}` cannot be read", path.display()))
            .map_err(|error| CommandError::new(error, hint))?;
        serde_json::from_str(&text)
            .with_context(|| format!("`{}` is not a valid script", path.display()))
            .map_err(|error| {
                CommandError::new(
                    error,
                    r#"a script has the form `{"name": …, "steps": [{"text": …}]}`"#,
                )
            })
    }
}

/// Returns an absolute path without links, so that it stays valid in another working directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    fs::canonicalize(path)
        .with_context(|| format!("`{}` does not exist", path.display()))
        .map_err(|error| CommandError::new(error, "pass an existing file or folder"))
}
