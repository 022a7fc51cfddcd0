//! How records become bytes that a store keeps, and back: pure, and the same for every store.
//!
//! ```text
//! records ─► escape ─► cut ─► group ─► squeeze
//!            ids and    where   content, shared      zstd
//!            long texts a group and meta, per
//!            taken out  ends    session
//! ```
//!
//! A fork of a session has the same lines, with another session's id in them. So the id is taken
//! out before anything is hashed, and groups end where the content says so and not at a round
//! number: wherever two logs tell the same, their groups are the same bytes and are kept once.
//!
//! What is not named by its hash ends with a seal, so that a bit that flipped is noticed.

mod chunks;
mod cut;
mod directory;
mod escape;
mod group;
mod meta;
mod number;
mod row;
mod seal;
mod squeeze;
#[cfg(test)]
mod tests;

pub(crate) use chunks::{LONGEST_CHUNK, chunks};
pub(crate) use directory::{DirectoryEntry, pack_directory, unpack_directory};
pub(crate) use group::{Group, Packed, Packer, named_blobs, unpack};
pub(crate) use meta::{Batch, batches};
pub(crate) use row::{merge_rows, pack_row, unpack_row};
pub(crate) use squeeze::{squeeze, unsqueeze};

/// Why bytes are not what this module made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);
