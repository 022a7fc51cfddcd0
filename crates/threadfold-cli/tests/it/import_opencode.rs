//! OpenCode sessions in the store: exports, bus, database, `storage` folder.

use std::collections::BTreeSet;
use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::env::TestEnv;
use crate::import::files_below;
use crate::opencode::recorded;
use threadfold_testkit::opencode::database::{DatabaseContent, add, fill, recording};

fn session_of(env: &TestEnv, store: &str) -> String {
    let listed = env.done(&["list", "--json", "--store", store]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let row: Value = serde_json::from_str(&listed).unwrap();
    row["id"].as_str().unwrap().to_owned()
}

#[test]
fn every_recording_is_exported_unchanged_in_every_format() {
    let env = TestEnv::new();
    let cases = fs::read_dir(recording("")).unwrap().map(|it| it.unwrap().path());
    for (number, case) in cases.enumerate() {
        let store = format!("{number}.db");
        let mut files: Vec<_> = fs::read_dir(&case).unwrap().map(|it| it.unwrap().path()).collect();
        files.retain(|it| it.is_file());
        files.sort();
        let given: Vec<_> = files.iter().map(|it| it.to_str().unwrap()).collect();
        let import = [&["import", "--store", &store], &given[..]].concat();
        env.done(&import);
        let out = format!("{number}.out");
        env.done(&["export", "--output", &out, "--store", &store]);
        let out: BTreeSet<_> = files_below(&env.path(&out)).into_values().collect();
        let kept: BTreeSet<_> = files.iter().map(|it| fs::read(it).unwrap()).collect();
        assert!(out == kept, "{}: {} of {}", case.display(), out.len(), kept.len());
        let again = env.done(&import);
        assert!(again.lines().all(|it| it.ends_with("  unchanged")), "{again}");
    }
}

#[test]
fn the_storage_folder_is_stored_file_by_file() {
    for name in ["subagent@1.1.65", "tools@1.0.185", "subagents_parallel@1.0.185"] {
        let env = TestEnv::new();
        let storage = recording(name).join("storage");
        let storage = storage.to_str().unwrap();
        env.done(&["import", storage]);
        assert!(env.done(&["import", storage]).ends_with("unchanged\n"), "{name}");
        let id = session_of(&env, ".local/share/threadfold/store.db");
        let row: Value = serde_json::from_str(&env.done(&["list", "--json"])).unwrap();
        assert!(row["startedAt"].is_string() && row["endedAt"].is_string(), "{row}");
        assert!(row["usage"]["inputTokens"].as_u64() > Some(0), "{row}");
        env.done(&["export", &id, "--output", "out/"]);
        let kept = files_below(recording(name).join("storage").as_path());
        assert!(files_below(&env.path("out")) == kept, "{name}");
        assert_eq!(
            env.done(&["view", &id, "--json"]),
            env.done(&["view", storage, "--json"]),
            "{name}"
        );
        assert_eq!(env.done(&["view", "out", "--json"]), env.done(&["view", &id, "--json"]));
    }
}

#[test]
fn database_rows_are_stored_as_lines() {
    for (name, filled) in [("subagent", DatabaseContent::All), ("tools", DatabaseContent::RowsOnly)]
    {
        let env = TestEnv::new();
        let id = fill(&env.path("opencode.db"), &recording(name), filled);
        env.done(&["import", "opencode.db"]);
        assert_eq!(env.done(&["import", "opencode.db"]), format!("{id}  unchanged\n"));
        let viewed = env.done(&["view", "opencode.db", "--json"]);
        assert_eq!(env.done(&["view", &id, "--json"]), viewed, "{name}");
        env.done(&["export", &id, "--output", "rows.jsonl"]);
        assert_eq!(env.done(&["view", "rows.jsonl", "--json"]), viewed, "{name}");
        let refused = env.told(&["restore", &id]);
        assert!(refused.starts_with("exit 2"), "{refused}");
        assert!(refused.contains("rows cannot be written back into a database"), "{refused}");
    }
}

#[test]
fn all_sessions_of_a_database_or_a_chosen_one_are_imported() {
    let env = recorded("text");
    let connection = rusqlite::Connection::open(env.path("opencode.db")).unwrap();
    let second = add(&connection, &recording("tools"), DatabaseContent::All);
    drop(connection);
    assert_snapshot!(env.told(&["import", "opencode.db", "--session", &second]), @"
    exit 0
    --- stdout
    ses_e1f4542e7ffe3dyut6bjm46Ul6  new: 89 records, 51 KB
    --- stderr
    ");
    assert_snapshot!(env.told(&["import", "opencode.db"]), @"
    exit 0
    --- stdout
    ses_e1f16c69dffezRrta77VavkDp6  new: 17 records, 9 KB
    ses_e1f4542e7ffe3dyut6bjm46Ul6  unchanged
    --- stderr
    2 sessions: 1 new or updated, 1 unchanged, 0 failed
    ");
    let missing = env.told(&["import", "opencode.db", "--session", "ses_none"]);
    assert_snapshot!(missing, @"
    exit 2
    --- stdout
    --- stderr
    error: session `ses_none` is not in `opencode.db`
    hint: `threadfold list` shows the sessions on this machine
    ");
    assert_eq!(env.done(&["list", "--json"]).lines().count(), 2, "nothing was begun");
}

#[test]
fn exports_of_children_belong_to_their_parent_session() {
    let env = recorded("subagent");
    env.done(&["import", "export.child1.json", "export.json"]);
    let id = session_of(&env, ".local/share/threadfold/store.db");
    let database = env.done(&["view", "opencode.db", "--json"]);
    let database: Value = serde_json::from_str(&database).unwrap();
    let kept: Value = serde_json::from_str(&env.done(&["view", &id, "--json"])).unwrap();
    assert_eq!(kept["subagents"][0]["blocks"], database["subagents"][0]["blocks"]);
}

#[test]
fn storage_files_named_after_a_session_are_stored_with_it() {
    let env = TestEnv::new();
    let storage = ".local/share/opencode/storage";
    for (name, bytes) in files_below(&recording("tools@1.0.185").join("storage")) {
        env.write(&format!("{storage}/{name}"), bytes);
    }
    let session = files_below(&env.path(storage).join("session")).into_keys().next().unwrap();
    let session = session.rsplit('/').next().unwrap();
    env.write(&format!("{storage}/session_diff/{session}"), "[]");
    let kept = files_below(&env.path(storage));
    env.done(&["import", storage]);
    assert!(env.done(&["import", storage]).ends_with("unchanged\n"));
    env.done(&["export", session.trim_end_matches(".json"), "--output", "out/"]);
    assert!(files_below(&env.path("out")) == kept);
    fs::remove_dir_all(env.path(storage)).unwrap();
    env.done(&["restore", session.trim_end_matches(".json")]);
    assert!(files_below(&env.path(storage)) == kept);
}
