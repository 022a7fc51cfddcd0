//! The converters, on real and on hostile data.
#![expect(clippy::disallowed_methods, reason = "tests read files; the crate does not")]

mod claude_records;
mod codex;
mod combined;
mod crashes;
mod deltas;
mod law;
mod lines;
mod opencode;
mod opencode_forms;
mod opencode_newer;
mod readme;
mod recover;
mod regressions;
