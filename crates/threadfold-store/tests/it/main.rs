//! What stores promise, asked of each; and what can befall a file.

mod cuts;
mod damage;
mod memory;
mod opening;
mod sharing;
mod sqlite;
#[cfg(target_os = "linux")]
mod unwritable;
