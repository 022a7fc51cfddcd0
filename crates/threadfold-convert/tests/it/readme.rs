//! The README's table of agents, checked against the recordings.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the versions of an agent's recordings, oldest first, as the README lists them.
fn versions(agent: &str, key: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(agent);
    let mut found = BTreeSet::new();
    look(&root, key, &mut found);
    let told: Vec<_> = found
        .into_iter()
        .map(|it| it.iter().map(ToString::to_string).collect::<Vec<_>>().join("."))
        .collect();
    told.join(", ")
}

/// Finds `"key":"1.2.3"` in all files below a folder.
fn look(folder: &Path, key: &str, found: &mut BTreeSet<Vec<u32>>) {
    for entry in fs::read_dir(folder).expect("the recordings are part of the tests") {
        let path = entry.expect("a folder can be listed").path();
        if path.is_dir() {
            look(&path, key, found);
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).expect("it can be read")).into_owned();
        for after in text.split(&format!("\"{key}\":")).skip(1) {
            let value = after.trim_start().strip_prefix('"').and_then(|it| it.split('"').next());
            let number: Option<Vec<u32>> =
                value.and_then(|it| it.split('.').map(|part| part.parse().ok()).collect());
            found.extend(number.filter(|parts| parts.len() == 3));
        }
    }
}

#[test]
fn the_readme_lists_the_versions_that_were_recorded() {
    let readme = include_str!("../../../../README.md");
    for (agent, versions) in [
        ("[Claude Code, Agent SDK](docs/agents/claude.md)", versions("claude", "version")),
        ("[OpenCode](docs/agents/opencode.md)", versions("opencode", "version")),
        ("[Codex](docs/agents/codex.md)", versions("codex", "cli_version")),
    ] {
        let row = format!("| {agent} | {versions} |");
        assert!(readme.contains(&row), "the README should have the row\n{row}");
    }
}
