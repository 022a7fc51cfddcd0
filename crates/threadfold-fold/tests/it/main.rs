//! The fold, on real data and on data that was made to hurt.
#![expect(clippy::disallowed_methods, reason = "tests read files; the crate does not")]

mod crashes;
mod cutter;
mod law;
mod parity;
mod recorded;
mod spill;
