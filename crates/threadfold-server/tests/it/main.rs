//! Tests of the server, through real connections on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod api;
mod connection;
mod embed;
mod gap_free;
mod hostile_ids;
mod ingest;
mod names;
mod page;
mod permission;
mod reference;
mod server;
mod slow_client;
mod summaries;
mod websocket;
