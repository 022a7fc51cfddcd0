//! What goes wrong, and how a person is told.

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};
use std::process::ExitCode;

use crate::printable::printable;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// Nobody reads on, as with `| head -1`; that is no error.
    PipeClosed,
    /// The answer is no, and was printed.
    No,
    /// Tell a person what happened, and what can be done.
    Failed { error: anyhow::Error, hint: String },
}

impl CommandError {
    pub(crate) fn new(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self::Failed { error: error.into(), hint: hint.into() }
    }

    /// Returns the innermost cause, in its own words.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::PipeClosed => "nobody reads on".to_owned(),
            Self::No => "the answer is no".to_owned(),
            Self::Failed { error, .. } => error.root_cause().to_string(),
        }
    }

    /// Prints the error, its causes and the hint, and returns the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        match self {
            Self::PipeClosed => ExitCode::SUCCESS,
            Self::No => ExitCode::FAILURE,
            Self::Failed { error, hint } => {
                say(format_args!("error: {error}"));
                for cause in error.chain().skip(1) {
                    say(format_args!("cause: {cause}"));
                }
                say(format_args!("hint: {hint}"));
                ExitCode::from(2)
            }
        }
    }
}

/// Its own words, without causes and hint.
impl Display for CommandError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { error, .. } => write!(formatter, "{error}"),
            _ => formatter.write_str(&self.cause()),
        }
    }
}

/// What is written goes to stdout, so that is where an error of writing comes from.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::PipeClosed;
        }
        let error = anyhow::Error::new(error).context("standard output cannot be written to");
        Self::new(error, "look whether the disk is full")
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// How many candidates are named.
const SHOWN: usize = 8;

/// Returns names as they stand in a sentence; many are cut short.
pub(crate) fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.map(|it| format!("`{it}`")).collect();
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// Says that a name does not lead to one session.
pub(crate) fn ambiguous(given: &str, names: impl Iterator<Item = String>) -> CommandError {
    let names: Vec<_> = names.collect();
    let count = names.len();
    CommandError::new(
        anyhow::anyhow!("`{given}` could be {count} sessions: {}", listed(names.into_iter())),
        "give more of the name",
    )
}

/// Prints a line to stderr, with its control characters made harmless.
pub(crate) fn say(line: impl Display) {
    // When nobody hears, there is nobody to tell that either.
    writeln!(io::stderr(), "{}", printable(&line.to_string())).ok();
}
