//! Sessions that are kept, as a program that uses the crate sees them.

mod follow;
mod kept;
mod opencode_server;
mod pipes;
mod recordings;
mod slices;
mod snapshots;
