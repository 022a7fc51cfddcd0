//! The reducer's rules, by example and as laws.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod edge_cases;
mod hash;
mod laws;
mod providers;
mod rules;
mod shelf;
mod turns;
mod wire;
