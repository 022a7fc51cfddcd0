//! The loop crate from the outside: what is sent, what is recorded, and what runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod builtin;
mod calls;
#[cfg(unix)]
mod confined;
mod growth;
#[cfg(unix)]
mod marks;
#[cfg(unix)]
mod mcp;
#[cfg(unix)]
mod mcp_server;
mod providers;
mod resuming;
mod running;
#[cfg(unix)]
mod shell;
mod stopping;
mod support;
mod truncate;
mod typed;
#[cfg(target_os = "linux")]
mod unknown_outcome;
