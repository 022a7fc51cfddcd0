//! Says loudly that a test did not test what it is for.

use std::{fs::OpenOptions, io::Write, path::Path};

use crate::TestkitError;

/// Says on standard error, and in `skipped.txt` under `target`, that `what` was not run.
///
/// The file is appended to, for test runners hide the output of tests that pass.
pub fn report_skipped(target: &Path, what: &str, reason: &str) -> Result<(), TestkitError> {
    let line = format!("SKIPPED: {what}: {}\n", reason.replace('\n', " "));
    eprint!("{line}");

    let path = target.join("skipped.txt");
    // One write of one line, so that two tests at once do not mix theirs.
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(TestkitError::io(format!("append to `{}`", path.display())))
}
