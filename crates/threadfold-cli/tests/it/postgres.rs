//! The commands over a store in PostgreSQL.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use threadfold_testkit::{Durability, PostgresServer};

use crate::claude::Transcript;
use crate::env::TestEnv;

fn server() -> PostgresServer {
    PostgresServer::start(Durability::Fast).unwrap()
}

/// Recordings of three agents, with subagents, compactions and unknown lines.
const RECORDINGS: [&str; 6] = [
    "claude/compact_manual",
    "claude/badagent",
    "claude/bg_parallel3_arg",
    "codex/exec_mcp",
    "codex/app_v2sub",
    "hostile",
];

/// Imports recordings into a store, and returns the ids of the sessions.
fn import_recordings(env: &TestEnv, store: &str) -> Vec<String> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    for name in RECORDINGS {
        let folder = data.join(name);
        if folder.exists() {
            env.run(&["import", "--any", folder.to_str().unwrap(), "--store", store]);
        }
    }
    ids(env, store)
}

fn ids(env: &TestEnv, store: &str) -> Vec<String> {
    let listed = env.done(&["list", "--json", "--store", store]);
    let mut ids: Vec<String> = listed
        .lines()
        .filter_map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            Some(row.get("id")?.as_str()?.to_owned())
        })
        .collect();
    ids.sort();
    ids
}

/// Returns all that commands print of a session: its events, its original bytes, its records and
/// what people see of it.
fn seen_of(env: &TestEnv, store: &str, id: &str) -> [String; 3] {
    [
        env.run(&["export", id, "--format", "events", "--store", store]),
        env.run(&["export", id, "--format", "original", "--store", store]),
        env.run(&["view", "--no-pager", id, "--store", store]),
    ]
}

#[test]
fn a_session_is_the_same_in_both_kinds_of_stores() {
    let (env, server) = (TestEnv::new(), server());
    let url = server.url();
    let imported = import_recordings(&env, "s.db");
    assert!(imported.len() >= 5, "{imported:?}");
    assert_eq!(import_recordings(&env, &url), imported);
    for id in &imported {
        assert_eq!(seen_of(&env, &url, id), seen_of(&env, "s.db", id), "{id}");
    }
    let healthy = env.run(&["doctor", "--store", &url]);
    assert!(healthy.starts_with("exit 0"), "{healthy}");
    env.done(&["reindex", "--store", &url]);
    env.done(&["gc", "--now", "--store", &url]);
    for id in &imported {
        assert_eq!(seen_of(&env, &url, id), seen_of(&env, "s.db", id), "{id}");
    }
    env.done(&["rm", "--yes", &imported[0], "--store", &url]);
    assert_eq!(ids(&env, &url), imported[1..]);
}

#[test]
fn copies_there_and_back_are_equal() {
    let (env, server) = (TestEnv::new(), server());
    let url = server.url();
    let imported = import_recordings(&env, "s.db");
    env.done(&["copy", "--from", "s.db", "--to", &url]);
    env.done(&["copy", "--from", &url, "--to", "back.db"]);
    env.done(&["backup", "backup.db", "--store", &url]);
    for store in ["back.db", "backup.db"] {
        assert_eq!(ids(&env, store), imported);
        for id in &imported {
            assert_eq!(seen_of(&env, store, id), seen_of(&env, "s.db", id), "{id}");
        }
    }
    let again = env.done(&["copy", "--from", &url, "--to", "back.db"]);
    assert!(again.lines().all(|line| line.ends_with("unchanged")), "{again}");
}

