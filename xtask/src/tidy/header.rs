//! Checks that every Rust file starts with a `//!` description.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

const FOLDERS: [&str; 4] = ["bindings/", "crates/", "xtask/", "fuzz/"];

pub(crate) fn check(file: &SourceFile) -> Option<Finding> {
    let is_ours = FOLDERS.iter().any(|it| file.path.starts_with(it));
    if !is_ours || file.extension() != "rs" {
        return None;
    }
    let opening = file.text.lines().position(|line| !may_precede(line));
    let line = opening.unwrap_or_default();
    if file.text.lines().nth(line).is_some_and(|it| it.starts_with("//! ")) {
        return None;
    }
    Some(Finding::new(
        &file.path,
        line + 1,
        "the file has no description: start it with a `//!` sentence",
    ))
}

fn may_precede(line: &str) -> bool {
    line.is_empty() || line.starts_with("#![")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_text(path: &str, text: &str) -> String {
        printed(check(&SourceFile { path: path.to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn a_header_opens_the_file() {
        assert_snapshot!(check_text("xtask/src/a.rs", "//! Holds a.\n\nmod b;\n"), @"");
    }

    #[test]
    fn attributes_of_the_crate_may_precede_it() {
        let text = "#![no_main]\n#![no_std]\n\n//! Holds a.\n";
        assert_snapshot!(check_text("fuzz/targets/a.rs", text), @"");
    }

    #[test]
    fn a_file_without_header_is_refused() {
        assert_snapshot!(check_text("crates/a/src/lib.rs", "#![no_std]\nmod b;\n//! Late.\n"), @"crates/a/src/lib.rs:2: the file has no description: start it with a `//!` sentence");
    }

    #[test]
    fn an_empty_file_or_header_is_refused() {
        assert_snapshot!(check_text("crates/a/src/lib.rs", ""), @"crates/a/src/lib.rs:1: the file has no description: start it with a `//!` sentence");
        assert_snapshot!(check_text("crates/a/src/lib.rs", "//!\n"), @"crates/a/src/lib.rs:1: the file has no description: start it with a `//!` sentence");
    }

    #[test]
    fn files_elsewhere_and_in_other_languages_are_not_checked() {
        assert_snapshot!(check_text("web/a.rs", "mod b;\n"), @"");
        assert_snapshot!(check_text("crates/a/b.py", "import b\n"), @"");
    }
}
