//! The durable agent loop: turns, tools and checkpoints that survive `kill -9`.

mod provider;
mod tool;

pub use provider::{Answer, Delta, Deltas, Provider, ProviderError};
pub use threadfold_core::{Dialect, Effect};
pub use tool::{
    ErrorOutcome, Probe, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput, TypedTool, tool,
};
