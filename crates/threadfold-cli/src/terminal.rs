//! Properties of the output terminal: whether there is one, its size, its colours.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;

/// The size that is assumed without a terminal.
const DEFAULT_WIDTH: usize = 80;
/// The minimum width for a layout.
pub(crate) const MIN_WIDTH: usize = 20;

/// When to use colours
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// If standard output is a terminal and `NO_COLOR` is not set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorChoice {
    /// Returns whether standard output is coloured.
    pub(crate) fn is_on(self) -> bool {
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
                io::stdout().is_terminal() && !set("NO_COLOR") && !is_dumb
            }
        }
    }
}

/// Returns the maximum width of a line, in columns.
pub(crate) fn width() -> usize {
    let given = || env::var("COLUMNS").ok()?.parse().ok();
    size().map(|(width, _)| width).or_else(given).unwrap_or(DEFAULT_WIDTH).max(MIN_WIDTH)
}

/// Returns the height of the screen in lines, if there is one.
pub(crate) fn height() -> Option<usize> {
    size().map(|(_, height)| height)
}

fn size() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(io::stdout())?;
    (width.0 > 0).then_some((width.0.into(), height.0.into()))
}
