//! What stores promise, asked of each.

mod memory;
mod sqlite;
