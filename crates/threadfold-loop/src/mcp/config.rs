//! Which servers there are, in the JSON that is usual for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use threadfold_core::Effect;

use super::McpError;

/// The servers to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct McpConfig {
    /// The servers by their names.
    #[serde(rename = "mcpServers")]
    pub servers: BTreeMap<String, McpServerConfig>,
}

/// How to start a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServerConfig {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// What its environment has besides ours.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The folder that it starts in; ours if left out.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// What running a tool twice would do, whatever the server says of it.
    #[serde(default)]
    pub effects: BTreeMap<String, Effect>,
    /// How many seconds it has to become ready; 60 if left out.
    #[serde(default)]
    pub startup_seconds: Option<u64>,
}

impl McpConfig {
    /// Reads the usual JSON, with `effects` and `startupSeconds` beside what is usual.
    ///
    /// ```
    /// use threadfold_loop::{Effect, McpConfig};
    ///
    /// let config = McpConfig::parse(
    ///     r#"{"mcpServers": {"files": {
    ///         "command": "npx",
    ///         "args": ["-y", "@modelcontextprotocol/server-filesystem", "."],
    ///         "effects": {"write_file": "idempotent"}
    ///     }}}"#,
    /// )?;
    /// assert_eq!(config.servers["files"].effects["write_file"], Effect::Idempotent);
    /// # Ok::<(), threadfold_loop::McpError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, McpError> {
        let wrong = |reason: String| McpError::Config { reason };
        let config: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        for (name, server) in &config.servers {
            if name.is_empty() || server.command.is_empty() {
                return Err(wrong(format!("server `{name}` has no name or no command")));
            }
            for (tool, effect) in &server.effects {
                if !matches!(effect, Effect::Pure | Effect::Idempotent | Effect::Unsafe) {
                    return Err(wrong(format!(
                        "tool `{tool}` of server `{name}` can be `pure`, `idempotent` or `unsafe`; \
                         the protocol has no way to ask for more"
                    )));
                }
            }
        }
        Ok(config)
    }
}
