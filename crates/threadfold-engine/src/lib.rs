//! Sessions that are kept and shown live: sources, the spine, slices, snapshots, the bus.
//!
//! ```text
//! source ─► record ─► store ─► converter ─► events ─► reduce ─► state ─► bus ─► client
//! └────────────────────────────── this crate ──────────────────────────────┘
//! ```
//!
//! # What it does not do
//!
//! It reads no configuration and no environment, and prints nothing: values are handed in.

mod bus;
mod cut;
mod error;
mod fold;
mod hex;
mod holder;
mod intake;
mod load;
mod original;
mod query;
mod reindex;
mod session;
mod slice;
mod snapshot;
mod source;
mod sources;
mod summary;

pub use bus::{Heard, Listener, SessionHandle};
pub use cut::{Cut, Cutter};
pub use error::EngineError;
pub use fold::{Fold, Oddity, Step, chain_of};
pub use holder::{holder, is_gone};
pub use intake::{Follower, Form, InputFile, Taken, claude_files, take_files, take_lines};
pub use load::{Loaded, load, load_with, read_on};
pub use original::originals;
pub use query::Query;
pub use reindex::{Derived, Reindexed, inspect, reindex};
pub use session::{Incoming, Options, Session};
pub use slice::{
    EnvironmentState, FileState, FileStatus, Item, Items, Policy, QueryState, QueryStatus, Slice,
    SliceError, Slices,
};
pub use snapshot::{SliceSnapshot, Snapshot, SnapshotRestoreError};
pub use source::{Chain, Source, SourceSpec, SpecKind};
pub use sources::{
    ClaudeFollower, FolderFollower, FolderNews, OpencodeServer, Pipe, ServerError, ServerSession,
    claude_sessions, follow_pipe,
};
pub use summary::SessionSummary;
