//! Errors of commands, and how they are printed.

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};
use std::process::ExitCode;

use threadfold_engine::LostContent;

use crate::printable::printable;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The reader closed the pipe, as with `| head -1`; not an error.
    PipeClosed,
    /// The answer is negative, and was printed.
    No,
    /// Print what happened, and a hint.
    Failed { error: anyhow::Error, hint: String },
}

impl CommandError {
    pub(crate) fn new(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self::Failed { error: error.into(), hint: hint.into() }
    }

    /// Returns the message of the innermost cause.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::PipeClosed => "the output was closed".to_owned(),
            Self::No => "the answer is no".to_owned(),
            Self::Failed { error, .. } => error.root_cause().to_string(),
        }
    }

    /// Prints the error, its causes and the hint, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::PipeClosed => ExitCode::SUCCESS,
            Self::No => ExitCode::FAILURE,
            Self::Failed { error, hint } => {
                print_note(format_args!("error: {error}"));
                for cause in error.chain().skip(1) {
                    print_note(format_args!("cause: {cause}"));
                }
                print_note(format_args!("hint: {hint}"));
                ExitCode::from(2)
            }
        }
    }
}

/// The message without causes and hint.
impl Display for CommandError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { error, .. } => write!(formatter, "{error}"),
            _ => formatter.write_str(&self.cause()),
        }
    }
}

/// I/O errors in commands come from writing to stdout.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::PipeClosed;
        }
        let error = anyhow::Error::new(error).context("cannot write to standard output");
        Self::new(error, "check whether the disk is full")
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// How many candidates an error lists.
const SHOWN: usize = 8;

/// Returns names as a list in a sentence; a long one is truncated.
pub(crate) fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.map(|it| format!("`{it}`")).collect();
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// Returns the error for an ambiguous name.
pub(crate) fn ambiguous(given: &str, names: impl Iterator<Item = String>) -> CommandError {
    let names: Vec<_> = names.collect();
    let count = names.len();
    CommandError::new(
        anyhow::anyhow!("`{given}` matches {count} sessions: {}", listed(names.into_iter())),
        "use a longer prefix",
    )
}

/// Prints a line to stderr, with control characters escaped.
pub(crate) fn print_note(line: impl Display) {
    // If stderr is closed, there is nowhere to report that.
    writeln!(io::stderr(), "{}", printable(&line.to_string())).ok();
}

/// Reports something of a session that cannot be read, although the rest can.
pub(crate) fn report_loss(lost: &LostContent) {
    print_note(format_args!(
        "`{}` cannot be decompressed to its end: {}; what precedes that is read",
        lost.place, lost.reason
    ));
}
