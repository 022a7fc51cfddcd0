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
//! # What it does not do
//!
//! It knows no agent and folds nothing: what the bytes mean is for others to say.

mod blob;
mod cursor;
mod error;
mod lease;
mod log;
mod memory;
mod pack;
mod record;
mod snapshot;
mod sqlite;
mod store;

pub use blob::BlobHash;
pub use cursor::{Cursor, CursorError};
pub use error::StoreError;
pub use lease::{Epoch, Holder, Lease};
pub use log::{Append, Appended, BatchId, Head, LogId, SessionEntry};
pub use memory::MemoryStore;
pub use record::{NewRecord, RecordKind, StoredRecord, Timestamp};
pub use snapshot::{StoredSnapshot, Summary};
pub use sqlite::{Finding, Size, SqliteStore};
pub use store::{Collected, Limit, Store};
