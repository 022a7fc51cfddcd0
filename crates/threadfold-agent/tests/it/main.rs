//! The agent crate from the outside: what is sent, what is recorded, and what runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod providers;
mod resuming;
mod running;
mod support;
mod typed;
