//! Checks that the pure crates depend only on crates without I/O.
//!
//! The list has names and no versions: it is reviewed when a dependency is added.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::shell;
use crate::tidy::crates;
use crate::tidy::finding::Finding;
use crate::tidy::workspace::Member;

/// Where the list is: a name a line, and after `#` why it is pure.
pub(crate) const LIST: &str = "xtask/pure-dependencies.txt";

/// Returns all that a crate brings in, on any platform, as `cargo tree` draws it.
///
/// It is `cargo tree` and not `cargo metadata`, for the latter also counts what only the
/// tests of some other crate switch on.
pub(crate) fn read_tree(name: &str) -> Result<String> {
    shell::read(
        shell::command("cargo tree --edges normal --target all --all-features --prefix depth")
            .args(["--locked", "--package", name]),
    )
}

/// Checks the trees of the pure crates against the list, and the list against the trees.
pub(crate) fn check(list: &str, trees: &[(&Member, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unused = BTreeMap::new();
    for (index, line) in list.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if !name.is_empty() && unused.insert(name, index + 1).is_some() {
            findings.push(Finding::new(
                LIST,
                index + 1,
                format!("`{name}` is listed twice, once is enough"),
            ));
        }
    }

    let listed = unused.clone();
    for (member, tree) in trees {
        for way in ways(tree) {
            let name = way[way.len() - 1];
            unused.remove(name);
            if !listed.contains_key(name) && crates::find(name).is_none() {
                findings.push(describe_unlisted(member, &way));
            }
        }
    }

    findings.extend(unused.into_iter().map(|(name, line)| {
        Finding::new(
            LIST,
            line,
            format!("`{name}` is not a dependency of any pure crate, take it off the list"),
        )
    }));
    findings
}

/// Returns for every dependency of a tree the names that lead to it, itself the last.
fn ways(tree: &str) -> Vec<Vec<&str>> {
    let mut way = Vec::new();
    let mut ways = Vec::new();
    for line in tree.lines() {
        let name_start = line.find(|it: char| !it.is_ascii_digit()).unwrap_or(line.len());
        let (depth, rest) = line.split_at(name_start);
        let (Ok(depth), Some(name)) = (depth.parse::<usize>(), rest.split(' ').next()) else {
            continue;
        };
        // The crate itself is at depth 0 and leads to nothing but what it brings in.
        if depth > 0 {
            way.truncate(depth - 1);
            way.push(name);
            ways.push(way.clone());
        }
    }
    ways
}

fn describe_unlisted(member: &Member, way: &[&str]) -> Finding {
    let arrows = way.join("` → `");
    Finding::new(
        &member.manifest.path,
        member.line_of(way[0]),
        format!(
            "`{}` is pure and brings in `{arrows}`, remove it, or explain in `{LIST}` why it is pure",
            member.name
        ),
    )
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;
    use crate::tidy::workspace::SourceFile;

    const TREE: &str = "\
0threadfold-convert v0.1.0 (/somewhere)
1threadfold-core v0.1.0 (/somewhere)
2imbl v7.0.2
3rand_core v0.9.5
3wide v0.7.33
1serde v1.0.229
2serde_derive v1.0.229 (proc-macro) (*)
";

    fn check_list(list: &str) -> String {
        let manifest = SourceFile {
            path: "crates/a/Cargo.toml".to_owned(),
            text: "[dependencies]\nserde = \"1\"\nthreadfold-core.workspace = true\n".to_owned(),
        };
        let member =
            Member { name: "threadfold-convert".to_owned(), manifest, dependencies: Vec::new() };
        printed(check(list, &[(&member, TREE.to_owned())]))
    }

    #[test]
    fn a_list_of_all_dependencies_has_no_findings() {
        assert_snapshot!(check_list(
            "# Names.\n\nimbl # why\nrand_core\nwide# why\nserde\nserde_derive"
        ), @"");
    }

    #[test]
    fn a_dependency_that_is_not_listed_is_refused_with_the_way_to_it() {
        assert_snapshot!(check_list("imbl\nwide\nserde_derive\n"), @"
        crates/a/Cargo.toml:3: `threadfold-convert` is pure and brings in `threadfold-core` → `imbl` → `rand_core`, remove it, or explain in `xtask/pure-dependencies.txt` why it is pure
        crates/a/Cargo.toml:2: `threadfold-convert` is pure and brings in `serde`, remove it, or explain in `xtask/pure-dependencies.txt` why it is pure
        ");
    }

    #[test]
    fn an_entry_that_nothing_uses_is_refused() {
        assert_snapshot!(check_list("imbl\nrand\nrand_core\nwide\nserde\nserde_derive\n"), @"xtask/pure-dependencies.txt:2: `rand` is not a dependency of any pure crate, take it off the list");
    }

    #[test]
    fn an_entry_that_is_there_twice_is_refused() {
        assert_snapshot!(check_list("imbl\nrand_core\nwide\nserde\nserde_derive\nserde\n"), @"xtask/pure-dependencies.txt:6: `serde` is listed twice, once is enough");
    }
}
