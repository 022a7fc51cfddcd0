//! What Threadfold's tests and benchmarks share.
//!
//! [`story`] turns a few words into events and a state into a few lines; [`sessions`] makes up
//! whole sessions, plausible and hostile, for property tests, and [`big_session`] long ones, for
//! benchmarks; [`naive`] is the reducer that copies its list on every event and [`naive_load`] the
//! loader that parses each line into a `Value`, to compare with; [`mod@store_suite`] tests
//! everything that a store promises, [`DelegatingStore`] wraps one with hooks, and [`crash`]
//! stops one at any moment; [`loops`] makes up loops of ours, and [`strict`] is a provider that
//! takes no request that breaks a rule; [`opencode::database`] makes OpenCode's databases. The rest
//! runs real agents:
//!
//! ```text
//! test ─► ScriptedModel (127.0.0.1) ◄─ HTTP ─ real agent ─► stdout lines, transcript files
//!             ▲                                  ▲
//!          Script                ClaudeCode, OpenCode, AgentHome
//! ```
//!
//! A test starts a [`ScriptedModel`], points a real agent at it, and looks at what the agent
//! said and wrote:
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
//! Nothing here thinks, and nothing here reaches beyond loopback, but for `npm` when an agent
//! has yet to be installed.

pub mod big_session;
#[cfg(unix)]
mod claude_code;
#[cfg(unix)]
pub mod crash;
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
pub mod raw_count;
pub mod sessions;
pub mod sessions_on_disk;
mod skip;
pub mod spill_store;
pub mod store_suite;
pub mod story;
pub mod strict;

#[cfg(unix)]
pub use claude_code::{ClaudeCode, Finished, Input, RunOptions, Running};
pub use delegating_store::{DelegatingStore, StoreCall, StoreHooks};
pub use error::TestkitError;
#[cfg(unix)]
pub use home::AgentHome;
#[cfg(unix)]
pub use install::Availability;
pub use manual_clock::ManualClock;
pub use model::{
    Attempts, Block, Fault, ModelBuilder, ModelRequest, Place, Played, Script, ScriptedModel, Step,
    StopReason, SubagentTool, Usage, ready_scripts,
};
#[cfg(unix)]
pub use opencode::{Events, OpenCode, Server, opencode_scripts};
pub use skip::report_skipped;
