//! The fold, on real and on hostile data.
#![expect(clippy::disallowed_methods, reason = "tests read files; the crate does not")]

mod claude_history;
mod claude_subagents;
mod claude_usage;
mod crashes;
mod cutter;
mod glance;
mod growth;
mod law;
mod parity;
mod recorded;
mod settling;
mod short_lines;
mod slices;
mod spill;
