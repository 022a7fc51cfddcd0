//! `threadfold import`: all files of a session at any depth, none before its session is known.

use std::fs;

use insta::assert_snapshot;

use crate::claude::Transcript;
use crate::env::TestEnv;
use crate::import::files_below;

const ONE: &str = "aaaaaaaa-1111-4000-8000-000000000001";
const TWO: &str = "bbbbbbbb-2222-4000-8000-000000000002";

#[test]
fn all_files_below_a_session_folder_are_stored_and_exported() {
    let env = TestEnv::new();
    Transcript::new(ONE).prompt("First").says("Full output saved elsewhere").keep(&env, "p");
    let own = format!("claude/projects/p/{ONE}");
    env.write(&format!("{own}/tool-results/a.txt"), "one\ntwo");
    env.write(&format!("{own}/tool-results/b.png"), b"\x89PNG\r\n\x1a\n\x00\xff");
    env.write(&format!("{own}/subagents/notes.json"), "{}");
    let agent = Transcript::of_agent(ONE, "a1").prompt("Go").says("Done").text();
    env.write(&format!("{own}/subagents/agent-a1.jsonl"), agent);
    let kept = files_below(&env.path("claude/projects"));
    env.done(&["import"]);
    assert_eq!(env.done(&["import"]), format!("{ONE}  unchanged\n"));
    env.done(&["export", ONE, "--output", "out/"]);
    let out = files_below(&env.path("out"));
    assert_eq!(out.len(), 5, "{:?}", out.keys());
    assert_eq!(out[&format!("{ONE}/tool-results/b.png")], b"\x89PNG\r\n\x1a\n\x00\xff");
    let viewed = env.done(&["view", ONE]);
    assert!(!viewed.contains("unknown record"), "{viewed}");
    fs::remove_dir_all(env.path("claude")).unwrap();
    env.done(&["restore", ONE]);
    assert_eq!(files_below(&env.path("claude/projects")), kept);
}

#[test]
fn files_without_their_session_are_stored_as_a_separate_session() {
    let env = TestEnv::new();
    let agent = |session: &str, name: &str| {
        Transcript::of_agent(session, name).prompt("Go").says("Done").text()
    };
    env.write("claude/projects/p/agent-lone.jsonl", agent(ONE, "lone"));
    env.write(&format!("claude/projects/p/{TWO}/subagents/agent-a2.jsonl"), agent(TWO, "a2"));
    env.write(&format!("claude/projects/p/{TWO}/tool-results/x.txt"), "x");
    let kept = files_below(&env.path("claude/projects"));
    for (arguments, store) in [(&["import"][..], "1.db"), (&["import", "claude"], "2.db")] {
        let import = [arguments, &["--store", store]].concat();
        let told = env.done(&import);
        assert!(told.contains(TWO) && told.contains("agent-lone"), "{told}");
        assert!(env.done(&import).lines().all(|it| it.ends_with("unchanged")));
        let out = format!("{store}.out");
        env.done(&["export", "--output", &out, "--store", store]);
        let mut out: Vec<_> = files_below(&env.path(&out)).into_values().collect();
        let mut kept: Vec<_> = kept.values().cloned().collect();
        out.sort();
        kept.sort();
        assert_eq!(out, kept);
    }
}

#[test]
fn nested_sessions_are_found_and_counted_once() {
    let env = TestEnv::new();
    let one = Transcript::new(ONE).prompt("First").says("Yes.").text();
    env.write(&format!("all/x/y/z/{ONE}.jsonl"), one);
    let stream = r#"{"type":"assistant","uuid":"a1","session_id":"ID","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"Yes."}]}}"#;
    env.write("all/x/stream.jsonl", stream.replace("ID", ONE));
    env.write("all/w/two.jsonl", Transcript::new(TWO).prompt("Second").text());
    env.write("all/w/notes.txt", "notes");
    assert_snapshot!(env.run(&["import", "all"]), @"
    exit 0
    --- stdout
    bbbbbbbb-2222-4000-8000-000000000002  new: 1 record, 242 B
    aaaaaaaa-1111-4000-8000-000000000001  new: 1 record, 167 B
    aaaaaaaa-1111-4000-8000-000000000001  grown: 2 records, 678 B
    --- stderr
    skipped 1 file of `all` in an unknown format: use `--any` to import every file
    2 sessions: 2 new or updated, 0 unchanged, 0 failed
    ");
}

#[test]
fn a_file_without_a_record_yet_is_not_assigned_to_a_session() {
    let env = TestEnv::new();
    let whole = Transcript::new(ONE).prompt("First").says("Yes.").text();
    let path = format!("{ONE}.jsonl");
    for cut in [0, 1, 40] {
        env.write(&path, &whole[..cut]);
        let told = env.told(&["import", &path]);
        assert!(told.starts_with("exit 2") && told.contains("no complete record yet"), "{told}");
    }
    env.write(&path, &whole);
    env.done(&["import", &path]);
    let viewed = env.done(&["view", ONE]);
    assert!(viewed.contains("First") && !viewed.contains("unknown record"), "{viewed}");
}
