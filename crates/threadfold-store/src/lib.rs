//! The interface of Threadfold's stores: records, leases, snapshots and blobs.
//!
//! ```text
//! source ─► record ─► store ─► converter ─► events ─► reduce ─► state ─► bus ─► client
//!                   └─ this ─┘
//! ```
//!
//! A session's log is a sequence of records, which are bytes, numbered from 1 without a gap.
//! Everything else about a session is derived from them and can be rebuilt.
//!
//! [`Store`] is the interface, split by concern: [`LogStore`], [`LeaseStore`], [`DerivedStore`],
//! [`BlobStore`], [`TicketStore`] and [`Maintenance`]. [`MemoryStore`] implements it here; stores that use
//! a database are crates of their own, and share [`pack`].
//!
//! ```
//! use std::time::Duration;
//! use threadfold_core::SessionId;
//! use threadfold_fold::{LogId, Record, RecordKind};
//! use threadfold_store::{Append, BatchId, Holder, Limit, MemoryStore, Store};
//! use std::sync::Arc;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
//! let session = SessionId::from("s1");
//! store.create(&session, LogId::from("l1")).await?;
//! let me = Holder { what: "an example".into(), ..Holder::default() };
//! let lease = store.acquire(&session, &me, Duration::from_secs(30)).await?;
//! let record = Record::new(RecordKind::Line, 1, 0, "{}\n");
//! let append = Append {
//!     session: session.clone(),
//!     epoch: lease.epoch,
//!     after: 0,
//!     batch: BatchId([1; 16]),
//!     records: vec![record],
//! };
//! assert_eq!(store.append(append.clone()).await?.last, 1);
//! // A retry after a lost acknowledgement is the same append.
//! assert_eq!(store.append(append).await?.last, 1);
//! assert_eq!(store.read(&session, 0, Limit::default()).await?.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It knows no agent and folds nothing: records are bytes to it.

mod blob;
mod change_position;
mod clock;
mod error;
mod lease;
mod log;
mod maintenance;
mod memory;
pub mod pack;
mod query;
mod snapshot;
mod store;
mod ticket;

pub use blob::{BlobHash, BlobHashError};
pub use change_position::{ChangeCounter, ChangePosition, ChangeWaiter};
pub use clock::Clock;
pub use error::StoreError;
pub use lease::{Epoch, Holder, Lease};
pub use log::{Append, AppendReceipt, BatchId, LogHead, SessionEntry};
pub use maintenance::{Finding, GarbageReport, Remedy, StoreSize, Subject};
pub use memory::MemoryStore;
pub use query::{Limit, ListQuery, SessionPage};
pub use snapshot::{
    SnapshotCutter, SnapshotEnd, SnapshotPiece, SnapshotPieces, SnapshotWriter, StoredSnapshot,
    Summary,
};
pub use store::{BlobStore, DerivedStore, LeaseStore, LogStore, Maintenance, Store, TicketStore};
pub use ticket::{TicketHash, TicketUse};
