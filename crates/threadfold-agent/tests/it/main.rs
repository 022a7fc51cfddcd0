//! The agent crate, as a program that uses it sees it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod builtin;
mod calls;
#[cfg(unix)]
mod confined;
#[cfg(unix)]
mod mcp;
#[cfg(unix)]
mod mcp_server;
#[cfg(unix)]
mod shell;
