//! `threadfold restore`: files are written back, nothing is overwritten without `--force`.

use std::fs;

use insta::assert_snapshot;

use crate::claude::{Transcript, keep_notes_session};
use crate::env::TestEnv;
use crate::export::hostile_store;
use crate::import::files_below;

#[test]
fn a_session_that_was_deleted_is_put_back() {
    let env = TestEnv::new();
    keep_notes_session(&env);
    let kept = files_below(&env.path("claude"));
    env.done(&["import"]);
    assert_snapshot!(env.told(&["restore", "5e55"]), @"
    exit 0
    --- stdout
    unchanged  <home>/claude/projects/-home-somebody-notes/5e551011-aaaa-4000-8000-000000000001.jsonl
    unchanged  <home>/claude/projects/-home-somebody-notes/5e551011-aaaa-4000-8000-000000000001/subagents/agent-a1.jsonl
    unchanged  <home>/claude/projects/-home-somebody-notes/5e551011-aaaa-4000-8000-000000000001/subagents/agent-a2.jsonl
    --- stderr
    ");
    fs::remove_dir_all(env.path("claude")).unwrap();
    env.done(&["restore", "5e55"]);
    assert_eq!(files_below(&env.path("claude")), kept);
    env.done(&["restore", "5e55", "--to", "elsewhere"]);
    let elsewhere = files_below(&env.path("elsewhere")).into_keys().collect::<Vec<_>>();
    assert_eq!(elsewhere.len(), kept.len());
    assert!(elsewhere[0].starts_with("5e551011"), "{elsewhere:?}");
}

#[test]
fn sources_without_a_path_do_not_stop_a_restore() {
    let env = TestEnv::new();
    let file = "claude/projects/p/s1.jsonl";
    let place = env.path(file).display().to_string();
    let store = env.path("store.db");
    hostile_store(&store, "s1", &[("s1.jsonl", Some(&place)), ("stdin", None)]);
    hostile_store(&store, "s2", &[("stdin", None)]);
    let told = env.told(&["restore", "s1", "--store", "store.db"]);
    assert!(told.starts_with("exit 0") && told.contains("skipped `stdin`"), "{told}");
    assert_eq!(fs::read_to_string(env.path(file)).unwrap(), "{}\n");
    let told = env.told(&["restore", "s2", "--store", "store.db"]);
    assert!(told.starts_with("exit 2") && told.contains("was not read from a file"), "{told}");
}

#[test]
fn the_later_of_two_sources_with_the_same_path_is_restored() {
    let env = TestEnv::new();
    let id = "5e551011-0000-4000-8000-0000000000aa";
    let note = format!("claude/projects/p/{id}/subagents/agent-a1.meta.json");
    Transcript::new(id).prompt("Hello").keep(&env, "p");
    env.write(&note, r#"{"agentType":"one"}"#);
    env.done(&["import"]);
    Transcript::new(id).prompt("Count").keep(&env, &format!("p/{id}/subagents"));
    let made = format!("claude/projects/p/{id}/subagents/{id}.jsonl");
    fs::rename(env.path(&made), env.path(&note.replace(".meta.json", ".jsonl"))).unwrap();
    env.done(&["import"]);
    let kept = files_below(&env.path("claude"));
    fs::remove_dir_all(env.path("claude")).unwrap();
    env.done(&["restore", id]);
    assert_eq!(files_below(&env.path("claude")), kept);
}

#[test]
fn a_file_that_differs_is_replaced_only_with_force_and_backed_up() {
    let env = TestEnv::new();
    Transcript::new("s1").prompt("Hello").keep(&env, "p");
    env.done(&["import"]);
    let file = "claude/projects/p/s1.jsonl";
    let kept = fs::read(env.path(file)).unwrap();
    for (mine, backup) in [("mine\n", "s1.jsonl.bak"), ("mine too\n", "s1.jsonl.bak2")] {
        env.write(file, mine);
        let told = env.told(&["restore", "s1"]);
        assert!(
            told.starts_with("exit 2") && told.contains("already exists and differs"),
            "{told}"
        );
        assert_eq!(fs::read_to_string(env.path(file)).unwrap(), mine);
        env.done(&["restore", "s1", "--force"]);
        assert_eq!(fs::read(env.path(file)).unwrap(), kept);
        let backup = env.path("claude/projects/p").join(backup);
        assert_eq!(fs::read_to_string(backup).unwrap(), mine);
    }
    assert_eq!(files_below(&env.path("claude")).len(), 3, "nothing unfinished is left");
}

#[test]
fn a_path_in_a_foreign_store_is_not_trusted() {
    let env = TestEnv::new();
    let bashrc = env.path(".bashrc").display().to_string();
    let up = env.path("a/../s.jsonl").display().to_string();
    let elsewhere = env.path("s.jsonl").display().to_string();
    let settings = env.path("claude/settings.json").display().to_string();
    let credentials = env.path(".local/share/opencode/auth.json").display().to_string();
    // A link within the agent's folder leads out of it.
    fs::create_dir_all(env.path("claude/projects")).unwrap();
    fs::create_dir_all(env.path("outside")).unwrap();
    std::os::unix::fs::symlink(env.path("outside"), env.path("claude/projects/p")).unwrap();
    let linked = env.path("claude/projects/p/s.jsonl").display().to_string();
    let cases = [
        ("s.jsonl", Some(bashrc.as_str())),
        ("s.jsonl", Some(elsewhere.as_str())),
        ("settings.json", Some(settings.as_str())),
        ("auth.json", Some(credentials.as_str())),
        ("s.jsonl", Some(linked.as_str())),
        ("s.jsonl", Some(up.as_str())),
        ("s.jsonl", Some("s.jsonl")),
        ("s.jsonl", None),
    ];
    for (number, case) in cases.iter().enumerate() {
        let store = format!("{number}.db");
        hostile_store(&env.path(&store), "s", &[*case]);
        let told = env.told(&["restore", "s", "--store", &store]);
        assert!(told.starts_with("exit 2") && told.contains("`--to"), "{case:?}: {told}");
    }
    let left = files_below(&env.path("")).into_keys().collect::<Vec<_>>();
    assert!(left.iter().all(|it| it.contains(".db")), "{left:?}");
}
