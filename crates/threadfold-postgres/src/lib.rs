//! A store in a PostgreSQL database, for several machines.
//!
//! ```text
//! appends ─► one statement ─► tail ─► groups ─► blobs
//!            for all that     one row  many      by hash,
//!            wait here        each     records   deduplicated
//! ```
//!
//! The database orders, fences and times everything: an append names the session, the epoch of its
//! lease and the record it follows, and one statement checks all three and writes. So any number of
//! processes on any number of machines can use one store, and a process that was cut off can do no
//! harm.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use threadfold_postgres::{PostgresStore, PostgresUrl};
//! use threadfold_store::Store;
//!
//! # async fn open() -> Result<(), Box<dyn std::error::Error>> {
//! let url: PostgresUrl = "postgres://threadfold@db.example/sessions".parse()?;
//! let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&url).await?);
//! store.create(&"s1".into(), "l1".into()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! It defines no interface of its own: all of it is in `threadfold-store`. It does not copy the
//! database to a file; `pg_dump` does, and so does a copy into another store.

mod append;
mod blobs;
mod check;
mod compact;
mod connect;
mod failure;
mod group_commit;
mod leases;
mod records;
mod schema;
mod sessions;
mod size;
mod snapshots;
mod store;
mod tickets;
mod tls;
mod url;
mod wake;

pub use store::PostgresStore;
pub use url::{PostgresUrl, PostgresUrlError};
