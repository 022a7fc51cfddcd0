//! Where records come from while a session goes on.
//!
//! Every source ends in [`Session::accept`](crate::Session::accept); what differs is how it waits.

mod claude;
mod folder;
mod opencode;
mod opencode_db;
mod pipe;

pub use claude::ClaudeFollower;
pub use folder::{FolderFollower, FolderNews, claude_sessions};
pub use opencode::{OpencodeServer, ServerError, ServerSession};
pub use opencode_db::{DatabaseError, DbSession, LogRead, OpencodeDb, OpencodeDbFollower};
pub use pipe::{Pipe, follow_pipe};
