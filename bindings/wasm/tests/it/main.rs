//! The committed modules in an interpreter, against the native crates.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod core_only;
mod engine;
mod generated;
mod handles;
mod recorded;
