//! A client of Threadfold's server.
//!
//! ```text
//! server ─► frames over SSE ─► events ─► reduce ─► state
//!           └──────────────── this crate ──────────────┘
//! ```
//!
//! [`SessionMirror`] folds frames with the same reducer as the server, so its state has the
//! server's hash. [`Client::follow`] feeds it, and reconnects after every interruption from the last
//! cursor, with growing pauses.
//!
//! ```no_run
//! use threadfold_client::{Client, FollowEvent};
//!
//! # async fn watch() -> Result<(), threadfold_client::ClientError> {
//! let client = Client::new("http://127.0.0.1:4127", Some("the token".to_owned()))?;
//! let mut session = client.follow("a-session");
//! while let FollowEvent::Changed = session.next().await? {
//!     println!("{} blocks", session.mirror().state().blocks().len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! It stores nothing: a client that starts again begins with a snapshot.

mod client;
mod error;
mod follow;
mod frame_stream;
mod mirror;
mod pause;
mod sse;

pub use client::{Client, PushOutcome, RemoteStatus};
pub use error::ClientError;
pub use follow::{FollowEvent, FollowedSession};
pub use frame_stream::FrameStream;
pub use mirror::{MirrorError, SessionMirror};
pub use pause::Pauses;
pub use sse::EventReader;
