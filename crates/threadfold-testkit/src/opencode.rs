//! OpenCode in tests: the real program, and databases as it makes them.
//!
//! The program is a pinned version in a clean environment, with loopback only. OpenCode is a
//! server: a test starts it, prompts it over HTTP, and listens to its bus. One server serves many
//! sessions; those of one folder share a bus, so a session that is to be alone on it has a folder
//! of its own.

pub mod database;
#[cfg(unix)]
mod events;
#[cfg(unix)]
mod http;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod scripts;
#[cfg(unix)]
mod server;

#[cfg(unix)]
pub use self::{events::Events, program::OpenCode, scripts::opencode_scripts, server::Server};
