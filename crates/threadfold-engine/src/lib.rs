//! Sessions that are kept and shown live: sources, the spine, slices, snapshots, the bus.
//!
//! ```text
//! source ─► record ─► store ─► converter ─► events ─► reduce ─► state ─► bus ─► client
//! └────────────────────────────── this crate ──────────────────────────────┘
//! ```
//!
//! A session is opened for writing by one at a time. What comes in is kept, then understood, then
//! shown; a slice of the user's own hears the same records, and is there again after reopening.
//!
//! ```
//! use std::sync::Arc;
//! use serde::{Deserialize, Serialize};
//! use threadfold_engine::{Item, Options, Session, Slice, Slices, holder};
//! use threadfold_store::{MemoryStore, Store};
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! struct Note(String);
//!
//! impl Item for Note {
//!     const TYPE: &'static str = "note";
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
//! let mut slices = Slices::default();
//! slices.register(Slice::<Note>::new("notes").append_all())?;
//! let options = Options { slices, ..Options::new(holder("an example")) };
//!
//! let mut session = Session::open(store, &"s1".into(), options).await?;
//! session.dispatch(&Note("look at the tests".into())).await?;
//! assert_eq!(session.query::<Note>()?.all().count(), 1);
//! session.close().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
mod shelf;
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
pub use intake::{
    Follower, Form, InputFile, Taken, claude_files, has_file, take_files, take_lines,
};
pub use load::{Loaded, load, load_within, read_on};
pub use original::{originals, salvage};
pub use query::Query;
pub use reindex::{Derived, Reindexed, inspect, reindex};
pub use session::{Incoming, Options, Session};
pub use shelf::Budget;
pub use slice::{
    EnvironmentState, FileState, FileStatus, Item, Items, Policy, QueryState, QueryStatus, Slice,
    SliceError, Slices,
};
pub use snapshot::{SliceSnapshot, Snapshot, SnapshotRestoreError};
pub use source::{Chain, Source, SourceSpec, SpecKind};
pub use sources::{
    ClaudeFollower, DatabaseError, DbSession, FolderFollower, FolderNews, LogRead, OpencodeDb,
    OpencodeDbFollower, OpencodeServer, Pipe, ServerError, ServerSession, claude_sessions,
    follow_pipe,
};
pub use summary::SessionSummary;
