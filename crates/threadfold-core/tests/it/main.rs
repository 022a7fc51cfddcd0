//! Tests of the reducer: examples and property tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod edge_cases;
mod hash;
mod laws;
mod outline;
mod providers;
mod rules;
mod spill;
mod subagents;
mod turns;
mod wire;
