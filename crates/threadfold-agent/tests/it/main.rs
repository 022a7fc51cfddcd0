//! Tests of the loop at its boundaries: what is sent, what is recorded, and what runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod resuming;
mod running;
mod support;
mod typed;
