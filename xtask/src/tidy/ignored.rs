//! Checks that no test is ignored.
//!
//! Checking lines suffices, because rustfmt puts every attribute of a test on a separate line.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    if file.extension() != "rs" {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let ignored = lines.filter(|(_, line)| switches_off(line.trim_start()));
    ignored
        .map(|(index, _)| {
            Finding::new(
                &file.path,
                index + 1,
                "the test is ignored: assert the current behaviour instead, and explain why",
            )
        })
        .collect()
}

fn switches_off(line: &str) -> bool {
    line.starts_with("#[ignore") || line.starts_with("#[cfg_attr(") && line.contains(", ignore")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_text(text: &str) -> String {
        printed(check(&SourceFile { path: "crates/a/src/b.rs".to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn an_ignored_test_is_refused_with_and_without_reason() {
        assert_snapshot!(
            check_text("#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\n#[test]\nfn b() {}\n"),
            @"
        crates/a/src/b.rs:2: the test is ignored: assert the current behaviour instead, and explain why
        crates/a/src/b.rs:4: the test is ignored: assert the current behaviour instead, and explain why
        "
        );
    }

    #[test]
    fn a_test_ignored_on_some_machines_is_refused() {
        assert_snapshot!(check_text("    #[cfg_attr(windows, ignore = \"slow\")]\n"), @"crates/a/src/b.rs:1: the test is ignored: assert the current behaviour instead, and explain why");
    }

    #[test]
    fn the_word_ignore_in_other_code_is_no_finding() {
        assert_snapshot!(check_text("// See #[ignore].\nlet ignored = ignore();\n"), @"");
    }
}
