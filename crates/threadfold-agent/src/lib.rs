//! The durable agent loop: turns, tools and checkpoints that survive `kill -9`.

mod builtin;
#[cfg(unix)]
mod mcp;
mod provider;
mod tool;

#[cfg(unix)]
pub use builtin::{CALL_VARIABLE, end_leftovers};
pub use builtin::{Folder, builtin_tool, builtin_tools};
#[cfg(unix)]
pub use mcp::{McpConfig, McpError, McpLog, McpServerConfig, connect as connect_mcp};
pub use provider::{Answer, Delta, Deltas, Provider, ProviderError};
pub use threadfold_core::{Dialect, Effect};
pub use tool::{
    ErrorOutcome, Probe, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput, TypedTool, tool,
};
