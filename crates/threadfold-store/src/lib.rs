//! Where sessions are kept: records as they came, snapshots, blobs; and one writer at a time.
//!
//! ```text
//! source ─► record ─► store ─► converter ─► events ─► reduce ─► state ─► bus ─► client
//!                   └─ this ─┘
//! ```
//!
//! A session's log is a sequence of records, which are bytes, numbered from 1 without a gap.
//! Everything else that is known of a session is derived from them and can be made again.
//!
//! ```
//! use std::time::Duration;
//! use threadfold_core::SessionId;
//! use threadfold_store::{
//!     Append, BatchId, Holder, Limit, LogId, MemoryStore, NewRecord, RecordKind, Store, Timestamp,
//! };
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let (store, session, now) = (MemoryStore::default(), SessionId::from("s1"), Timestamp(0));
//! store.create(&session, LogId::from("l1"), now).await?;
//! let me = Holder { what: "an example".into(), ..Holder::default() };
//! let lease = store.acquire(&session, &me, now, Duration::from_secs(30), None).await?;
//! let record = NewRecord {
//!     kind: RecordKind::Line,
//!     source: 1,
//!     position: 0,
//!     received: now,
//!     bytes: "{}\n".into(),
//! };
//! let append = Append {
//!     session: session.clone(),
//!     epoch: lease.epoch,
//!     after: 0,
//!     batch: BatchId([1; 16]),
//!     records: vec![record],
//! };
//! assert_eq!(store.append(append.clone()).await?.last, 1);
//! // Said again after a lost acknowledgement, it is the same append.
//! assert_eq!(store.append(append).await?.last, 1);
//! assert_eq!(store.read(&session, 0, Limit::default()).await?.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It knows no agent and folds nothing: what the bytes mean is for others to say.

mod blob;
mod cursor;
mod error;
mod lease;
mod log;
mod memory;
pub mod pack;
mod record;
mod snapshot;
mod store;

pub use blob::BlobHash;
pub use cursor::{Cursor, CursorError};
pub use error::StoreError;
pub use lease::{Epoch, Holder, Lease};
pub use log::{Append, Appended, BatchId, Head, LogId, SessionEntry};
pub use memory::MemoryStore;
pub use record::{NewRecord, RecordKind, StoredRecord, Timestamp};
pub use snapshot::{SnapshotCutter, SnapshotPiece, SnapshotWriter, StoredSnapshot, Summary};
pub use store::{Collected, Limit, Store};
