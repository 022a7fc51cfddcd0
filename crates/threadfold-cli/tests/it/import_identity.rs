//! `threadfold import`: sessions are neither split nor merged.

use crate::claude::Transcript;
use crate::env::TestEnv;
use crate::import::files_below;

const ONE: &str = "aaaaaaaa-1111-4000-8000-000000000001";
const TWO: &str = "bbbbbbbb-2222-4000-8000-000000000002";

fn ids(env: &TestEnv) -> Vec<String> {
    let listed = env.done(&["list", "--json"]);
    let rows = listed.lines().map(|it| serde_json::from_str::<serde_json::Value>(it).unwrap());
    let mut ids: Vec<_> = rows.map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn files_of_one_name_and_two_sessions_stay_apart() {
    let env = TestEnv::new();
    let one = Transcript::new(ONE).prompt("First").says("Yes.").text();
    let two = Transcript::new(TWO).prompt("Second").says("No.").text();
    env.write("m/a/session.jsonl", &one);
    env.write("m/b/session.jsonl", &two);
    env.done(&["import", "m/a/session.jsonl", "m/b/session.jsonl"]);
    assert_eq!(ids(&env), [ONE, TWO]);
    assert_eq!(env.done(&["export", ONE]), one);
    assert_eq!(env.done(&["export", TWO]), two);
    let again = env.done(&["import", "m"]);
    assert!(again.lines().all(|it| it.ends_with("  unchanged")), "{again}");
}

#[test]
fn files_without_a_session_id_and_with_the_same_name_stay_separate() {
    let env = TestEnv::new();
    env.write("a/notes.jsonl", "{\"type\":\"session\",\"version\":3}\n");
    env.write("b/notes.jsonl", "{\"kind\":\"other\"}\n{\"kind\":\"more\"}\n");
    env.write("c/notes.jsonl", "{\"type\":\"summary\",\"summary\":\"S\",\"leafUuid\":\"u\"}\n");
    env.done(&["import", "a/notes.jsonl"]);
    env.done(&["import", "b/notes.jsonl", "c/notes.jsonl"]);
    assert_eq!(ids(&env).len(), 3);
    assert_eq!(ids(&env).len(), 3);
    let again = env.told(&["import", "a/notes.jsonl", "b/notes.jsonl", "c/notes.jsonl"]);
    assert_eq!(again.matches("  unchanged").count(), 3, "{again}");
    assert!(!again.contains("another session"), "{again}");
    env.done(&["export", "--output", "out"]);
    assert_eq!(files_below(&env.path("out")).len(), 3);
}

#[test]
fn a_copied_or_moved_file_is_the_same_session() {
    let env = TestEnv::new();
    let whole = Transcript::new(ONE).prompt("First").says("Yes.").says("And more.").text();
    let begin = whole.lines().take(2).map(|it| format!("{it}\n")).collect::<String>();
    env.write(&format!("a/{ONE}.jsonl"), &begin);
    env.write("a/notes.jsonl", "{\"kind\":\"one\"}\n");
    env.done(&["import", &format!("a/{ONE}.jsonl"), "a/notes.jsonl"]);
    std::fs::rename(env.path("a"), env.path("b")).unwrap();
    env.write(&format!("b/{ONE}.jsonl"), &whole);
    env.write("b/notes.jsonl", "{\"kind\":\"one\"}\n{\"kind\":\"two\"}\n");
    let moved = env.done(&["import", &format!("b/{ONE}.jsonl"), "b/notes.jsonl"]);
    assert_eq!(moved.matches("  grown: 1 record").count(), 2, "{moved}");
    env.write("copy.jsonl", &whole);
    assert_eq!(env.done(&["import", "copy.jsonl"]), format!("{ONE}  unchanged\n"));
    assert_eq!(ids(&env).len(), 2);
    assert_eq!(env.done(&["export", ONE]), whole);
}

/// A session that Claude Code copied into the folder of another project.
fn resumed_elsewhere(more: &str) -> (TestEnv, String, String) {
    let env = TestEnv::new();
    let begun = || Transcript::new(ONE).prompt("First").says("Yes.");
    let (one, other) = (begun().says("And so on.").text(), begun().text() + more);
    env.write(&format!("claude/projects/a/{ONE}.jsonl"), &one);
    env.write(&format!("claude/projects/b/{ONE}.jsonl"), &other);
    (env, one, other)
}

#[test]
fn a_truncated_copy_adds_nothing() {
    let (env, one, _) = resumed_elsewhere("");
    assert!(env.done(&["import"]).contains("new: 3 records"));
    for _ in 0..3 {
        assert_eq!(env.done(&["import"]), format!("{ONE}  unchanged\n"));
    }
    assert_eq!(env.done(&["export", "aaaa"]), one);
    assert!(env.done(&["view", "aaaa"]).contains("And so on."));
    let listed = env.done(&["list", "--json"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(!listed.contains("isNewer") && !listed.contains("hasLess"), "{listed}");
}

#[test]
fn two_copies_that_differ_are_two_files_of_one_session() {
    let more = Transcript::new(ONE).prompt("Not so").text().replace("-main-0", "-main-9");
    let (env, one, other) = resumed_elsewhere(&more);
    env.done(&["import"]);
    for _ in 0..3 {
        assert_eq!(env.done(&["import"]), format!("{ONE}  unchanged\n"));
    }
    let viewed = env.done(&["view", "aaaa"]);
    assert!(viewed.contains("And so on.") && viewed.contains("Not so"), "{viewed}");
    assert_eq!(viewed.matches("First").count(), 1, "{viewed}");
    env.done(&["export", "aaaa", "--output", "out/"]);
    let out = files_below(&env.path("out"));
    assert_eq!(out.len(), 2, "{:?}", out.keys());
    std::fs::remove_dir_all(env.path("claude")).unwrap();
    env.done(&["restore", "aaaa"]);
    let back = |project: &str| {
        std::fs::read_to_string(env.path(&format!("claude/projects/{project}/{ONE}.jsonl")))
            .unwrap()
    };
    assert_eq!((back("a"), back("b")), (one, other));
}

#[test]
fn a_copy_that_grew_after_the_first_import_is_restored_to_its_own_path() {
    let env = TestEnv::new();
    let begun = Transcript::new(ONE).prompt("First").says("Yes.").text();
    let longer = Transcript::new(ONE).prompt("First").says("Yes.").says("And so on.").text();
    env.write(&format!("claude/projects/a/{ONE}.jsonl"), &begun);
    env.done(&["import"]);
    env.write(&format!("claude/projects/b/{ONE}.jsonl"), &longer);
    env.done(&["import"]);
    assert_eq!(env.done(&["import"]), format!("{ONE}  unchanged\n"));
    std::fs::remove_dir_all(env.path("claude")).unwrap();
    env.done(&["restore", "aaaa"]);
    let back = files_below(&env.path("claude/projects"));
    assert_eq!(back[&format!("a/{ONE}.jsonl")], begun.as_bytes());
    assert_eq!(back[&format!("b/{ONE}.jsonl")], longer.as_bytes());
}

#[test]
fn a_truncated_file_removes_nothing() {
    let env = TestEnv::new();
    let begun = || Transcript::new(ONE).prompt("First").says("Yes.");
    let (path, whole) = (format!("claude/projects/a/{ONE}.jsonl"), begun().says("Then.").text());
    env.write(&path, &whole);
    env.done(&["import"]);
    let viewed = env.done(&["view", "aaaa"]);
    env.write(&path, begun().text());
    let listed = env.done(&["list"]);
    assert!(listed.contains("both -"), "{listed}");
    assert_eq!(env.done(&["view", "aaaa"]), viewed);
    assert_eq!(env.done(&["import"]), format!("{ONE}  unchanged\n"));
    assert_eq!(env.done(&["export", "aaaa"]), whole);

    // It goes on another way: what it was stays, and in its place.
    env.write(&path, begun().line("user", serde_json::json!({"uuid": "else", "message": {"role": "user", "content": "Instead"}})).text());
    let grown = env.done(&["import"]);
    assert!(grown.contains("rewritten, and both versions are kept"), "{grown}");
    let viewed = env.done(&["view", "aaaa"]);
    let places = ["First", "Yes.", "Then.", "Instead"].map(|it| viewed.find(it).unwrap());
    assert!(places.is_sorted(), "{viewed}");
}
