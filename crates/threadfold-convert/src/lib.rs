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
//! It opens no files and knows no clock: bytes are handed in, and names and times come from them.

mod agent;
mod borrowed;
mod bundle;
pub mod claude;
pub mod events;
pub mod lines;
mod memory;
pub mod opencode;
mod other;
mod pairs;
pub mod parity;
mod record;
pub mod recover;
mod salvage;

use threadfold_core::{Json, SessionEvent, SessionId};

pub use agent::{Agent, Format, OrderedFile, SessionFile, Shape};
pub use bundle::{Bundle, BundleFile, opens_as_bundle};
pub use memory::MemoryError;
pub use record::{Feed, FeedKind, FeedLine, TooLong};

/// How many lines of an input are looked at to recognize it.
pub const RECOGNIZED_LINES: usize = 20;

/// Which events the converters make of the same records, and which state the reducer makes of
/// them: raised with every change of either.
///
/// What was derived under another generation is folded again from the records.
pub const GENERATION: u32 = 3;

/// Turns records into events.
pub trait Converter: Send + Sync {
    /// Appends to `out` the events that `record` means.
    ///
    /// A record that is not understood becomes a block that carries it as it came.
    fn push(&mut self, line: &FeedLine<'_>, out: &mut Vec<SessionEvent>);

    /// Appends to `out` what the end of a source means: what it left open is over.
    fn finish(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>);

    /// Appends to `out` that a record was too long to be kept: where, how long, how it began.
    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>);

    /// Returns the session's id, as far as its lines named it.
    fn session(&self) -> Option<SessionId>;

    /// Returns what it remembers, so that another can go on from here in its place.
    fn memory(&self) -> Json;

    /// Returns a converter that remembers the same and goes its own way from here.
    fn fork(&self) -> Box<dyn Converter>;
}

/// The example of the project's front page, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
