//! Sessions that are kept, as a program that uses the crate sees them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod budget;
mod dropped;
mod folders;
mod follow;
mod frames;
mod generation;
mod host;
mod kept;
mod naming;
mod opencode_db;
mod opencode_rows;
mod opencode_server;
mod opencode_unruly;
mod pipes;
mod recordings;
mod reindex;
mod slices;
mod snapshots;
mod unreliable;
