//! Checks that crates depend on each other only as the table allows.

use std::collections::BTreeSet;

use crate::tidy::crates::{self, Crate, FOLD, Role, TEST_STORE, TESTKIT};
use crate::tidy::finding::Finding;
use crate::tidy::workspace::{Dependency, DependencyKind, Member};

pub(crate) fn check(members: &[Member]) -> Vec<Finding> {
    let ours: BTreeSet<&str> = members.iter().map(|it| it.name.as_str()).collect();
    members.iter().flat_map(|it| check_member(it, &ours)).collect()
}

fn check_member(member: &Member, ours: &BTreeSet<&str>) -> Vec<Finding> {
    let Some(row) = crates::find(&member.name) else {
        return vec![Finding::new(
            &member.manifest.path,
            member.line_of("name"),
            format!(
                "the crate `{}` has no place yet, add it to `xtask/src/tidy/crates.rs` and to `ARCHITECTURE.md`",
                member.name
            ),
        )];
    };
    let ours = member.dependencies.iter().filter(|it| ours.contains(it.name.as_str()));
    let forbidden = ours.filter(|it| !allows(row, it));
    forbidden.map(|it| describe(member, row, it)).collect()
}

fn allows(row: &Crate, dependency: &Dependency) -> bool {
    let is_for_tests = dependency.kind == Some(DependencyKind::Dev)
        && match row.role {
            // Converters are tested through the fold that uses them.
            Role::Pure => [TESTKIT, FOLD].contains(&dependency.name.as_str()),
            Role::Product => [TESTKIT, TEST_STORE].contains(&dependency.name.as_str()),
            Role::Tests | Role::Tooling => false,
        };
    is_for_tests || row.may_use.contains(&dependency.name.as_str())
}

fn describe(member: &Member, row: &Crate, dependency: &Dependency) -> Finding {
    let wanted = if dependency.name == TESTKIT && row.role != Role::Tooling {
        "only tests may, as a dev-dependency".to_owned()
    } else if row.may_use.is_empty() {
        "it may use no crate of ours".to_owned()
    } else {
        format!("it may use `{}`", row.may_use.join("`, `"))
    };
    Finding::new(
        &member.manifest.path,
        member.line_of(&dependency.name),
        format!("`{}` depends on `{}`, {wanted}", member.name, dependency.name),
    )
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;
    use crate::tidy::workspace::SourceFile;

    /// Checks a workspace that is written as `crate: dependency, dev dependency`, a line each.
    fn check_text(text: &str) -> String {
        printed(check(&text.lines().map(parse_member).collect::<Vec<_>>()))
    }

    fn parse_member(line: &str) -> Member {
        let (name, dependencies) = line.split_once(':').unwrap();
        let words = dependencies.split(',').map(str::trim).filter(|it| !it.is_empty());
        let dependencies: Vec<Dependency> = words.map(parse_dependency).collect();
        let declared = dependencies.iter().map(|it| format!("{}.workspace = true\n", it.name));
        Member {
            name: name.to_owned(),
            manifest: SourceFile {
                path: format!("{name}/Cargo.toml"),
                text: format!("[package]\nname = \"{name}\"\n{}", declared.collect::<String>()),
            },
            dependencies,
        }
    }

    fn parse_dependency(text: &str) -> Dependency {
        let (kind, name) = match text.split_once(' ') {
            Some(("dev", name)) => (Some(DependencyKind::Dev), name),
            Some(("build", name)) => (Some(DependencyKind::Build), name),
            _ => (None, text),
        };
        Dependency { name: name.to_owned(), kind }
    }

    #[test]
    fn the_dependencies_of_the_table_are_allowed() {
        assert_snapshot!(check_text(
            "threadfold-core: serde, dev threadfold-testkit\n\
             threadfold-testkit: threadfold-core\n\
             threadfold-engine: threadfold-store, dev threadfold-sqlite\n\
             threadfold: clap, threadfold-core, dev threadfold-testkit\n\
             xtask: clap"
        ), @"");
    }

    #[test]
    fn a_dependency_outside_the_table_is_refused() {
        assert_snapshot!(check_text(
            "threadfold-core: serde, threadfold-store\n\
             threadfold-store: threadfold-core, threadfold-engine\n\
             threadfold-sqlite: threadfold-store\n\
             threadfold-engine: threadfold-core, threadfold-sqlite"
        ), @"
        threadfold-core/Cargo.toml:4: `threadfold-core` depends on `threadfold-store`, it may use no crate of ours
        threadfold-store/Cargo.toml:4: `threadfold-store` depends on `threadfold-engine`, it may use `threadfold-core`, `threadfold-fold`
        threadfold-engine/Cargo.toml:4: `threadfold-engine` depends on `threadfold-sqlite`, it may use `threadfold-core`, `threadfold-convert`, `threadfold-fold`, `threadfold-store`
        ");
    }

    #[test]
    fn the_program_must_not_use_the_converters() {
        assert_snapshot!(check_text(
            "threadfold-convert: threadfold-core\n\
             threadfold-core:\n\
             threadfold: threadfold-convert"
        ), @"threadfold/Cargo.toml:3: `threadfold` depends on `threadfold-convert`, it may use `threadfold-core`, `threadfold-fold`, `threadfold-store`, `threadfold-sqlite`, `threadfold-postgres`, `threadfold-engine`, `threadfold-export`, `threadfold-client`, `threadfold-server`, `threadfold-loop`");
    }

    #[test]
    fn dev_and_build_dependencies_count_too() {
        assert_snapshot!(check_text(
            "threadfold-core: dev threadfold\n\
             threadfold: build xtask\n\
             xtask:"
        ), @"
        threadfold-core/Cargo.toml:3: `threadfold-core` depends on `threadfold`, it may use no crate of ours
        threadfold/Cargo.toml:3: `threadfold` depends on `xtask`, it may use `threadfold-core`, `threadfold-fold`, `threadfold-store`, `threadfold-sqlite`, `threadfold-postgres`, `threadfold-engine`, `threadfold-export`, `threadfold-client`, `threadfold-server`, `threadfold-loop`
        ");
    }

    #[test]
    fn the_testkit_is_for_tests_of_the_product() {
        assert_snapshot!(check_text(
            "threadfold: threadfold-testkit\n\
             threadfold-testkit:\n\
             xtask: dev threadfold-testkit"
        ), @"
        threadfold/Cargo.toml:3: `threadfold` depends on `threadfold-testkit`, only tests may, as a dev-dependency
        xtask/Cargo.toml:3: `xtask` depends on `threadfold-testkit`, it may use no crate of ours
        ");
    }

    #[test]
    fn a_crate_outside_the_table_is_refused() {
        assert_snapshot!(check_text("threadfold-new: serde"), @"threadfold-new/Cargo.toml:2: the crate `threadfold-new` has no place yet, add it to `xtask/src/tidy/crates.rs` and to `ARCHITECTURE.md`");
    }
}
