//! Tests of the strict provider: accepted requests, refused requests, and coverage of every rule.

pub(crate) mod client;
mod conversations;
mod mutants;
