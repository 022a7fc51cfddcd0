//! Counts what is visited and read, so that tests can measure how the work grows with the input.
//!
//! A test of growth must not depend on a clock. Every loop over blocks, turns or subagents counts
//! its rounds here, and whatever checks, renders or hashes a request the bytes that it reads; in a
//! release build that is nothing.

use std::cell::Cell;

thread_local! {
    static VISITS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Counts one thing that was looked at.
#[inline]
pub fn visit() {
    if cfg!(debug_assertions) {
        VISITS.with(|it| it.set(it.get() + 1));
    }
}

/// Counts bytes that were read or written.
#[inline]
pub fn read(bytes: usize) {
    if cfg!(debug_assertions) {
        BYTES.with(|it| it.set(it.get() + bytes as u64));
    }
}

/// Returns how many nodes this thread has visited; always 0 in a release build.
pub fn visits() -> u64 {
    VISITS.with(Cell::get)
}

/// Returns how many bytes this thread has read or written; always 0 in a release build.
pub fn bytes() -> u64 {
    BYTES.with(Cell::get)
}
