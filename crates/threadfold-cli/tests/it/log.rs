//! `threadfold log`: records as received, and the events they were converted to.

use insta::assert_snapshot;

use crate::claude::Transcript;
use crate::env::TestEnv;

fn kept() -> TestEnv {
    let env = TestEnv::new();
    Transcript::new("s1")
        .prompt("Hello")
        .says("Hi \u{1b}[31mthere")
        .calls("call-1", "Bash", serde_json::json!({"command": "ls"}))
        .gives("call-1", "a")
        .keep(&env, "p");
    env.done(&["import"]);
    env
}

/// Hides the times of receipt, which no two runs share.
fn without_times(shown: &str) -> String {
    let hide = |line: &str| match line.get(8..27) {
        Some(time) if time.starts_with("20") => line.replace(time, "<received>"),
        _ => line.to_owned(),
    };
    shown.lines().map(hide).collect::<Vec<_>>().join("\n")
}

#[test]
fn records_are_shown_as_lines_with_escaped_control_characters() {
    let env = kept();
    assert_snapshot!(without_times(&env.told(&["log", "s1", "--from", "2"])), @r#"
    exit 0
    --- stdout
         2  <received>  s1.jsonl              line        173 B  {"isSidechain":false,"message":{"content":"Hello","role":"u…
         3  <received>  s1.jsonl              line        349 B  {"isSidechain":false,"message":{"content":[{"text":"Hi \u00…
         4  <received>  s1.jsonl              line        378 B  {"isSidechain":false,"message":{"content":[{"id":"call-1","…
         5  <received>  s1.jsonl              line        234 B  {"isSidechain":false,"message":{"content":[{"content":"a","…
    --- stderr
    "#);
}

#[test]
fn each_record_has_its_events() {
    let env = kept();
    assert_snapshot!(without_times(&env.told(&["log", "s1", "--events", "--from", "3", "--to", "4"])), @r#"
    exit 0
    --- stdout
         3  <received>  s1.jsonl              line        349 B  {"isSidechain":false,"message":{"content":[{"text":"Hi \u00…
            main  block:upsert  msg-main-1:0 assistant_text
            main  metadata:update  usage
         4  <received>  s1.jsonl              line        378 B  {"isSidechain":false,"message":{"content":[{"id":"call-1","…
            main  block:upsert  call-1 tool_use
            main  metadata:update  usage
    --- stderr
    "#);
}

#[test]
fn json_has_one_object_per_record() {
    let env = kept();
    let shown = env.done(&["log", "s1", "--json", "--events", "--from", "2", "--to", "2"]);
    let row: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&row["seq"], &row["kind"]), (&2.into(), &"line".into()));
    assert_eq!((&row["name"], &row["position"]), (&"s1.jsonl".into(), &0.into()));
    assert_eq!(row["events"][0]["context"]["seq"], 2);
    assert_eq!(env.done(&["log", "s1", "--json"]).lines().count(), 5);
}

#[test]
fn a_position_beyond_the_end_is_an_error() {
    assert_snapshot!(kept().told(&["log", "s1", "--from", "9"]), @"
    exit 2
    --- stdout
    --- stderr
    error: session `s1` ends at record 5, and `--from` asks for 9
    hint: without `--from` all records are shown
    ");
    assert_snapshot!(kept().told(&["log", "s2"]), @"
    exit 2
    --- stdout
    --- stderr
    error: session `s2` is not in the store
    hint: `threadfold list` shows the sessions; `threadfold import` adds one
    ");
}
