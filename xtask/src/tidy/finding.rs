//! A finding of a check.

use std::fmt;

/// What is wrong, where, and what is expected instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    text: String,
}

impl Finding {
    /// Makes a finding; `line` counts from 1.
    pub(crate) fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// Writes findings as they are printed, a line each.
#[cfg(test)]
pub(crate) fn printed(findings: impl IntoIterator<Item = Finding>) -> String {
    let lines: Vec<String> = findings.into_iter().map(|it| it.to_string()).collect();
    lines.join("\n")
}
