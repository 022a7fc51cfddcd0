//! Reports skipped tests visibly.

use std::{fs::OpenOptions, io::Write, path::Path};

use crate::TestkitError;

/// Reports on standard error, and in `skipped.txt` under `target`, that `what` was skipped.
///
/// The file is appended to, because test runners hide the output of passing tests.
pub fn report_skipped(target: &Path, what: &str, reason: &str) -> Result<(), TestkitError> {
    let line = format!("SKIPPED: {what}: {}\n", reason.replace('\n', " "));
    eprint!("{line}");

    let path = target.join("skipped.txt");
    // A single write, so that concurrent tests do not interleave their lines.
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(TestkitError::io(format!("append to `{}`", path.display())))
}

#[cfg(test)]
mod tests {
    use std::{error::Error, fs};

    use super::*;

    #[test]
    fn every_skipped_test_has_a_line() -> Result<(), Box<dyn Error>> {
        let target = tempfile::tempdir()?;
        report_skipped(target.path(), "an agent", "no network\nat all")?;
        report_skipped(target.path(), "another", "no binary")?;

        assert_eq!(
            fs::read_to_string(target.path().join("skipped.txt"))?,
            "SKIPPED: an agent: no network at all\nSKIPPED: another: no binary\n"
        );
        Ok(())
    }
}
