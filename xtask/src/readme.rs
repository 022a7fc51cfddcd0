//! `cargo xtask readme`: writes the tables of the docs that are counted: the agents of the README,
//! with the versions that were recorded, and what Codex took, in the guide for new agents.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::shell;

const README: &str = "README.md";
const GUIDE: &str = "docs/guide/new-agent.md";

/// The lines between which a table is written.
const START: &str = "<!-- written by `cargo xtask readme` -->";
const END: &str = "<!-- end -->";

/// A row of the README's table.
struct Row {
    title: &'static str,
    /// The name of its page, of its recordings and of its folders.
    name: &'static str,
    /// The field of its records that holds the version.
    version: &'static str,
    live: &'static str,
    stored: &'static str,
}

const ROWS: [Row; 3] = [
    Row {
        title: "Claude Code, Agent SDK",
        name: "claude",
        version: "version",
        live: "stream-json",
        stored: "JSONL in all four layouts",
    },
    Row {
        title: "OpenCode",
        name: "opencode",
        version: "version",
        live: "`/event`, `/global/event`, `/api/event`, `session.next.*`, `run --format json`",
        stored: "exports, API messages, database rows (versions 1 and 2), the database's event \
                 log, the older file storage",
    },
    Row {
        title: "Codex",
        name: "codex",
        version: "cli_version",
        live: "`exec --json`, app-server",
        stored: "rollouts, including archived ones",
    },
];

/// The parts of an agent: what it is, its files, with `*` for the agent's name.
const PARTS: [(&str, &[&str]); 5] = [
    (
        "its JSON as types, records to events, what it remembers, what it does not keep",
        &["crates/threadfold-convert/src/*.rs", "crates/threadfold-convert/src/*"],
    ),
    (
        "where it keeps sessions, which files make one, how it is followed",
        &["crates/threadfold-engine/src/agents/*.rs", "crates/threadfold-engine/src/agents/*"],
    ),
    (
        "an independent count of the raw records",
        &[
            "crates/threadfold-testkit/src/raw_count/*.rs",
            "crates/threadfold-testkit/src/oracle/*.rs",
            "crates/threadfold-testkit/src/parity_pairs/identity/*.rs",
        ],
    ),
    (
        "the real agent and its scenarios, to record it",
        &[
            "crates/threadfold-testkit/src/*.rs",
            "crates/threadfold-testkit/src/*",
            "crates/threadfold-testkit/src/recording/*.rs",
            "crates/threadfold-testkit/src/recording/*",
        ],
    ),
    ("a fuzz target", &["fuzz/targets/*.rs"]),
];

pub(crate) fn run() -> Result<()> {
    write(README, &agents(&shell::root().join("crates/threadfold-convert/tests/data"))?)?;
    write(GUIDE, &shape("codex")?)
}

