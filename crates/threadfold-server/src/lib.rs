//! Threadfold's sessions over HTTP: one state, any number of clients, no gap.
//!
//! ```text
//! store ─► host ─► feed: each record framed once ─► shared log of bytes ─► SSE, WebSocket
//! └──────────── threadfold-engine ┘└──────────────────── this crate ───────────────────┘
//! ```
//!
//! [`router`] mounts in any axum program, behind its own authentication or with a token;
//! [`Server::serve`] serves it with limits; [`Server::session`] gives the program around it the same
//! sessions, to emit events and to read states.
//!
//! ```
//! use std::sync::Arc;
//! use threadfold_core::SessionEvent;
//! use threadfold_engine::Host;
//! use threadfold_server::{Access, Server, ServerOptions};
//! use threadfold_store::MemoryStore;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let host = Host::new(Arc::new(MemoryStore::default()));
//! let access = Access::behind_own_auth(&["http://127.0.0.1:8080"]);
//! let server = Server::new(host, ServerOptions::new(access));
//! let router: axum::Router = axum::Router::new().merge(server.router());
//!
//! let event = SessionEvent::from_json(r#"{"type":"session:idle"}"#)?;
//! let cursor = server.session("s1").emit(&[event]).await?;
//! assert_eq!(cursor.seq, 1);
//! # drop(router);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It reads no configuration and no environment, and finds no sessions on the machine: the program
//! passes a [`Catalog`] that it keeps. It has no accounts: whoever has the token may do everything.

mod access;
mod api;
mod catalog;
mod connection;
mod event_stream;
mod feed;
mod live;
mod machine;
mod metrics;
mod options;
mod page_files;
mod problem;
mod pulse;
mod router;
mod serve;
mod server;
mod shared;
mod shared_log;
mod status;
mod store_rows;
mod subscription;
mod summary_feed;
mod tickets;
mod view_options;
mod websocket_frame;

pub use access::{Access, Token};
pub use api::openapi;
pub use catalog::{Catalog, CatalogPage, CatalogQuery, CatalogRow};
pub use machine::{MachineOptions, MachineSessions};
pub use options::{FetchSession, Limits, RemovingSession, ServerOptions, SessionFilter};
pub use problem::Problem;
pub use router::router;
pub use server::{HostedSession, Server};
pub use status::{ImportProgress, StatusReport, UnreadReport};
pub use store_rows::{follow_store, stored_rows};
