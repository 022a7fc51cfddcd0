//! Checks that a pure crate has its fence: a `clippy.toml` that forbids to touch the world.
//!
//! The fence itself stands in that file, for clippy to watch; this sees that nobody takes
//! the file, or a rail of it, away.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

/// What must be forbidden; at least one thing of every kind.
const RAILS: &[&str] = &[
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
            "the crate is pure and has no fence, forbid here whatever touches the world",
        )];
    }
    let missing = RAILS.iter().filter(|rail| !forbids(&file.text, rail));
    missing
        .map(|rail| {
            Finding::new(
                &file.path,
                1,
                format!("the crate is pure and `{rail}` is not forbidden, disallow it here"),
            )
        })
        .collect()
}

fn forbids(text: &str, rail: &str) -> bool {
    let quoted = format!("\"{rail}\"");
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| !line.starts_with('#') && line.contains(&quoted))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    /// Writes a fence with a line for every rail.
    fn whole_fence() -> String {
        RAILS
            .iter()
            .map(|rail| format!("    {{ path = \"{rail}\", reason = \"no\" }},\n"))
            .collect()
    }

    fn check_text(text: String) -> String {
        let path = "crates/a/clippy.toml".to_owned();
        printed(check(&SourceFile { path, text }))
    }

    #[test]
    fn a_whole_fence_is_fine() {
        assert_snapshot!(check_text(whole_fence()), @"");
    }

    #[test]
    fn a_rail_that_was_taken_away_is_missed() {
        let text = whole_fence().replace("std::thread::spawn", "std::thread::park");
        assert_snapshot!(check_text(text), @"crates/a/clippy.toml:1: the crate is pure and `std::thread::spawn` is not forbidden, disallow it here");
    }

    #[test]
    fn a_rail_that_was_commented_out_is_missed() {
        let text =
            whole_fence().replace("    { path = \"std::fs::File\"", "# { path = \"std::fs::File\"");
        assert_snapshot!(check_text(text), @"crates/a/clippy.toml:1: the crate is pure and `std::fs::File` is not forbidden, disallow it here");
    }

    #[test]
    fn a_crate_without_the_file_is_refused() {
        assert_snapshot!(check_text(String::new()), @"crates/a/clippy.toml:1: the crate is pure and has no fence, forbid here whatever touches the world");
    }
}
