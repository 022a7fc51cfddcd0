//! The store suite, and everything that can happen to an SQLite file.

mod cuts;
mod damage;
mod opening;
mod sharing;
mod suite;
#[cfg(target_os = "linux")]
mod unwritable;
