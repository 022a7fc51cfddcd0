//! The agent crate from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod providers;
