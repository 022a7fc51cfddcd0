//! The strict provider, tested: what it takes, what it refuses, and that it refuses every rule.

pub(crate) mod client;
mod conversations;
mod mutants;
