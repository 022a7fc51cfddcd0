//! Sessions that are stored and shown live: where they are found, how they are written, who listens.
//!
//! ```text
//! source ─► record ─► store ─► fold ─► state, changes ─► frame ─► client
//! └───────────────────────── this crate ─────────────────────────┘
//! ```
//!
//! A session is opened for writing by one at a time. What comes in is stored, then folded, then
//! shown; a slice of the user's own receives the same records, and is there again after reopening.
//!
//! ```
//! use std::sync::Arc;
//! use serde::{Deserialize, Serialize};
//! use threadfold_engine::{Options, Session, holder};
//! use threadfold_fold::{Item, Slice, Slices};
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

pub mod agents;
mod bus;
mod database;
mod discover;
mod error;
mod files;
mod folder;
mod found;
mod frame;
mod freshness;
mod holder;
mod host;
mod input;
mod load;
mod naming;
mod original;
mod pipe;
mod reindex;
mod server;
mod session;
mod snapshot_writer;
mod spill;
mod transient;

pub use agents::{Machine, is_below_session_folder, place_variables, project_from_path};
pub use bus::{Listener, SessionHandle, Update};
pub use database::{DatabaseError, DatabaseProblem};
pub use discover::{Discovery, adopt_children};
pub use error::EngineError;
pub use files::{Form, InputFile, Intake, read_files};
pub use folder::{FolderFollower, FolderUpdate};
pub use found::{Follow, FoundSession, Naming, SessionContent, Stamp};
pub use frame::{Delivery, Frame, PROTOCOL, REDUCER, SharedStep, View};
pub use freshness::{Freshness, freshness, noted_summary};
pub use holder::{holder, is_gone};
pub use host::{
    Arrival, FrameListener, Host, ListedSession, ListenOptions, SessionListPage, SessionQuery,
};
pub use input::{
    InputError, InputOptions, detect_input, has_nothing_yet, is_container, open_one, open_path,
};
pub use load::{Loaded, load, load_within, read_on};
pub use naming::{SessionNames, duplicate_names};
pub use original::{originals, salvage};
pub use pipe::{Pipe, PipeInput, follow_pipe};
pub use reindex::{Derived, Reindexed, inspect, reindex};
pub use server::{Server, ServerError, Stop, server_at};
pub use session::{Options, Session};
pub use spill::Budget;
pub use transient::{read_found, read_pipe, records_of};
