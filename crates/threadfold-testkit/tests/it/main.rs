//! The testkit, tested: the scripted model on its own, and real agents that talk to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod big_session;
#[cfg(unix)]
mod claude_control;
#[cfg(unix)]
mod claude_scripts;
mod client;
mod histories;
mod known_gap_rows;
mod model_anthropic;
mod model_faults;
mod model_openai;
mod model_responses;
#[cfg(unix)]
mod oracle;
mod parity_asides;
mod parity_codex;
#[cfg(unix)]
mod parity_codex_live;
mod parity_codex_places;
mod parity_evidence;
mod parity_file_order;
mod parity_live;
mod parity_mutations;
#[cfg(unix)]
mod parity_opencode;
#[cfg(unix)]
mod parity_opencode_newer;
mod parity_order;
mod parity_totals;
mod real;
#[cfg(unix)]
mod recording;
#[cfg(unix)]
mod recording_codex;
#[cfg(unix)]
mod store_crash;
mod strict;
