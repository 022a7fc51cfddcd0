//! A store in one SQLite file.
//!
//! ```text
//! appends ─► writer thread ─► tail ─► groups ─► blobs
//!            one commit for   one row  many      by hash,
//!            all that wait    each     records   deduplicated
//! ```
//!
//! The file is in WAL mode and every commit is synced, so an append is durable before it is
//! acknowledged. Any number of processes can use the file at the same time.
//!
//! ```
//! use std::sync::Arc;
//!
//! use threadfold_sqlite::SqliteStore;
//! use threadfold_store::Store;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("store.db");
//! let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path)?);
//! store.create(&"s1".into(), "l1".into()).await?;
//! assert!(store.entry(&"s1".into()).await?.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It defines no interface of its own: all of it is in `threadfold-store`. Network file systems,
//! whose locks SQLite cannot rely on, are not supported.

mod append;
mod backup;
mod blobs;
mod bursts;
mod cache;
mod check;
mod compact;
mod connect;
mod failure;
mod leases;
mod readers;
mod rebuild;
mod records;
mod schema;
mod sessions;
mod shared_memory;
mod size;
mod snapshots;
mod store;
mod tickets;
mod wake;
mod writer;

pub use store::SqliteStore;
