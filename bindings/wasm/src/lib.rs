//! The reducer and the converters for WebAssembly.
//!
//! ```text
//! host ─► bytes in the input buffer ─► core, fold ─► bytes in the output buffer ─► host
//!                          └────────── this crate ──────────┘
//! ```
//!
//! The host writes text into a buffer, calls a function with numbers, and reads text from another
//! buffer. States and folds stay on this side; the host has their handles. There are no imports, so
//! the same file runs in browsers, Node and an interpreter inside the tests.
//!
//! # What it does not do
//!
//! It adds no behaviour to the crates that it exposes, decompresses nothing, and shows nothing:
//! the npm package above it has the interface for people.

mod abi;
mod engine;
#[cfg(feature = "convert")]
mod folds;
mod handles;
mod input;
mod output;
mod states;
#[cfg(feature = "verify")]
mod verify;

pub use abi::*;
