//! The durable agent loop: turns, tools and checkpoints that survive `kill -9`.

mod agent;
mod checkpoint;
mod error;
mod limits;
mod main_loop;
mod output;
mod progress;
mod prompt;
mod builtin;
#[cfg(unix)]
mod mcp;
mod provider;
mod recorder;
mod request;
mod run;
mod tool;

pub use agent::{Agent, Decision, Resume};
pub use checkpoint::{Checkpoint, CheckpointHandler, FolderCheckpoints, StoreCheckpoints};
pub use error::{AgentError, Reached};
pub use limits::{Limits, Prices, Retries};
pub use main_loop::MainLoop;
pub use output::{Output, OutputError, Typed};
pub use progress::Progress;
pub use prompt::{Prompt, Rendered, RunKey};
pub use provider::{
    AccessError, Answer, Anthropic, Delta, Deltas, Key, OpenAiChat, OpenAiResponses, Provider,
    ProviderError, Script, ScriptCall, ScriptStep, Scripted, Timeouts, Usage, usage_of,
};
pub use recorder::{Attempt, NewTurn, Origin, Recorder};
pub use request::{render_tools, request};
pub use run::{Finished, waits, waits_for};
#[cfg(unix)]
pub use builtin::{CALL_VARIABLE, end_leftovers};
pub use builtin::{Folder, builtin_tool, builtin_tools};
#[cfg(unix)]
pub use mcp::{McpConfig, McpError, McpLog, McpServerConfig, connect as connect_mcp};
pub use threadfold_core::{Dialect, Effect};
pub use tool::{
    ErrorOutcome, Probe, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput, TypedTool, tool,
};
