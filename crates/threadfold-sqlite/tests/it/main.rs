//! The store suite, and everything that can happen to an SQLite file.

mod corruption;
mod opening;
mod room;
mod sharing;
mod suite;
mod truncation;
#[cfg(target_os = "linux")]
mod unwritable;
