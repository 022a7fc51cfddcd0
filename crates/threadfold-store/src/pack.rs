//! Packs records into the bytes that a database stores, and unpacks them again.
//!
//! ```text
//! records ─► escape ─► cut ─► group ─► compress
//!            session    find    content (shared)   zstd
//!            ids and    the end and meta (of one
//!            long texts         session)
//!            extracted
//! ```
//!
//! The module is pure and knows no database: every store that deduplicates content uses it, so a
//! session takes the same bytes in each.
//!
//! A fork of a session repeats its lines with another session id in them. So the session's own id
//! is replaced by a marker before anything is hashed, and group boundaries are content-defined
//! instead of after a fixed number of records. Wherever two logs have the same lines, their groups
//! are the same bytes, and a store keeps them once.
//!
//! | form | made by | used for |
//! |---|---|---|
//! | row | [`pack_row`] | the records of one append: fast to write, compressed if they are long, not deduplicated |
//! | group | [`Packer`] | many records: compressed, deduplicated by [`BlobHash`](crate::BlobHash) |
//! | directory | [`pack_directory`] | an index of rows of several sessions that were written together |
//! | chunks | [`chunks`] | content-defined pieces of a snapshot |
//!
//! Everything that is not named by its hash ends with a checksum, so that a flipped bit is found.
//!
//! > **Invariant:** packing is part of the on-disk format. A change here must still unpack what
//! > earlier versions packed.

mod checksum;
mod chunks;
mod compress;
mod compressed;
mod directory;
mod escape;
mod group_boundary;
mod meta;
mod number;
mod packer;
mod prepared_append;
mod read_progress;
mod row;
mod salvage;
mod tail;
#[cfg(test)]
mod tests;

pub use chunks::chunks;
pub(crate) use chunks::{ChunkSizes, chunks_of};
pub use compress::{compress, decompress};
pub use compressed::{CompressedContent, CompressedGroup};
pub use directory::{DirectoryEntry, pack_directory, unpack_directory};
pub use escape::Extract;
pub use meta::{Batch, batches};
pub use packer::{Group, PackedGroup, Packer, named_blobs, unpack};
pub use prepared_append::{AppendContent, PreparedAppend, is_long};
pub use read_progress::{MissingRecord, ReadProgress};
pub use row::{merge_rows, pack_row, unpack_row};
pub use salvage::{carve_records, decompress_partly, salvage_group, salvage_row};
pub use tail::{TailRow, all_groups, complete_groups};

/// Why bytes cannot be unpacked: they are corrupt, or this module did not make them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PackError(pub(crate) &'static str);
