//! Shared tools for Threadfold's tests and benchmarks.
//!
//! [`story`] parses short texts into events and prints a state; [`sessions`] generates
//! whole sessions, plausible and hostile, for property tests, and [`big_session`] long ones, for
//! benchmarks; [`naive`] is the reducer that copies its list on every event and [`naive_load`] the
//! loader that parses each line into a `Value`, as baselines; [`mod@store_suite`] tests
//! the contract of a store, [`DelegatingStore`] wraps one with hooks, and [`store_crash`]
//! kills one at any moment; [`loops`] generates loops, and [`strict`] is a provider that refuses
//! requests that break a rule; [`opencode::database`] creates OpenCode's databases. The rest
//! runs real agents:
//!
//! ```text
//! test ─► ScriptedModel (127.0.0.1) ◄─ HTTP ─ real agent ─► stdout lines, transcript files
//!             ▲                                  ▲
//!          Script                ClaudeCode, OpenCode, Codex, AgentHome
//! ```
//!
//! [`recording`] plays scenarios that way, and writes and verifies a recording of each.
//!
//! A test starts a [`ScriptedModel`], points a real agent at it, and checks what the agent
//! emitted and wrote:
//!
//! ```
//! use threadfold_testkit::{Script, ScriptedModel, Step};
//!
//! let model = ScriptedModel::builder()
//!     .script(Script::new("hello").step(Step::new().text("Hello.")))
//!     .start()?;
//! assert!(model.base_url().starts_with("http://127.0.0.1:"));
//! # Ok::<(), threadfold_testkit::TestkitError>(())
//! ```
//!
//! No real model is used, and nothing connects beyond loopback, except `npm` when an agent
//! is not installed yet.

pub mod big_session;
#[cfg(unix)]
mod claude_code;
#[cfg(unix)]
pub mod codex;
mod delegating_store;
mod error;
#[cfg(unix)]
mod home;
#[cfg(unix)]
mod install;
pub mod loops;
mod manual_clock;
mod model;
pub mod naive;
pub mod naive_load;
pub mod opencode;
pub mod oracle;
pub mod parity_pairs;
#[cfg(unix)]
mod postgres_server;
#[cfg(unix)]
mod process;
pub mod raw_count;
#[cfg(unix)]
pub mod recording;
pub mod sessions;
pub mod sessions_on_disk;
mod skip;
pub mod spill_store;
#[cfg(unix)]
pub mod store_crash;
pub mod store_suite;
pub mod story;
pub mod strict;
pub mod typed_load;

#[cfg(unix)]
pub use claude_code::{ClaudeCode, Input, RunOptions};
#[cfg(unix)]
pub use codex::{AppServer, Codex, CodexModel, CodexOptions, CodexTools, codex_scripts};
pub use delegating_store::{DelegatingStore, StoreCall, StoreHooks};
pub use error::TestkitError;
#[cfg(unix)]
pub use home::AgentHome;
#[cfg(unix)]
pub use install::Availability;
pub use manual_clock::ManualClock;
pub use model::{
    Attempts, Block, Fault, ModelBuilder, ModelRequest, Place, PlayedStep, Script, ScriptedModel,
    Step, StopReason, SubagentTool, Usage, ready_scripts,
};
#[cfg(unix)]
pub use opencode::{
    Events, NewerServer, OpenCode, Server, opencode_newer_scripts, opencode_scripts,
};
#[cfg(unix)]
pub use postgres_server::{Durability, PostgresServer};
#[cfg(unix)]
pub use process::{AgentProcess, NextLine, ProcessOutput};
pub use skip::report_skipped;
