//! A store in one file, by way of SQLite.
//!
//! ```text
//! appends ─► writer thread ─► tail ─► groups ─► blobs
//!            one commit for   a row    many      by hash,
//!            all that wait    each     records   shared
//! ```
//!
//! A commit is durable before any append in it is acknowledged: write-ahead mode, with a sync at
//! every commit. Any number of processes may use the file at once.

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
mod records;
mod schema;
mod sessions;
mod size;
mod snapshots;
mod store;
mod wake;
mod writer;

pub use check::Finding;
pub use size::Size;
pub use store::SqliteStore;
