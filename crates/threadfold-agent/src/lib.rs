//! The durable agent loop: turns, tools and checkpoints that survive `kill -9`.

mod provider;
mod tool;

pub use provider::{
    AccessError, Answer, Anthropic, Delta, Deltas, Key, OpenAiChat, OpenAiResponses, Provider,
    ProviderError, Script, ScriptCall, ScriptStep, Scripted, Timeouts, Usage, usage_of,
};
pub use threadfold_core::{Dialect, Effect};
pub use tool::{
    ErrorOutcome, Probe, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput, TypedTool, tool,
};