/// Replaces what is between the marks of a page.
fn write(page: &str, table: &str) -> Result<()> {
    let path = shell::root().join(page);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{page}`"))?;
    let new = replaced(&text, table).with_context(|| format!("`{page}` lacks `{START}`"))?;
    fs::write(&path, new).with_context(|| format!("cannot write `{page}`"))?;
    println!("wrote {page}");
    Ok(())
}

fn replaced(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n\n{table}\n{END}{after}"))
}

/// Returns the README's table of agents.
fn agents(recordings: &Path) -> Result<String> {
    let mut table =
        String::from("| agent | versions in the tests | live | stored |\n|---|---|---|---|\n");
    for Row { title, name, version, live, stored } in &ROWS {
        let mut versions = BTreeSet::new();
        find_versions(&recordings.join(name), version, &mut versions)?;
        let versions = listed(&versions);
        table +=
            &format!("| [{title}](docs/agents/{name}.md) | {versions} | {live} | {stored} |\n");
    }
    table += "| [any other](docs/agents/other.md) | – | – | any text: stored byte for byte, shown \
              line by line |\n";
    Ok(table)
}

fn listed(versions: &BTreeSet<Vec<u32>>) -> String {
    let spelt = |it: &Vec<u32>| it.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    versions.iter().map(spelt).collect::<Vec<_>>().join(", ")
}

/// Finds `"key":"1.2.3"` in all files below a folder, and returns how many bytes the files have.
fn find_versions(folder: &Path, key: &str, found: &mut BTreeSet<Vec<u32>>) -> Result<u64> {
    let mut bytes = 0;
    for path in entries(folder)? {
        if path.is_dir() {
            bytes += find_versions(&path, key, found)?;
            continue;
        }
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        bytes += content.len() as u64;
        found.extend(versions_in(&String::from_utf8_lossy(&content), key));
    }
    Ok(bytes)
}

fn versions_in(text: &str, key: &str) -> Vec<Vec<u32>> {
    let version = |after: &str| {
        let value = after.trim_start().strip_prefix('"')?.split('"').next()?;
        let parts: Option<Vec<u32>> = value.split('.').map(|part| part.parse().ok()).collect();
        parts.filter(|parts| parts.len() == 3)
    };
    text.split(&format!("\"{key}\":")).skip(1).filter_map(version).collect()
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = read.map(|it| Ok(it?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns what an agent took: its parts, and the files of each.
fn shape(agent: &str) -> Result<String> {
    let mut table = String::from("| part | files | lines |\n|---|---|---|\n");
    let mut lists = String::new();
    for (what, places) in PARTS {
        let mut files = Vec::new();
        for place in places {
            collect(&shell::root().join(place.replace('*', agent)), &mut files)?;
        }
        let lines: usize = files.iter().map(|it| it.1).sum();
        table += &format!("| {what} | {} | {lines} |\n", files.len());
        lists += &format!("\nOf {what}:\n\n| file | lines | has |\n|---|---|---|\n");
        for (path, lines, header) in files {
            lists += &format!("| `{path}` | {lines} | {header} |\n");
        }
    }
    let recordings = format!("crates/threadfold-convert/tests/data/{agent}");
    let runs = entries(&shell::root().join(&recordings))?.len();
    let key = ROWS.iter().find(|it| it.name == agent).map_or("version", |it| it.version);
    let mut versions = BTreeSet::new();
    let bytes = find_versions(&shell::root().join(&recordings), key, &mut versions)?;
    table += &format!(
        "\nIts recordings are {runs} runs of {} versions ({}), {:.1} MB, in `{recordings}`.\n",
        versions.len(),
        listed(&versions),
        bytes as f64 / 1e6
    );
    Ok(table + &lists)
}

/// Collects the source files at a path or below it: path, lines, and the first sentence of its
/// header.
fn collect(path: &Path, files: &mut Vec<(String, usize, String)>) -> Result<()> {
    if path.is_dir() {
        return entries(path)?.iter().try_for_each(|it| collect(it, files));
    }
    if !path.is_file() || path.extension().is_none_or(|it| it != "rs") {
        return Ok(());
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.strip_prefix(shell::root()).unwrap_or(path).display().to_string();
    files.push((name, text.lines().count(), first_sentence(&text)));
    Ok(())
}

fn first_sentence(text: &str) -> String {
    let header = text.lines().map_while(|line| line.strip_prefix("//!"));
    let words: Vec<&str> = header.take_while(|it| !it.is_empty()).map(str::trim).collect();
    let words = words.join(" ");
    let sentence = words.split_once(". ").map_or(words.as_str(), |it| it.0);
    sentence.trim_end_matches(['.', ':']).replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_what_is_between_the_marks() {
        let page = format!("a\n{START}\nold\n{END}\nb\n");
        assert_eq!(
            replaced(&page, "| new |\n").as_deref(),
            Some(&*format!("a\n{START}\n\n| new |\n\n{END}\nb\n"))
        );
        assert_eq!(replaced("a page without marks", "| new |"), None);
    }

    #[test]
    fn versions_have_three_numbers() {
        let text = r#"{"version":"2.1.3"} {"version": "10.0.1"} {"version":"next"} {"version":2}"#;
        assert_eq!(versions_in(text, "version"), [vec![2, 1, 3], vec![10, 0, 1]]);
    }

    #[test]
    fn the_tables_of_the_readme_are_current() {
        let recordings = shell::root().join("crates/threadfold-convert/tests/data");
        let readme = fs::read_to_string(shell::root().join(README)).unwrap();
        let table = agents(&recordings).unwrap();
        assert_eq!(
            replaced(&readme, &table).as_deref(),
            Some(&*readme),
            "run `cargo xtask readme`"
        );
    }

    #[test]
    fn a_file_is_described_by_the_first_sentence_of_its_header() {
        assert_eq!(
            first_sentence("//! One | two\n//! lines. More.\n//!\n//! Rest.\n"),
            "One \\| two lines"
        );
    }
}
