//! Stored sessions, as a program that uses the crate sees them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod budget;
mod collecting;
mod dropped_writes;
mod folders;
mod follow;
mod frames;
mod generation;
mod host;
mod naming;
mod observations;
mod opencode_db;
mod opencode_migration;
mod opencode_misbehaving;
mod opencode_newer_server;
mod opencode_rows;
mod opencode_server;
mod pipes;
mod recordings;
mod reindex;
mod slices;
mod snapshot_sharing;
mod snapshots;
mod stored;
mod unreliable;
