//! The configuration of MCP servers, in the usual JSON format.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use threadfold_core::Effect;

use super::McpError;

/// The servers to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct McpConfig {
    /// The servers, by name.
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
    /// Additional environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The working directory; default: ours.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// The effect of running each tool twice, overriding the server's hints.
    #[serde(default)]
    pub effects: BTreeMap<String, Effect>,
    /// How many seconds the server may take to become ready; default: 60.
    #[serde(default)]
    pub startup_seconds: Option<u64>,
}

impl McpConfig {
    /// Parses the usual JSON format, extended by `effects` and `startupSeconds`.
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
                        "tool `{tool}` of server `{name}` can only be `pure`, `idempotent` or `unsafe`; \
                         the protocol supports no others"
                    )));
                }
            }
        }
        Ok(config)
    }
}
