//! The durable agent loop: turns, tools and checkpoints that survive `kill -9`.
//!
//! ```text
//!            ┌────────────────────── resume plan ◄─────────────────────┐
//!            ▼                                                         │
//! begin ─► recorded ─► ask ─► recorded ─► tool ─► recorded ─► close ─► recorded
//! ```
//!
//! A loop performs only the next step in its ledger, and records each step before it performs it.
//! Starting and resuming after a crash are therefore the same: the model is not asked again for an
//! answer that was recorded, a request is sent again byte for byte, and a finished tool does not
//! run again.
//!
//! ```
//! use std::sync::Arc;
//! use threadfold_loop::{AgentLoop, Effect, RenderedPrompt, ScriptedProvider, ToolContext, tool};
//! use threadfold_store::MemoryStore;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let add = tool("add", "Adds two numbers", |add: Add, _: ToolContext| async move {
//!     Ok(format!("{}", add.a + add.b).into())
//! });
//! let script = r#"{ "name": "sum", "steps": [
//!     { "calls": [{ "name": "add", "arguments": { "a": 2, "b": 3 } }] },
//!     { "text": "It is five." }
//! ] }"#;
//! let model = Arc::new(ScriptedProvider::new(serde_json::from_str(script)?));
//! let agent_loop = AgentLoop::new(Arc::new(MemoryStore::default()), model, "script")
//!     .tool(add.effect(Effect::Pure));
//!
//! // Run it again after a crash, in any process: it resumes where it stopped.
//! let finished = agent_loop.run_or_resume(&"s1".into(), &RenderedPrompt::text("What is 2 + 3?")).await?;
//! assert_eq!(finished.text(), "It is five.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If you already have a loop, use only the ledger: see [`Recorder`].
//!
//! # What it does not do
//!
//! It reads no configuration and no environment, and prints nothing. A lease fences the writes of a
//! process that lost it, but not its tools: a tool receives the epoch of the lease that it runs
//! under, and can refuse an older one.

mod atomic_file;
mod builtin;
mod checkpoint;
mod configuration;
mod error;
mod ledger;
mod limits;
mod mark;
#[cfg(unix)]
mod mcp;
mod output;
mod progress;
mod prompt;
mod provider;
mod request;
mod retries;
mod run;
mod steps;
mod tool;

#[cfg(unix)]
pub use builtin::{CALL_VARIABLE, end_leftovers};
pub use builtin::{Folder, builtin_tool, builtin_tools};
pub use checkpoint::{Checkpoint, CheckpointHandler, FolderCheckpoints, StoreCheckpoints};
pub use configuration::{AgentLoop, Decision, Resume};
pub use error::{LoopError, RunLimit};
pub use ledger::{Attempt, NewTurn, Recorder, ResultOrigin, Trust};
pub use limits::{Limits, Prices};
pub use mark::{LedgerCheck, MarkKey};
#[cfg(unix)]
pub use mcp::{McpConfig, McpError, McpLog, McpServerConfig, connect as connect_mcp};
pub use output::{JsonOutput, Output, OutputError};
pub use progress::Progress;
pub use prompt::{Prompt, RenderedPrompt, RunKey};
pub use provider::{
    AccessError, Answer, AnswerUsage, Anthropic, Delta, Deltas, Key, OpenAiChat, OpenAiResponses,
    Provider, ProviderError, ProviderScript, ScriptCall, ScriptStep, ScriptedProvider, Timeouts,
    usage_of,
};
pub use request::request;
pub use retries::Retries;
pub use run::MainLoop;
pub use steps::{RunOutcome, pending_step};
pub use threadfold_core::{Dialect, Effect};
pub use tool::{
    ErrorOutcome, Probe, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput, TypedTool, tool,
};
