//! Counts what is visited, so that tests can measure how the work grows with the input.
//!
//! A test of growth must not depend on a clock. Every loop over blocks, turns or subagents counts
//! its rounds here; in a release build that is nothing.

use std::cell::Cell;

thread_local! {
    static VISITS: Cell<u64> = const { Cell::new(0) };
}

/// Counts one thing that was looked at.
#[inline]
pub fn visit() {
    if cfg!(debug_assertions) {
        VISITS.with(|it| it.set(it.get() + 1));
    }
}

/// Returns how many things this thread has looked at; always 0 in a release build.
pub fn visits() -> u64 {
    VISITS.with(Cell::get)
}
