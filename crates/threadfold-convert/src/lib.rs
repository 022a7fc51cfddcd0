//! Converts the records of coding agents to Threadfold's events: one folder per agent.
//!
//! ```text
//! source ─► record ─► store ─► converter ─► events ─► reduce ─► state ─► bus ─► client
//!                             └─ this crate ─┘
//! ```
//!
//! A converter reads lines and emits events. It never fails and never drops a line: a line that it
//! does not understand becomes a block that carries it.
//!
//! ```
//! use threadfold_convert::{Feed, FeedKind, FeedLine, claude};
//!
//! let bytes = br#"{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"Hello"}}"#;
//! let feed = Feed::new(claude::AGENT, FeedKind::Main, "main");
//! let mut events = Vec::new();
//! claude::AGENT.converter().push(&FeedLine { feed: &feed, number: 1, bytes }, &mut events);
//! assert!(events.iter().any(|event| event.payload.kind() == "block:upsert"));
//! ```
//!
//! # What it does not do
//!
//! It opens no files and reads no clock: the caller passes bytes, and ids and times come from them.

mod agent;
mod borrowed;
mod bundle;
pub mod claude;
pub mod codex;
mod corrupt_lines;
mod ending;
pub mod events;
mod files;
mod hash_map;
pub mod lines;
mod memory;
pub mod opencode;
mod other;
mod pairs;
pub mod parity;
mod plain_json;
mod record;
pub mod recover;

use std::io;

use threadfold_core::{Json, SessionEvent, SessionId};

pub use agent::{Agent, Format, OrderedFile, SessionFile, Shape};
pub use bundle::{Bundle, BundleFile, opens_as_bundle};
pub use memory::MemoryError;
pub use record::{Feed, FeedKind, FeedLine, TooLong};

/// How many lines of an input are read to recognize it.
pub const RECOGNIZED_LINES: usize = 20;

/// The version of converters and reducer: raised whenever the same records give other events or
/// another state.
///
/// Snapshots and summaries of another generation are rebuilt from the records.
pub const GENERATION: u32 = 9;

/// How much of a feed's end was converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndProgress {
    /// More events follow.
    More,
    /// These were the last events.
    Complete,
}

/// Converts the lines of one session to events.
pub trait Converter: Send + Sync {
    /// Appends to `out` the events of a line.
    ///
    /// A line that is not understood becomes a block that carries it unchanged.
    fn push(&mut self, line: &FeedLine<'_>, out: &mut Vec<SessionEvent>);

    /// Appends to `out` the events of a feed's end: everything that it left open is closed.
    fn finish(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) {
        while self.finish_portion(feed, out) == EndProgress::More {}
    }

    /// Appends to `out` the next events of a feed's end, and returns whether there are more.
    ///
    /// Each of very many subagents ends with the feed, and an event takes much more memory than the
    /// line that it came from.
    fn finish_portion(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) -> EndProgress;

    /// Appends to `out` a warning and a block for a line that is too long to be converted.
    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>);

    /// Returns the session's id, once a line has named it.
    fn session(&self) -> Option<SessionId>;

    /// Returns the converter's memory, from which another one can continue.
    fn memory(&self) -> Json;

    /// Writes the converter's memory as JSON. It may be as large as the input, and is written
    /// without being in memory a second time.
    fn write_memory(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(self.memory().as_str().as_bytes())
    }

    /// Returns an independent converter with the same memory.
    fn fork(&self) -> Box<dyn Converter>;
}

/// Runs the example of the project's README as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
