//! `threadfold import`: what is one session becomes one, and what is two stays two.

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
fn a_file_that_tells_no_session_is_not_mixed_with_another_of_its_name() {
    let env = TestEnv::new();
    env.write("a/notes.jsonl", "{\"type\":\"session\",\"version\":3}\n");
    env.write("b/notes.jsonl", "{\"kind\":\"other\"}\n{\"kind\":\"more\"}\n");
    env.write("c/notes.jsonl", "{\"type\":\"summary\",\"summary\":\"S\",\"leafUuid\":\"u\"}\n");
    env.done(&["import", "a/notes.jsonl"]);
    let told = env.told(&["import", "b/notes.jsonl", "c/notes.jsonl"]);
    assert!(
        told.contains("`b/notes.jsonl` is another session than `notes` of the store"),
        "{told}"
    );
    assert!(told.contains("`c/notes.jsonl` is another session than `notes`"), "{told}");
    assert_eq!(ids(&env).len(), 3);
    let again = env.told(&["import", "a/notes.jsonl", "b/notes.jsonl", "c/notes.jsonl"]);
    assert_eq!(again.matches("  unchanged").count(), 3, "{again}");
    assert!(!again.contains("another session"), "{again}");
    env.done(&["export", "--output", "out"]);
    assert_eq!(files_below(&env.path("out")).len(), 3);
}

#[test]
fn a_copy_or_a_file_that_was_moved_is_the_same_session() {
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
    assert_eq!(ids(&env), [ONE, "notes"]);
    assert_eq!(env.done(&["export", ONE]), whole);
}
