//! Stored and live sessions: discovers, writes and streams them.
//!
//! ```text
//! source ─► record ─► store ─► fold ─► state, changes ─► frame ─► client
//! └───────────────────────── this crate ─────────────────────────┘
//! ```
//!
//! A session has one writer at a time. Each incoming record is stored, then folded, then published;
//! the user's own slices receive the same records, and are restored when a session is reopened.
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
//! It reads no configuration and no environment, and prints nothing: the caller passes values in.

mod agent_database;
pub mod agents;
mod collector;
mod content_watcher;
mod copy;
mod discover;
mod error;
mod file_stamp;
mod file_watcher;
mod files;
mod folder;
mod found_session;
mod frame;
mod freshness;
mod glance;
mod holder;
mod host;
mod http_client;
mod import_index;
mod imported_files;
mod ingest;
mod inspect;
mod listeners;
mod load;
mod naming;
mod open_path;
mod originals;
mod packed;
mod parts_on_disk;
mod piece_table;
mod pipe;
mod reindex;
mod removed_sessions;
mod salvage;
mod server;
mod session;
mod session_row;
mod shown_address;
mod snapshot_writer;
mod spill_file;
mod stored_text;
mod transcript_observer;
mod transient;
mod unread;
mod verify;
mod writers;

pub use agent_database::{DatabaseError, DatabaseProblem};
pub use agents::{
    Machine, is_below_session_folder, place_variables, project_from_path, restore_folders,
};
pub use collector::{Collector, CollectorObserver, CollectorOptions, FoundSessions, ImportCount};
pub use content_watcher::ContentWatcher;
pub use copy::{CopyReport, copy_session};
pub use discover::{Discovery, adopt_children};
pub use error::EngineError;
pub use file_watcher::{FileChanges, FileWatcher};
pub use files::{Form, InputFile, Intake, read_files};
pub use folder::{FolderFollower, FolderUpdate};
pub use found_session::{Follow, FoundSession, IdOrigin, LostContent, SessionContent, Stamp};
pub use frame::{
    Delivery, Frame, FrameKind, FrameLine, GapReason, PROTOCOL, REDUCER, SharedStep, View,
    slices_of,
};
pub use freshness::{Freshness, freshness, noted_summary};
pub use holder::{holder, is_gone};
pub use host::{
    Arrival, FrameListener, Host, ListedSession, ListenOptions, SessionListPage, SessionQuery,
};
pub use http_client::http_client;
pub use import_index::{
    ContentStamp, ImportIndex, ImportedSession, KnownImport, import_index_path,
};
pub use imported_files::{ImportedContent, ImportedFiles, import_content};
pub use ingest::{PushError, PushReceipt, PushedBytes, accept_pushed};
pub use inspect::inspect;
pub use listeners::{Listener, SessionHandle, Update};
pub use load::{LoadReport, advance_fold, load, load_within};
pub use naming::{SessionNames, duplicate_names};
pub use open_path::{
    InputError, InputOptions, detect_input, has_nothing_yet, is_container, open_one, open_path,
};
pub use originals::originals;
pub use parts_on_disk::PartsOnDisk;
pub use pipe::{Pipe, PipeInput, follow_pipe};
pub use reindex::{IndexState, ReindexReport, reindex};
pub use removed_sessions::RemovedSessions;
pub use salvage::salvage;
pub use server::{Server, ServerAccess, ServerError, Stop, server_at};
pub use session::{Options, RecordInspector, Session};
pub use session_row::{RowLocation, RowReader, SessionRow};
pub use spill_file::Budget;
pub use transcript_observer::ObservedFollower;
pub use transient::{read_found, read_pipe, records_of};
pub use unread::{Unit, UnreadContent, unread_content, unread_on};
pub use verify::{StoredComparison, ended, verify_stored};
pub use writers::{SessionWriter, Writers};