#[cfg(target_os = "linux")]
#[test]
fn copies_that_are_interrupted_at_random_moments_are_continued_and_equal() {
    let interruptions = crate::cluster::asked("THREADFOLD_CRASH_COPIES", 4);
    let (env, server) = (TestEnv::new(), server());
    let url = server.url();
    let mut ids = import_recordings(&env, "s.db");
    let long = "33333333-3333-4333-8333-333333333333";
    let text = crate::serve::transcript(long, 3_000);
    env.write(&format!("claude/projects/-work-project/{long}.jsonl"), text);
    env.done(&["import", "--store", "s.db"]);
    ids.push(long.to_owned());
    let (mut done, mut random, mut round, mut finished) = (0, 18_u64, 0, 0);
    while done < interruptions {
        // There, and back to a file.
        let back = format!("back-{round}.db");
        round += 1;
        if server.sql("DROP SCHEMA IF EXISTS threadfold CASCADE").is_err() {
            panic!("the store cannot be emptied");
        }
        for (from, to) in [("s.db", url.as_str()), (url.as_str(), back.as_str())] {
            loop {
                let mut copy = env.command(&["copy", "--from", from, "--to", to]);
                let mut copy = copy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                std::thread::sleep(Duration::from_millis((random >> 33) % 700));
                if done >= interruptions || copy.try_wait().unwrap().is_some() {
                    assert!(copy.wait().unwrap().success());
                    finished += 1;
                    break;
                }
                copy.kill().unwrap();
                copy.wait().unwrap();
                done += 1;
            }
        }
        for id in &ids {
            let original = seen_of(&env, "s.db", id);
            assert_eq!(seen_of(&env, &url, id), original, "{id}");
            assert_eq!(seen_of(&env, &back, id), original, "{id}");
        }
    }
    crate::cluster::report(&format!(
        "{done} interruptions of `copy` from SQLite to PostgreSQL and back: {finished} copies of {} \
         sessions were continued to their end, and all of them are equal to the originals",
        ids.len()
    ));
}

#[test]
fn a_copy_continues_what_has_grown_and_refuses_what_is_another_log() {
    let (env, server) = (TestEnv::new(), server());
    let url = server.url();
    Transcript::new("s1").prompt("Hello").says("Hi").keep(&env, "p");
    env.done(&["import", "--store", "s.db"]);
    env.done(&["copy", "--from", "s.db", "--to", &url]);
    Transcript::new("s1").prompt("Hello").says("Hi").prompt("More").says("Yes").keep(&env, "p");
    env.done(&["import", "--store", "s.db"]);
    let more = env.done(&["copy", "s1", "--from", "s.db", "--to", &url]);
    assert!(more.contains("s1  added: "), "{more}");
    assert_eq!(seen_of(&env, &url, "s1"), seen_of(&env, "s.db", "s1"));
    env.done(&["import", "--store", "other.db"]);
    let refused = env.run(&["copy", "--from", "other.db", "--to", &url]);
    assert!(refused.starts_with("exit 2") && refused.contains("with other records"), "{refused}");
}

#[test]
fn a_password_is_found_in_its_file_and_never_printed() {
    let (env, server) = (TestEnv::new(), server());
    let url = server.url();
    let password = url.split_once("threadfold:").unwrap().1.split_once('@').unwrap().0;
    let bare = url.replace(&format!(":{password}@"), "@");
    Transcript::new("s1").prompt("Hello").says("Hi").keep(&env, "p");
    let file = env.path("passwords");
    fs::write(&file, format!("*:*:*:threadfold:{password}\n")).unwrap();
    let import = || {
        let mut command = env.command(&["import", "--store", &bare]);
        crate::env::seen(&command.env("PGPASSFILE", &file).output().unwrap())
    };
    let open = import();
    assert!(open.starts_with("exit 2") && open.contains("can be read by others"), "{open}");
    close_to_others(&file);
    let done = import();
    assert!(done.starts_with("exit 0"), "{done}");
    let refused = env.run(&["list", "--store", &bare.replace("threadfold@", "threadfold:wrong@")]);
    let gone = url.replace(&server.port().to_string(), "1");
    let unreachable = env.run(&["list", "--store", &gone]);
    for told in [refused, unreachable, open, done] {
        assert!(!told.contains(password) && !told.contains("wrong@"), "{told}");
    }
}

fn close_to_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
