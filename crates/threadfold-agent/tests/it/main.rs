//! Tests of the loop at its boundaries: what is sent, what is recorded, and what runs.

mod resuming;
mod running;
mod support;
mod typed;
