//! `threadfold list` and `threadfold import` agree on what a session is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::claude::{Transcript, keep_notes_session};
use crate::env::TestEnv;
use crate::opencode::recorded;

/// Returns the rows of a command that prints JSON, by id.
fn rows(env: &TestEnv, arguments: &[&str]) -> BTreeMap<String, Value> {
    let printed = env.done(arguments);
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let rows: Vec<Value> = printed.lines().map(read).collect();
    let count = rows.len();
    let by_id: BTreeMap<String, Value> =
        rows.into_iter().map(|row| (row["id"].as_str().unwrap().to_owned(), row)).collect();
    assert_eq!(by_id.len(), count, "an id is listed twice: {printed}");
    by_id
}

/// Lists, imports and lists again; returns the ids, which must be the same every time.
fn agreed(env: &TestEnv) -> Vec<String> {
    let before = rows(env, &["list", "--json"]);
    let imported = rows(env, &["import", "--json"]);
    let after = rows(env, &["list", "--json"]);
    let ids: Vec<&String> = before.keys().collect();
    assert_eq!(imported.keys().collect::<Vec<_>>(), ids);
    assert_eq!(after.keys().collect::<Vec<_>>(), ids);
    for (id, row) in &after {
        assert_eq!(row["where"], "both", "{row}");
        let before = &before[id];
        let unknown = before["unknown"].as_array().cloned().unwrap_or_default();
        for field in ["blocks", "subagents", "title", "firstPrompt", "project", "endedAt"] {
            let known = if unknown.contains(&json!(field)) { &Value::Null } else { &row[field] };
            assert_eq!(known, &before[field], "{field} of {id}");
        }
        assert_eq!(row["unknown"], Value::Null, "{row}");
    }
    let again = rows(env, &["import", "--json"]);
    assert!(again.values().all(|it| it["status"] == "unchanged"), "{again:?}");
    ids.into_iter().cloned().collect()
}

#[test]
fn a_partial_session_is_listed_as_it_is_imported() {
    let env = TestEnv::new();
    keep_notes_session(&env);
    let lost = "0b5e55ed-cccc-4000-8000-000000000009";
    Transcript::of_agent(lost, "a9").prompt("Work").says("Done.").keep(&env, "p");
    let alone = Transcript::of_agent("0b5e55ed-dddd-4000-8000-000000000010", "b7");
    env.write("claude/projects/p/agent-b7.jsonl", alone.prompt("Work").says("Done.").text());
    let ids = agreed(&env);
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert!(ids.iter().any(|it| it == lost), "{ids:?}");
    let shown = env.run(&["view", lost]);
    assert!(shown.starts_with("exit 0") && shown.contains("Done."), "{shown}");
}

#[test]
fn files_that_begin_alike_are_one_session_only_if_one_continues_the_other() {
    let env = TestEnv::new();
    let line = |text: &str| json!({"type": "summary", "summary": text}).to_string() + "\n";
    env.write("claude/projects/p/one.jsonl", line("a"));
    env.write("claude/projects/p/two.jsonl", line("a"));
    env.write("claude/projects/p/three.jsonl", line("a") + &line("b"));
    let ids = agreed(&env);
    assert_eq!(ids.len(), 1, "{ids:?}");
}

#[test]
fn copies_in_two_projects_are_one_session() {
    let env = TestEnv::new();
    let session = "0b5e55ed-eeee-4000-8000-000000000011";
    Transcript::new(session).prompt("Hello").keep(&env, "one");
    Transcript::new(session).prompt("Hello").says("Hi.").keep(&env, "two");
    assert_eq!(agreed(&env), [session]);
}

#[test]
fn a_database_lists_the_sessions_that_it_gives_to_the_store() {
    let env = recorded("subagent");
    std::fs::create_dir_all(env.path(".local/share/opencode")).unwrap();
    std::fs::rename(env.path("opencode.db"), env.path(".local/share/opencode/opencode.db"))
        .unwrap();
    assert_eq!(agreed(&env).len(), 1);
}

/// Stores a file in every way, and returns the ids of the sessions in the store.
fn stored_ids(env: &TestEnv, file: &str) -> Vec<String> {
    env.run(&["import", file, "--store", "s.db"]);
    let input = std::fs::File::open(env.path(file)).unwrap();
    let watched = env.command(&["watch", "-", "--store", "s.db"]).stdin(input).output().unwrap();
    assert!(watched.status.success(), "{}", String::from_utf8_lossy(&watched.stderr));
    let folder = std::path::Path::new(file).parent().unwrap().to_str().unwrap();
    env.run(&["import", folder, "--store", "s.db"]);
    rows(env, &["list", "--json", "--store", "s.db"]).into_keys().collect()
}

#[test]
fn a_session_is_named_by_its_lines_although_its_file_is_named_like_a_subagents() {
    let env = TestEnv::new();
    let text = Transcript::new("s1").prompt("Work").says("Done.").text();
    env.write("all/agent-notification.jsonl", text);
    assert_eq!(stored_ids(&env, "all/agent-notification.jsonl"), ["s1"]);
}

#[test]
fn the_file_of_a_subagent_alone_is_not_its_session() {
    let env = TestEnv::new();
    let text = Transcript::of_agent("s1", "a1").prompt("Work").says("Done.").text();
    for name in ["agent-a1.jsonl", "renamed.jsonl"] {
        env.write(&format!("{name}.d/{name}"), &text);
        assert_eq!(stored_ids(&env, &format!("{name}.d/{name}")), ["agent-a1"], "{name}");
    }
}
