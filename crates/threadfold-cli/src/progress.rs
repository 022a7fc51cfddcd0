//! How far something is that takes long: a line on stderr that goes away again.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// What is done sooner needs no words.
const QUIET: Duration = Duration::from_millis(200);
/// How often the line is written anew.
const PACE: Duration = Duration::from_millis(50);

/// A counter on stderr, if that is a terminal.
pub(crate) struct Progress {
    done: usize,
    total: Option<usize>,
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// Counts sessions that are read.
    pub(crate) fn new(total: usize) -> Self {
        Self { total: Some(total), ..Self::of_files() }
    }

    /// Counts files that are looked at, however many there are.
    pub(crate) fn of_files() -> Self {
        let next = io::stderr().is_terminal().then(|| Instant::now() + QUIET);
        Self { done: 0, total: None, next, is_shown: false }
    }

    /// Counts one that is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        let now = Instant::now();
        if self.next.is_some_and(|next| now >= next) {
            self.next = Some(now + PACE);
            self.is_shown = true;
            // When nobody sees it, nobody misses it.
            let done = self.done;
            let written = match self.total {
                Some(total) => write!(io::stderr(), "\r{done} of {total} sessions read"),
                None => write!(io::stderr(), "\r{done} files looked at"),
            };
            written.ok();
        }
    }

    /// Takes the line away.
    pub(crate) fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            write!(io::stderr(), "\r{}\r", " ".repeat(60)).ok();
        }
    }
}
