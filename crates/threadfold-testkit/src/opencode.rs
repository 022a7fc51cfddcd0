//! OpenCode in tests: the real program, and databases in its format.
//!
//! The program is a pinned version in a clean environment, with loopback only. OpenCode is a
//! server: a test starts it, sends prompts over HTTP, and reads its bus. One server hosts many
//! sessions; those of one folder share a bus, so a session that needs its own bus gets its own
//! folder.

pub mod database;
#[cfg(unix)]
mod events;
#[cfg(unix)]
mod http;
#[cfg(unix)]
mod newer_server;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod scripts;
#[cfg(unix)]
mod server;

#[cfg(unix)]
pub use self::{
    events::Events,
    newer_server::NewerServer,
    program::OpenCode,
    scripts::{opencode_newer_scripts, opencode_scripts},
    server::Server,
};
