//! Checks that the table of public types in `ARCHITECTURE.md` has exactly what the crates export, and
//! their public modules.

use std::collections::BTreeSet;

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

/// The file with the table.
pub(crate) const TABLE: &str = "ARCHITECTURE.md";

/// Compares the row of a crate with the `pub use` lines of its `lib.rs`.
pub(crate) fn check(table: &SourceFile, name: &str, library: &SourceFile) -> Vec<Finding> {
    let exported = exported_types(&library.text);
    let start = format!("| `{name}` | ");
    let in_section = table.text.lines().enumerate().skip_while(|(_, it)| *it != "## Public types");
    let Some((index, row)) = in_section.into_iter().find(|(_, it)| it.starts_with(&start)) else {
        let text = format!("the table of public types has no row for `{name}`");
        return vec![Finding::new(&table.path, 1, text)];
    };
    let listed: BTreeSet<&str> =
        row[start.len()..].split('`').skip(1).step_by(2).filter(|it| is_type(it)).collect();
    let mentioned: BTreeSet<&str> = row.split('`').skip(1).step_by(2).collect();
    let modules = public_modules(&library.text).filter(|it| !mentioned.contains(it));
    let modules = modules.map(|it| format!("the module `{it}` is public, list it"));
    let missing = exported.difference(&listed).map(|it| format!("`{it}` is exported, list it"));
    let stale = listed.difference(&exported).map(|it| format!("`{it}` is not exported, remove it"));
    missing
        .chain(stale)
        .chain(modules)
        .map(|text| Finding::new(&table.path, index + 1, text))
        .collect()
}

/// Returns the types and traits that a library exports at its root. Functions, constants and
/// modules begin in lower case or are all in upper case.
fn exported_types(library: &str) -> BTreeSet<&str> {
    let uses = library.split("pub use ").skip(1);
    let of_uses = uses.flat_map(|it| {
        let path = it.split(';').next().unwrap_or_default();
        let names = path.split_once('{').map_or_else(|| last_part(path), |(_, names)| names);
        names.split([',', '}', '\n']).map(|it| it.split(" as ").last().unwrap_or_default().trim())
    });
    let declared = library.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub struct ").or(line.strip_prefix("pub enum "));
        let rest = rest.or(line.strip_prefix("pub trait "));
        rest?.split(|it: char| !it.is_alphanumeric()).next()
    });
    of_uses.chain(declared).filter(|it| is_type(it)).collect()
}

/// Returns the public modules of a library, except those that are hidden from its docs.
fn public_modules(library: &str) -> impl Iterator<Item = &str> {
    let before = std::iter::once("").chain(library.lines());
    library.lines().zip(before).filter(|(_, before)| *before != "#[doc(hidden)]").filter_map(
        |(line, _)| {
            let rest = line.strip_prefix("pub mod ")?;
            rest.split(|it: char| !it.is_alphanumeric() && it != '_').next()
        },
    )
}

fn last_part(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn is_type(name: &str) -> bool {
    name.starts_with(|it: char| it.is_ascii_uppercase())
        && name.contains(|it: char| it.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_text(row: &str) -> String {
        let file = |path: &str, text: String| SourceFile { path: path.to_owned(), text };
        let library = "mod a;\n#[doc(hidden)]\npub mod hidden;\npub mod shown;\npub use a::{LIMIT, One,\n    Two, both};\npub use b::Three;\npub trait Four {}\n";
        let table = file("A.md", format!("## Public types\n\n{row}\n"));
        printed(check(&table, "a", &file("lib.rs", library.to_owned())))
    }

    #[test]
    fn a_complete_row_is_fine() {
        assert_snapshot!(check_text("| `a` | the module `shown`; `One`, `Two`, `Three`, `Four` |"), @"");
    }

    #[test]
    fn missing_and_stale_types_are_findings() {
        assert_snapshot!(check_text("| `a` | `One`, `Two`, `Four`, `Gone` |"), @r"
        A.md:3: `Three` is exported, list it
        A.md:3: `Gone` is not exported, remove it
        A.md:3: the module `shown` is public, list it
        ");
        assert_snapshot!(check_text("| `b` | `One` |"), @"A.md:1: the table of public types has no row for `a`");
    }
}
