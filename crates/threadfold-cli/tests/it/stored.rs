//! `list` and `view` with a store beside the agents' folders.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::claude::{Transcript, keep_notes_session};
use crate::env::TestEnv;
use crate::import::data;

fn session(id: &str, prompt: &str) -> Transcript {
    Transcript::new(id).prompt(prompt).says("Yes.")
}

#[test]
fn a_row_shows_where_its_session_is() {
    let env = TestEnv::new();
    keep_notes_session(&env);
    session("grown", "Will I grow?").keep(&env, "p");
    session("gone", "Will I go?").keep(&env, "p");
    env.done(&["import"]);
    session("grown", "Will I grow?").says("You have.").keep(&env, "p");
    session("fresh", "Am I new?").keep(&env, "p");
    fs::remove_file(env.path("claude/projects/p/gone.jsonl")).unwrap();
    assert_snapshot!(env.told(&["list"]), @"
    exit 0
    --- stdout
    id        where   when        title            blocks  subagents   cost
    ────────  ──────  ──────────  ───────────────  ──────  ─────────  ─────
    5e551011  both    2025-03-01  Count the notes      17          2  $0.01
    grown     both +  2025-03-01  Will I grow?          3
    fresh     disk    2025-03-01  Am I new?             2
    gone      store   2025-03-01  Will I go?            2
    --- stderr
    ");
    let listed = env.done(&["list", "--json"]);
    let rows: Vec<Value> = listed.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let row = |id: &str| rows.iter().find(|it| it["id"] == id).unwrap();
    assert_eq!((&row("grown")["where"], &row("grown")["isNewer"]), (&"both".into(), &true.into()));
    assert_eq!((&row("gone")["where"], &row("gone")["records"]), (&"store".into(), &3.into()));
    assert_eq!(row("fresh")["where"], "disk");
}

#[test]
fn the_store_lists_a_session_as_its_files_do() {
    let env = TestEnv::new();
    keep_notes_session(&env);
    let mut before: Value = serde_json::from_str(&env.done(&["list", "--json"])).unwrap();
    env.done(&["import"]);
    let both: Value = serde_json::from_str(&env.done(&["list", "--json"])).unwrap();
    before["where"] = "both".into();
    before["records"] = both["records"].clone();
    assert!(both["records"].as_u64().unwrap() > 1);
    assert_eq!(both, before);
    fs::remove_dir_all(env.path("claude")).unwrap();
    let mut kept: Value = serde_json::from_str(&env.done(&["list", "--json"])).unwrap();
    kept["where"] = "both".into();
    assert_eq!(kept, before);
}

#[test]
fn a_session_is_viewed_from_the_store_unless_its_folder_has_more() {
    let env = TestEnv::new();
    keep_notes_session(&env);
    session("s1", "Hello").keep(&env, "p");
    let viewed = env.done(&["view", "5e55"]);
    env.done(&["import"]);
    assert_eq!(env.done(&["view", "5e55"]), viewed);
    session("s1", "Hello").says("And more.").keep(&env, "p");
    assert!(env.done(&["view", "s1"]).contains("And more."));
    fs::remove_dir_all(env.path("claude")).unwrap();
    assert_eq!(env.done(&["view", "5e55"]), viewed);
    assert!(!env.done(&["view", "s1"]).contains("And more."));
    let missing = env.told(&["view", "nobody"]);
    assert_snapshot!(missing, @"
    exit 2
    --- stdout
    --- stderr
    error: session `nobody` is not in the store, `<home>/.local/share/opencode`, `<home>/.codex` or `<home>/claude/projects`
    hint: `threadfold list` shows the sessions; the path of a session's file works as well
    ");
}

#[test]
fn a_name_that_is_in_the_folder_and_in_the_store_is_ambiguous() {
    let env = TestEnv::new();
    session("aa1", "Kept").keep(&env, "p");
    env.done(&["import"]);
    fs::remove_dir_all(env.path("claude")).unwrap();
    session("aa2", "Found").keep(&env, "p");
    assert_snapshot!(env.told(&["view", "aa"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `aa` matches 2 sessions: `aa2`, `aa1`
    hint: use a longer prefix
    ");
    assert!(env.done(&["view", "aa1"]).contains("Kept"));
    assert!(env.done(&["view", "aa2"]).contains("Found"));
    session("aa", "Short").keep(&env, "p");
    assert!(env.done(&["view", "aa"]).contains("Short"));
}

#[test]
fn the_state_at_a_record_equals_the_fold_of_the_lines_before_it() {
    let env = TestEnv::new();
    let lines: Vec<String> = session("s1", "Hello")
        .calls("call-1", "Bash", serde_json::json!({"command": "ls"}))
        .gives("call-1", "a\nb")
        .says("Two files.")
        .text()
        .lines()
        .map(|line| format!("{line}\n"))
        .collect();
    env.write("claude/projects/p/s1.jsonl", lines.concat());
    env.done(&["import"]);
    // The first record declares the source.
    for count in 1..=lines.len() {
        let at = env.done(&["view", "s1", "--at", &(count + 1).to_string(), "--json"]);
        let at: Value = serde_json::from_str(&at).unwrap();
        let store = format!("{count}.db");
        env.write(&format!("{count}/s1.jsonl"), lines[..count].concat());
        let file = format!("{count}/s1.jsonl");
        env.done(&["import", &file, "--from", "claude-transcript", "--store", &store]);
        let whole = (count + 1).to_string();
        let told = env.done(&["view", "s1", "--at", &whole, "--json", "--store", &store]);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(at, told, "the first {count} lines");
    }
    assert_snapshot!(env.told(&["view", "s1", "--at", "99"]), @"
    exit 2
    --- stdout
    --- stderr
    error: session `s1` has 6 records, and `--at` asks for 99
    hint: `--at 6` is the session after all of them
    ");
    assert!(env.done(&["view", "s1", "--at", "0"]).contains("0 blocks"));
}

#[test]
fn at_a_record_of_a_recording_a_session_has_what_it_had_then() {
    let env = TestEnv::new();
    env.done(&["import", data("claude/nested/transcript").to_str().unwrap()]);
    let head: Value = serde_json::from_str(&env.done(&["list", "--json"])).unwrap();
    let mut blocks = Vec::new();
    for at in (0..=head["records"].as_u64().unwrap()).step_by(8) {
        let state = env.done(&["view", "d897", "--at", &at.to_string(), "--json"]);
        let state: Value = serde_json::from_str(&state).unwrap();
        let inside = state["subagents"].as_array().unwrap().iter();
        let inside: usize = inside.map(|it| it["blocks"].as_array().unwrap().len()).sum();
        blocks.push(state["blocks"].as_array().unwrap().len() + inside);
    }
    assert!(blocks.is_sorted() && blocks[0] == 0 && blocks[blocks.len() - 1] > 10, "{blocks:?}");
}
