//! Checks that a type's name is a noun: a bare participle, such as `Held` or `Pending`, does not tell
//! what the type is.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

/// Participles without a regular ending.
const IRREGULAR: &[&str] = &[
    "Built", "Bound", "Found", "Gone", "Heard", "Held", "Kept", "Known", "Left", "Lost", "Made",
    "Read", "Said", "Seen", "Sent", "Shown", "Told",
];

/// Nouns that end like a participle.
const NOUNS: &[&str] = &[
    "Drawing",
    "Ending",
    "Feed",
    "Finding",
    "Forwarding",
    "Opening",
    "Ordering",
    "Recording",
    "Seed",
    "String",
    "Token",
    "Understanding",
];

/// Participles that are left.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/threadfold-engine/src/file_watcher.rs", "Pending"),
    ("crates/threadfold-fold/src/parity/pair.rs", "Shared"),
];

pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    if !file.path.contains("/src/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let Some(name) = declared_type(line).filter(|it| is_participle(it)) else { continue };
        if !ALLOWED.contains(&(file.path.as_str(), name)) {
            let text =
                format!("`{name}` is a participle, name the thing: `{name}Record`, not `{name}`");
            findings.push(Finding::new(&file.path, index + 1, text));
        }
    }
    findings
}

/// Returns the type that a line declares.
fn declared_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|it: char| it != ' ').trim_start(),
        None => line,
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|it: char| !it.is_alphanumeric() && it != '_').next()
}

fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().filter(|it| it.is_uppercase()).count() == 1;
    let is_regular = ["ed", "en", "ing"].iter().any(|it| name.ends_with(it));
    is_one_word && (IRREGULAR.contains(&name) || (is_regular && !NOUNS.contains(&name)))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    #[test]
    fn a_bare_participle_is_refused() {
        let text = "pub(crate) struct Held {\nenum Pending {}\n    pub trait Keyed {\ntype Written = u8;\n\
                    struct HeldItem;\nstruct Finding;\nlet held = Held { };\npub struct Feed<'a> {\n";
        let file = SourceFile { path: "crates/a/src/b.rs".to_owned(), text: text.to_owned() };
        assert_snapshot!(printed(check(&file)), @"
        crates/a/src/b.rs:1: `Held` is a participle, name the thing: `HeldRecord`, not `Held`
        crates/a/src/b.rs:2: `Pending` is a participle, name the thing: `PendingRecord`, not `Pending`
        crates/a/src/b.rs:3: `Keyed` is a participle, name the thing: `KeyedRecord`, not `Keyed`
        crates/a/src/b.rs:4: `Written` is a participle, name the thing: `WrittenRecord`, not `Written`
        ");
    }

    #[test]
    fn tests_may_name_types_as_they_like() {
        let file = SourceFile {
            path: "crates/a/tests/it/b.rs".to_owned(),
            text: "struct Held;".to_owned(),
        };
        assert_eq!(printed(check(&file)), "");
    }
}
