//! The converters, on real data and on data that was made to hurt.
#![expect(clippy::disallowed_methods, reason = "tests read files; the crate does not")]

mod crashes;
mod law;
mod lines;
mod opencode;
mod opencode_forms;
mod readme;
mod recover;
mod strangers;
