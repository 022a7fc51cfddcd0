//! Files that a killed process was writing: they never look complete, and the next start removes
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::env::TestEnv;

const SESSION: &str = "5e551011-0000-4000-8000-000000000002";
const LIMIT: Duration = Duration::from_secs(60);

/// A store with one session, large enough that writing it takes a while.
fn stored() -> TestEnv {
    let env = TestEnv::new();
    let words = "words that differ ".repeat(400);
    let line = |number: u32| {
        format!(
            r#"{{"type":"user","uuid":"u{number}","sessionId":"{SESSION}","message":{{"role":"user","content":"{number} {words}"}}}}"#
        ) + "\n"
    };
    env.write(&format!("{SESSION}.jsonl"), (0..2_000).map(line).collect::<String>());
    env.done(&["import", &format!("{SESSION}.jsonl"), "--store", "store.db"]);
    env
}

/// Returns the unfinished files below a folder, however deep, and what lies beside them.
fn unfinished(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().contains(".unfinished") {
            found.push(entry.path());
        } else if entry.path().is_dir() {
            found.extend(unfinished(&entry.path()));
        }
    }
    found
}

/// Kills a command as soon as it has begun to write; returns whether it was killed in time.
fn kill_while_writing(env: &TestEnv, arguments: &[&str]) -> bool {
    let mut command = env.command(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    loop {
        if !unfinished(&env.path("")).is_empty() {
            child.kill().unwrap();
            child.wait().unwrap();
            return !unfinished(&env.path("")).is_empty();
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(start.elapsed() < LIMIT, "{arguments:?} writes nothing");
    }
}

#[test]
fn leftovers_of_a_killed_command_are_removed_at_the_next_start() {
    for arguments in [
        &["backup", "other/copy.db"][..],
        &["export", SESSION, "-o", "other/session.jsonl"],
        &["export", SESSION, "-o", "other/folder/"],
        &["export", SESSION, "--format", "json", "-o", "other/state.json"],
        &["restore", SESSION, "--to", "other/restored"],
    ] {
        let env = stored();
        fs::create_dir(env.path("other")).unwrap();
        let store = env.path("store.db").display().to_string();
        let arguments = [arguments, &["--store", &store]].concat();
        // A fast machine may have written all of it before the kill.
        let was_killed = (0..20).any(|_| {
            let was_killed = kill_while_writing(&env, &arguments);
            if !was_killed {
                fs::remove_dir_all(env.path("other")).unwrap();
                fs::create_dir(env.path("other")).unwrap();
            }
            was_killed
        });
        assert!(was_killed, "{arguments:?} was never killed while it was writing");
        let target = env.path(arguments[if arguments[0] == "backup" { 1 } else { 3 }]);
        assert!(!target.is_file(), "{arguments:?}: a file that looks complete");

        env.done(&["list", "--store", &store]);
        assert_eq!(unfinished(&env.path("")), Vec::<PathBuf>::new(), "{arguments:?}");
        assert!(!env.path("store.db-unfinished").exists());
    }
}

#[test]
fn only_files_of_processes_that_are_gone_are_removed() {
    let env = stored();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (gone, alive) = (gone.id(), std::process::id());
    let mut listed = Vec::new();
    for (process, name) in [
        (gone, format!("a.{gone}.unfinished")),
        (gone, format!("b.{gone}.3.unfinished")),
        (gone, format!("e.{gone}.unfinished")),
        (gone, "not ours".to_owned()),
        (gone, format!("c.{alive}.unfinished")),
        (alive, format!("d.{alive}.unfinished")),
    ] {
        env.write(&name, "half");
        listed.push((process, env.path(&name)));
    }
    for process in [gone, alive] {
        let paths = listed.iter().filter(|it| it.0 == process);
        let paths: String = paths.map(|it| format!("{}\n", it.1.display())).collect();
        env.write(&format!("store.db-unfinished/{process}"), paths);
    }
    // A backup is a database: a killed one leaves a journal, perhaps without the database itself.
    let beside = ["-journal", "-wal", "-shm"].map(|it| format!("e.{gone}.unfinished{it}"));
    beside.iter().for_each(|it| env.write(it, "half"));
    fs::remove_file(env.path(&format!("e.{gone}.unfinished"))).unwrap();
    env.write(&format!("c.{alive}.unfinished-journal"), "half");
    env.done(&["list", "--store", "store.db"]);
    let left: Vec<_> = listed.iter().map(|it| it.1.exists()).collect();
    assert_eq!(left, [false, false, false, true, true, true]);
    assert_eq!(beside.map(|it| env.path(&it).exists()), [false; 3]);
    assert!(env.path(&format!("c.{alive}.unfinished-journal")).exists());
    assert!(env.path(&format!("store.db-unfinished/{alive}")).exists());
    assert!(!env.path(&format!("store.db-unfinished/{gone}")).exists());
}

#[test]
fn an_export_does_not_replace_a_file_that_appeared_meanwhile() {
    let env = stored();
    let arguments = ["export", SESSION, "-o", "target.jsonl", "--store", "store.db"];
    env.done(&arguments);
    let once = fs::read(env.path("target.jsonl")).unwrap();
    assert_eq!(once, fs::read(env.path(&format!("{SESSION}.jsonl"))).unwrap());
    let again = env.command(&arguments).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(unfinished(&env.path("")), Vec::<PathBuf>::new());
}
