//! The testkit, tested: the scripted model on its own, and real agents that talk to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod big_session;
#[cfg(unix)]
mod claude_control;
#[cfg(unix)]
mod claude_scripts;
mod client;
mod histories;
mod model_anthropic;
mod model_faults;
mod model_openai;
#[cfg(unix)]
mod parity_live;
#[cfg(unix)]
mod parity_opencode;
mod real;
#[cfg(unix)]
mod store_crash;
mod strict;
