//! Checks that one file alone may contain unsafe code: the one that exports functions to
//! WebAssembly hosts by name.
//!
//! The compiler forbids it in every crate with the workspace's lints. One crate has lints of its
//! own, which a file could lift.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::{Member, SourceFile};

/// The file that may.
const FILE: &str = "bindings/wasm/src/abi.rs";
/// The crate of that file, which denies it everywhere else.
const MANIFEST: &str = "bindings/wasm/Cargo.toml";

/// Checks that a file does not lift the lint.
pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    // The check itself names what it looks for.
    if file.extension() != "rs" || file.path == FILE || file.path.starts_with("xtask/") {
        return Vec::new();
    }
    let lifts = |line: &str| {
        let code = line.trim_start();
        code.starts_with("#") && code.contains("unsafe_code") && !code.contains("forbid")
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| lifts(line));
    let text = format!("unsafe code is allowed in `{FILE}` and nowhere else");
    lines.map(|(index, _)| Finding::new(&file.path, index + 1, text.clone())).collect()
}

/// Checks that a crate forbids unsafe code.
pub(crate) fn check_member(member: &Member) -> Option<Finding> {
    let manifest = &member.manifest;
    let is_strict = match manifest.path.as_str() {
        MANIFEST => manifest.text.contains("unsafe_code = \"deny\""),
        _ => manifest.text.contains("[lints]\nworkspace = true"),
    };
    let text = "the crate does not forbid unsafe code: add `[lints]` with `workspace = true`";
    (!is_strict).then(|| Finding::new(&manifest.path, 1, text))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    const LIFTED: &str = "//! Exports.\n#![allow(unsafe_code)]\n";

    fn check_text(path: &str) -> String {
        printed(check(&SourceFile { path: path.to_owned(), text: LIFTED.to_owned() }))
    }

    #[test]
    fn one_file_may_lift_the_lint() {
        assert_snapshot!(check_text("bindings/wasm/src/abi.rs"), @"");
    }

    #[test]
    fn another_file_of_that_crate_may_not() {
        assert_snapshot!(check_text("bindings/wasm/src/states.rs"), @"bindings/wasm/src/states.rs:2: unsafe code is allowed in `bindings/wasm/src/abi.rs` and nowhere else");
    }

    #[test]
    fn a_crate_without_the_lints_is_refused() {
        let member = |path: &str, text: &str| Member {
            name: "a".to_owned(),
            manifest: SourceFile { path: path.to_owned(), text: text.to_owned() },
            dependencies: Vec::new(),
        };
        let strict = "[lints]\nworkspace = true\n";
        assert_snapshot!(printed(check_member(&member("crates/a/Cargo.toml", strict))), @"");
        assert_snapshot!(printed(check_member(&member("crates/a/Cargo.toml", ""))), @"crates/a/Cargo.toml:1: the crate does not forbid unsafe code: add `[lints]` with `workspace = true`");
        assert_snapshot!(printed(check_member(&member(MANIFEST, ""))), @"bindings/wasm/Cargo.toml:1: the crate does not forbid unsafe code: add `[lints]` with `workspace = true`");
    }
}
