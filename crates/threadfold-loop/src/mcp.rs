//! Tools of other programs, over the Model Context Protocol (MCP).
//!
//! A server is a child process, connected through its standard input and output. Each of its tools
//! becomes one of ours, named `mcp__server__tool`.
//!
//! The effect of running a tool twice is derived from the server's hints: a read-only tool is
//! [`Effect::Pure`], one that is idempotent and not destructive is [`Effect::Idempotent`], any
//! other is [`Effect::Unsafe`]. A server may be wrong, so the configuration overrides its hints.
//! The call's idempotency key is sent as `threadfold/key` in `_meta`, for servers that support it.
//!
//! A server ends with the last of its tools, and with this process, however that ends: its input is
//! closed, and on Linux it is killed if it ignores that.

mod config;
mod content;
mod life_line;
mod line;
mod name;
mod outcome;
mod outgoing;
mod server;
mod tool;
mod transport;

use std::collections::BTreeSet;
use std::sync::Arc;

use threadfold_core::Effect;
use tokio::task::JoinSet;

use crate::tool::Tool;

pub use config::{McpConfig, McpServerConfig};

/// Receives a server's output outside the protocol: the server's name, and a line of its standard
/// error, or of its standard output that is not a message.
pub type McpLog = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Why a server's tools are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// Fix the configuration.
    #[error("the MCP configuration is invalid: {reason}")]
    Config {
        /// What is wrong with it.
        reason: String,
    },
    /// Fix the server's command, or install the server.
    #[error("MCP server `{server}` could not be started with `{command}`")]
    Start {
        /// The server.
        server: String,
        /// The program.
        command: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Read the server's output, and fix the server.
    #[error("MCP server `{server}` did not become ready: {reason}")]
    NotReady {
        /// The server.
        server: String,
        /// What it did instead, and its last output.
        reason: String,
    },
    /// Remove the tool from the configuration.
    #[error("MCP server `{server}` has no tool `{tool}`, which `effects` refers to")]
    NoSuchTool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
}

/// Starts all servers of a configuration and returns their tools, sorted by server and name: some
/// servers list them in a different order each time, and a conversation is bound to its tools. If
/// one server does not become ready, all are stopped.
pub async fn connect(config: &McpConfig, log: McpLog) -> Result<Vec<Arc<dyn Tool>>, McpError> {
    let mut starting = JoinSet::new();
    for (index, (name, server)) in config.servers.iter().enumerate() {
        let (name, server, log) = (name.clone(), server.clone(), Arc::clone(&log));
        starting.spawn(async move { (index, start(&name, &server, log).await) });
    }
    let mut started = Vec::new();
    while let Some(ended) = starting.join_next().await {
        let (index, tools) = ended.map_err(|error| McpError::NotReady {
            server: "?".to_owned(),
            reason: error.to_string(),
        })?;
        started.push((index, tools?));
    }
    started.sort_by_key(|(index, _)| *index);
    let mut names = BTreeSet::new();
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for mut tool in started.into_iter().flat_map(|(_, it)| it) {
        tool.make_unique(&mut names);
        tools.push(Arc::new(tool));
    }
    Ok(tools)
}

async fn start(
    name: &str,
    config: &McpServerConfig,
    log: McpLog,
) -> Result<Vec<tool::McpTool>, McpError> {
    let (server, mut listed) = server::start(name, config, log).await?;
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    for tool in config.effects.keys() {
        if listed.binary_search_by(|it| it.name.cmp(tool)).is_err() {
            let (server, tool) = (name.to_owned(), tool.clone());
            return Err(McpError::NoSuchTool { server, tool });
        }
    }
    let server = Arc::new(server);
    let tools = listed.into_iter().map(|it| {
        let effect = config.effects.get(&it.name).copied().unwrap_or_else(|| it.effect());
        tool::McpTool::new(Arc::clone(&server), it, effect)
    });
    Ok(tools.collect())
}

/// A tool, as its server describes it.
struct ListedTool {
    name: String,
    description: String,
    schema: threadfold_core::Json,
    is_read_only: bool,
    is_idempotent: bool,
    is_destructive: bool,
}

impl ListedTool {
    fn effect(&self) -> Effect {
        if self.is_read_only {
            Effect::Pure
        } else if self.is_idempotent && !self.is_destructive {
            Effect::Idempotent
        } else {
            Effect::Unsafe
        }
    }
}
