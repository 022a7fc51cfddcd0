//! A store that an older version wrote: it opens, and its sessions have the states they had.
//!
//! `tests/data/stores/generation-2.db` was written by the last version of generation 2, and
//! `generation-2.txt` has the hash of each session's state. The definition of the hash changed with
//! generation 4: the states themselves are those that version 2 folded, except that the subagent of
//! `first` has a time now.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::env::TestEnv;

/// Sessions with records that no converter understands: their blocks were named after the path that
/// was typed, and are named after the source's role since generation 3.
const RENAMED: [&str; 2] = ["notes", "torn"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stores").join(name)
}

fn older_store() -> TestEnv {
    let env = TestEnv::new();
    env.write("old.db", fs::read(data("generation-2.db")).unwrap());
    env
}

fn expected() -> Vec<(String, String)> {
    let text = fs::read_to_string(data("generation-2.txt")).unwrap();
    let pairs = text.lines().map(|line| line.split_once(' ').unwrap());
    pairs.map(|(hash, id)| (id.to_owned(), hash.to_owned())).collect()
}

#[test]
fn an_older_store_opens_and_folds_to_the_same_states() {
    let env = older_store();
    for (id, hash) in expected() {
        let events = env.done(&["export", &id, "--format", "events", "--store", "old.db"]);
        env.write("events.jsonl", events);
        let mut fold = env.command(&["fold", "--hash", "--from", "events", "-"]);
        let output = fold.stdin(File::open(env.path("events.jsonl")).unwrap()).output().unwrap();
        let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(found != hash, RENAMED.contains(&id.as_str()), "{id}: {found} and {hash}");
    }
}

#[test]
fn reindex_reports_what_changed_since_an_older_generation() {
    let env = older_store();
    let reindexed = env.done(&["reindex", "--json", "--store", "old.db"]);
    for line in reindexed.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        // The definition of the state hash changed with generation 4, so every hash does.
        assert_eq!(line["changed"], true, "{line}");
        assert_eq!(line["blocksBefore"], line["blocksAfter"], "{line}");
    }
    assert_eq!(reindexed.lines().count(), expected().len());
}

#[test]
fn doctor_reports_a_session_under_two_ids_and_imports_go_to_the_agents_one() {
    let env = older_store();
    let report = env.run(&["doctor", "--store", "old.db"]);
    assert!(report.starts_with("exit 1"), "{report}");
    assert!(
        report.contains("copy-of-mine") && report.contains("d7d94b1d-ba7f-52be-94f2-dd56d1b3389b"),
        "{report}"
    );
    let convert = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    let main =
        "claude/text/transcript/-home-dev-project/d7d94b1d-ba7f-52be-94f2-dd56d1b3389b.jsonl";
    let mut bytes = fs::read(convert.join(main)).unwrap();
    bytes.extend_from_slice(b"{\"type\":\"summary\",\"summary\":\"more\",\"leafUuid\":\"u\"}\n");
    env.write("elsewhere/copy-of-mine.jsonl", bytes);
    let imported = env.done(&["import", "elsewhere/copy-of-mine.jsonl", "--store", "old.db"]);
    assert!(imported.starts_with("d7d94b1d-ba7f-52be-94f2-dd56d1b3389b  grown"), "{imported}");
    let listed = env.done(&["list", "--json", "--store", "old.db"]);
    assert_eq!(listed.lines().count(), expected().len(), "nothing was merged or removed");
}

#[test]
fn a_file_that_an_older_version_named_by_its_stem_continues_under_that_name() {
    let env = older_store();
    env.write("notes.jsonl", "{\"kind\":\"one\"}\n{\"kind\":\"two\"}\n{\"kind\":\"three\"}\n");
    let imported = env.done(&["import", "notes.jsonl", "--store", "old.db"]);
    assert!(imported.starts_with("notes  grown: 1 record"), "{imported}");
}
