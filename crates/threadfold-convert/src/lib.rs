//! What agents say, as Threadfold's events: live streams and transcripts, a folder per agent.
//!
//! ```text
//! source ─► record ─► store ─► converter ─► events ─► reduce ─► state ─► bus ─► client
//!                             └─ this crate ─┘
//! ```
//!
//! A converter takes records, which are bytes, and gives events. It never fails and never drops
//! a record: what it does not understand becomes a block that carries it.
//!
//! ```
//! use threadfold_convert::{Agent, SessionFile, parse_transcript};
//!
//! let line = br#"{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"Hello"}}"#;
//! let state = parse_transcript(Agent::Claude, &[SessionFile { path: "s1.jsonl", bytes: line }]);
//! assert_eq!(state.blocks().len(), 1);
//! ```
//!
//! # What it does not do
//!
//! It opens no files and knows no clock: bytes are handed in, and names and times come from them.

mod borrowed;
pub mod claude;
mod combined;
pub mod lines;
mod memory;
pub mod opencode;
pub mod other;
mod pairs;
pub mod parity;
mod record;
pub mod recover;
mod salvage;
mod whole;

use threadfold_core::{Json, SessionEvent, SessionId};

pub use combined::{Unpacked, unpack};
pub use memory::{MemoryError, converter_from};
pub use record::{Agent, Feed, FeedKind, Record, TooLong};
pub use whole::{SessionFile, convert_all, convert_files, parse_transcript};

/// Which events the converters make of the same records, and which state the reducer makes of
/// them: raised with every change of either.
///
/// What was derived under another generation is folded again from the records.
pub const GENERATION: u32 = 2;

/// Turns records into events.
pub trait Converter: Send + Sync {
    /// Appends to `out` the events that `record` means.
    ///
    /// A record that is not understood becomes a block that carries it as it came.
    fn push(&mut self, record: &Record<'_>, out: &mut Vec<SessionEvent>);

    /// Appends to `out` what the end of a source means: what it left open is over.
    fn finish(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>);

    /// Appends to `out` that a record was too long to be kept: where, how long, how it began.
    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>);

    /// Returns what it remembers, so that another can go on from here in its place.
    fn memory(&self) -> Json;

    /// Returns a converter that remembers the same and goes its own way from here.
    fn fork(&self) -> Box<dyn Converter>;
}

/// Returns a converter for one session of `agent`.
pub fn converter(agent: Agent) -> Box<dyn Converter> {
    match agent {
        Agent::Claude => Box::new(claude::ClaudeConverter::default()),
        Agent::Opencode => Box::new(opencode::OpencodeConverter::default()),
        Agent::Other => Box::new(other::OtherConverter::default()),
    }
}

/// Returns a converter for the session of that name; others of the same source are passed over.
pub fn converter_of_session(agent: Agent, session: &SessionId) -> Box<dyn Converter> {
    match agent {
        Agent::Claude => converter(agent),
        Agent::Opencode => Box::new(opencode::OpencodeConverter::of_session(session.as_str())),
        Agent::Other => Box::new(other::OtherConverter::of_session(session)),
    }
}

/// The example of the project's front page, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
