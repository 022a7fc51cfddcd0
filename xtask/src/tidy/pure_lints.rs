//! Checks that each pure crate has a `clippy.toml` that forbids I/O, and that no entry was removed.
//!
//! Clippy enforces the entries of that file; this checks that they exist.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

/// What must be forbidden; at least one thing of every kind.
const REQUIRED: &[&str] = &[
    "std::collections::hash_map::RandomState",
    "std::env::args",
    "std::env::var",
    "std::fs::File",
    "std::fs::read",
    "std::fs::read_to_string",
    "std::fs::write",
    "std::io::stdin",
    "std::io::stdout",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::process::Command",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
];

/// Checks the `clippy.toml` of a pure crate; a file that is not there is an empty one.
pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    if file.text.is_empty() {
        return vec![Finding::new(
            &file.path,
            1,
            "the crate is pure but has no `clippy.toml`: disallow I/O here",
        )];
    }
    let missing = REQUIRED.iter().filter(|entry| !forbids(&file.text, entry));
    missing
        .map(|entry| {
            Finding::new(
                &file.path,
                1,
                format!("the crate is pure and `{entry}` is not forbidden, disallow it here"),
            )
        })
        .collect()
}

fn forbids(text: &str, entry: &str) -> bool {
    let quoted = format!("\"{entry}\"");
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| !line.starts_with('#') && line.contains(&quoted))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    /// Returns a `clippy.toml` with every required entry.
    fn complete_file() -> String {
        REQUIRED
            .iter()
            .map(|entry| format!("    {{ path = \"{entry}\", reason = \"no\" }},\n"))
            .collect()
    }

    fn check_text(text: String) -> String {
        let path = "crates/a/clippy.toml".to_owned();
        printed(check(&SourceFile { path, text }))
    }

    #[test]
    fn a_complete_clippy_file_has_no_findings() {
        assert_snapshot!(check_text(complete_file()), @"");
    }

    #[test]
    fn a_removed_entry_is_a_finding() {
        let text = complete_file().replace("std::thread::spawn", "std::thread::park");
        assert_snapshot!(check_text(text), @"crates/a/clippy.toml:1: the crate is pure and `std::thread::spawn` is not forbidden, disallow it here");
    }

    #[test]
    fn a_commented_out_entry_is_a_finding() {
        let text = complete_file()
            .replace("    { path = \"std::fs::File\"", "# { path = \"std::fs::File\"");
        assert_snapshot!(check_text(text), @"crates/a/clippy.toml:1: the crate is pure and `std::fs::File` is not forbidden, disallow it here");
    }

    #[test]
    fn a_crate_without_the_file_is_refused() {
        assert_snapshot!(check_text(String::new()), @"crates/a/clippy.toml:1: the crate is pure but has no `clippy.toml`: disallow I/O here");
    }
}
