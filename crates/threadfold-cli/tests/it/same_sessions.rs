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
