//! Store commands on corrupt files and stores.

use std::fs;
use std::process::Command;

use crate::env::{TestEnv, seen};
use crate::import::files_below;

fn line(session: &str, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{text}","sessionId":"{session}","message":{{"role":"user","content":"{text}"}}}}"#
    ) + "\n"
}

#[test]
fn a_pipe_in_a_folder_is_refused_and_the_other_files_are_imported() {
    let env = TestEnv::new();
    env.write("p/good.jsonl", line("good", "a question"));
    env.write("p/odd.jsonl", "SQLite format 3\0 and then nothing");
    assert!(Command::new("mkfifo").arg(env.path("p/pipe.jsonl")).status().unwrap().success());
    let said = env.run(&["import", "p"]);
    assert!(said.starts_with("exit 2"), "{said}");
    assert!(said.contains("good") && said.contains("not a regular file"), "{said}");
    assert!(env.run(&["view", "good", "--no-pager"]).contains("a question"));
    let alone = env.run(&["import", "p/pipe.jsonl"]);
    assert!(alone.contains("not a regular file") && alone.contains("hint: "), "{alone}");
}

#[test]
fn two_files_of_one_name_and_session_are_both_stored_once() {
    let env = TestEnv::new();
    let [one, other] = ["claude/projects/a/s1.jsonl", "claude/projects/b/s1.jsonl"];
    env.write(one, line("s1", "one"));
    env.write(other, line("s1", "other"));
    env.run(&["import", one, other]);
    for _ in 0..2 {
        let again = env.run(&["import", one, other]);
        assert!(again.contains("1 session: 0 new or updated, 1 unchanged"), "{again}");
    }
    env.run(&["export", "s1", "--format", "original", "--output", "out/"]);
    let out = files_below(&env.path("out")).into_iter().collect::<Vec<_>>();
    let wanted = [line("s1", "other").into_bytes(), line("s1", "one").into_bytes()];
    assert!(out[0].0.starts_with("copy-") && out[1].0 == "s1.jsonl", "{out:?}");
    assert_eq!([out[0].1.clone(), out[1].1.clone()], wanted);
    fs::remove_dir_all(env.path("claude/projects/a")).unwrap();
    fs::remove_dir_all(env.path("claude/projects/b")).unwrap();
    env.done(&["restore", "s1"]);
    let back = |name: &str| fs::read_to_string(env.path(name)).unwrap();
    assert_eq!(back(one), line("s1", "one"));
    assert_eq!(back(other), line("s1", "other"));
}

/// Imports sessions, and damages what is kept of the first.
fn damaged() -> TestEnv {
    let env = TestEnv::new();
    for session in ["s1", "s2"] {
        let lines: String =
            (0..3000).map(|it| line(session, &format!("{session} says {it}, and more"))).collect();
        env.write(&format!("{session}.jsonl"), lines);
        env.done(&["import", &format!("{session}.jsonl")]);
    }
    let store = env.path(".local/share/threadfold/store.db");
    let file = rusqlite::Connection::open(store).unwrap();
    let first = "SELECT blob FROM groups ORDER BY place LIMIT 1";
    let damage = format!("UPDATE blobs SET data = x'00' WHERE id = ({first})");
    assert_eq!(file.execute(&damage, []).unwrap(), 1);
    env
}

#[test]
fn a_corrupt_session_does_not_stop_the_export_of_others() {
    let env = damaged();
    let said = env.run(&["export", "--format", "original", "--output", "out"]);
    assert!(said.starts_with("exit 2"), "{said}");
    assert!(said.contains("session `s1`: ") && said.contains("corrupt"), "{said}");
    let original = fs::read(env.path("s2.jsonl")).unwrap();
    assert!(fs::read(env.path("out/s2/s2.jsonl")).unwrap() == original);
}

#[test]
fn the_advice_of_doctor_repairs_a_corrupt_session() {
    let env = damaged();
    let advice = env.run(&["doctor"]);
    assert!(advice.contains("`threadfold rm`, `gc --now`"), "{advice}");
    let failed = env.run(&["import", "--reread", "s1.jsonl"]);
    assert!(failed.starts_with("exit 2"), "{failed}");
    env.done(&["rm", "s1", "--yes"]);
    env.done(&["gc", "--now"]);
    env.done(&["import", "s1.jsonl"]);
    let out = env.command(&["export", "s1", "--format", "original"]).output().unwrap();
    assert!(out.stdout == fs::read(env.path("s1.jsonl")).unwrap(), "{}", seen(&out).len());
}
