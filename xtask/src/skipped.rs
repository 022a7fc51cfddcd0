//! Skipped tests, as recorded by the testkit.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
/// Returns where the testkit notes skipped tests, below the target folder.
pub(crate) fn list(target: &Path) -> PathBuf {
    target.join("skipped.txt")
}

/// Removes the list of an earlier run.
pub(crate) fn clear(list: &Path) -> Result<()> {
    match fs::remove_file(list) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("`{}` cannot be removed", list.display()))
        }
        _ => Ok(()),
    }
}

/// Returns why tests were skipped in this run: each distinct reason with its count.
pub(crate) fn read(list: &Path) -> Result<Vec<String>> {
    match fs::read_to_string(list) {
        Ok(text) => Ok(summarize(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("`{}` cannot be read", list.display())),
    }
}

fn summarize(text: &str) -> Vec<String> {
    let mut lines: Vec<(&str, usize)> = Vec::new();
    for line in text.lines() {
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => lines.push((line, 1)),
        }
    }
    let summary = |(line, count): (&str, usize)| match count {
        1 => line.to_owned(),
        _ => format!("{line} ({count} tests)"),
    };
    lines.into_iter().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn a_reason_shared_by_many_skipped_tests_is_printed_once() {
        let text = "SKIPPED: an agent: no network\nSKIPPED: another: too old\nSKIPPED: an agent: no network\n";
        assert_snapshot!(summarize(text).join("\n"), @"
        SKIPPED: an agent: no network (2 tests)
        SKIPPED: another: too old
        ");
    }

    #[test]
    fn a_missing_list_is_empty() {
        let nowhere = Path::new("no/such/folder/skipped.txt");
        clear(nowhere).unwrap();
        assert_eq!(read(nowhere).unwrap(), Vec::<String>::new());
    }
}
