//! A progress line on stderr, which is erased at the end.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shorter operations show no progress.
const QUIET: Duration = Duration::from_millis(200);
/// How often the line is redrawn.
const PACE: Duration = Duration::from_millis(50);

/// A counter on stderr, if that is a terminal.
pub(crate) struct Progress {
    done: usize,
    total: Option<usize>,
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// Counts sessions while they are read.
    pub(crate) fn new(total: usize) -> Self {
        Self { total: Some(total), ..Self::of_files() }
    }

    /// Counts files while they are checked; their total is unknown.
    pub(crate) fn of_files() -> Self {
        let next = can_redraw().then(|| Instant::now() + QUIET);
        Self { done: 0, total: None, next, is_shown: false }
    }

    /// Counts one more.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        let now = Instant::now();
        if self.next.is_some_and(|next| now >= next) {
            self.next = Some(now + PACE);
            self.is_shown = true;
            // A failure to draw progress is ignored.
            let done = self.done;
            let written = match self.total {
                Some(total) => write!(io::stderr(), "\r{done} of {total} sessions read"),
                None => write!(io::stderr(), "\r{done} files checked"),
            };
            written.ok();
        }
    }

    /// Erases the line.
    pub(crate) fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            write!(io::stderr(), "\r{}\r", " ".repeat(60)).ok();
        }
    }
}

/// Returns whether stderr is a terminal that can draw a line again; a dumb one has no such control.
fn can_redraw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|it| it != "dumb")
}
