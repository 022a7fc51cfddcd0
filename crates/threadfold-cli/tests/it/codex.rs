//! Codex through the program: found, shown, compared, stored, written back and followed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::env::TestEnv;
use crate::import::files_below;
use crate::watch::WatchProcess;

fn data(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../threadfold-convert/tests/data/codex").join(name)
}

/// Returns the rollouts of a recording, by name.
fn rollouts(name: &str) -> Vec<(String, Vec<u8>)> {
    let below = files_below(&data(name).join("rollout"));
    below.into_iter().filter(|(path, _)| path.ends_with(".jsonl")).collect()
}

/// Puts a recording where Codex keeps its sessions.
fn keep(env: &TestEnv, name: &str) -> Vec<String> {
    let files = rollouts(name);
    for (path, bytes) in &files {
        env.write(&format!(".codex/{path}"), bytes);
    }
    files.into_iter().map(|(path, _)| path).collect()
}

/// Returns the id of a rollout's thread.
fn thread(path: &str) -> String {
    path[path.len() - 36 - 6..path.len() - 6].to_owned()
}

#[test]
fn a_session_is_listed_once_with_its_subagents() {
    let env = TestEnv::new();
    let names = keep(&env, "app_sub2");
    keep(&env, "app_text");
    keep(&env, "app_rollback@0.157.0");
    let listed = env.done(&["list", "--json"]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let of_subagents = listed.lines().find(|line| line.contains(&thread(&names[0]))).unwrap();
    assert!(of_subagents.contains("\"agent\":\"codex\""), "{of_subagents}");
    assert!(!listed.contains(&format!("\"id\":\"{}\"", thread(&names[1]))), "{listed}");
    let view = env.done(&["view", &thread(&names[0])]);
    for shown in ["[[play:sub2]] go", "Child B report.", "echo child; ls", "Both helpers answered."]
    {
        assert!(view.contains(shown), "no {shown} in\n{view}");
    }
}

#[test]
fn archived_sessions_and_another_home_are_found() {
    let env = TestEnv::new();
    for (path, bytes) in rollouts("app_text") {
        let name = path.rsplit('/').next().unwrap();
        env.write(&format!("elsewhere/archived_sessions/{name}"), bytes);
    }
    assert!(env.run(&["list", "--json"]).starts_with("exit 1"));
    let mut command = env.command(&["list", "--json"]);
    let output = command.env("CODEX_HOME", env.path("elsewhere")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
}

#[test]
fn a_compressed_rollout_is_the_same_session() {
    let env = TestEnv::new();
    let files = rollouts("app_sub2");
    for (path, bytes) in &files {
        let packed = zstd::encode_all(bytes.as_slice(), 3).unwrap();
        env.write(&format!(".codex/{path}.zst"), packed);
    }
    let listed = env.done(&["list", "--json"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let id = thread(&files[0].0);
    assert!(env.done(&["view", &id]).contains("Child B report."));
    env.done(&["import"]);
    env.done(&["export", &id, "--output", "out"]);
    let exported: Vec<_> = files_below(&env.path("out")).into_values().collect();
    let mut plain: Vec<_> = files.into_iter().map(|(_, bytes)| bytes).collect();
    plain.sort();
    assert!(exported.iter().all(|it| plain.binary_search(it).is_ok()));
    assert_eq!(exported.len(), plain.len());
}

#[test]
fn a_compressed_rollout_outside_the_home_is_the_same_session() {
    let env = TestEnv::new();
    let files = rollouts("app_sub2");
    let (mut plain, mut packed) = (String::new(), String::new());
    for (path, bytes) in &files {
        let name = path.rsplit('/').next().unwrap();
        env.write(&format!("plain/{name}"), bytes.clone());
        env.write(&format!("packed/{name}.zst"), zstd::encode_all(bytes.as_slice(), 3).unwrap());
        if path.contains(&thread(&files[0].0)) {
            (plain, packed) = (format!("plain/{name}"), format!("packed/{name}.zst"));
        }
    }
    let hash = env.done(&["fold", &plain, "--hash"]);
    assert_eq!(env.done(&["fold", &packed, "--hash"]), hash);
    assert_eq!(env.done(&["view", &packed]), env.done(&["view", &plain]));
    env.done(&["import", "packed"]);
    let id = thread(&files[0].0);
    assert_eq!(env.done(&["list", "--json"]).lines().count(), 1);
    env.done(&["export", &id, "--output", "out"]);
    let exported: Vec<_> = files_below(&env.path("out")).into_values().collect();
    assert_eq!(exported.len(), files.len());
    assert!(exported.iter().all(|it| files.iter().any(|(_, bytes)| bytes == it)));
}

#[test]
fn both_live_views_are_equal_to_the_rollout() {
    for (name, stream, said) in [
        ("exec_parallel", "stream.jsonl", "equal: 8 blocks, 0 subagents"),
        ("app_sub2", "appserver.jsonl", "equal: 17 blocks, 2 subagents"),
        ("app_parallel@0.147.0", "appserver.jsonl", "partial: 9 blocks, 0 subagents"),
    ] {
        let env = TestEnv::new();
        let main = &keep(&env, name)[0];
        let stream = data(name).join(stream).display().to_string();
        let rollout = format!(".codex/{main}");
        let seen = env.run(&["verify", "--stream", &stream, "--transcript", &rollout, "--replay"]);
        assert!(seen.contains(said), "{name}: {seen}");
        assert!(seen.contains("one state") && !seen.contains("NOT one"), "{name}: {seen}");
    }
}

#[test]
fn an_imported_session_is_exported_and_restored_byte_for_byte() {
    let env = TestEnv::new();
    let names = keep(&env, "app_sub2");
    let kept = files_below(&env.path(".codex"));
    env.done(&["import"]);
    env.done(&["export", &thread(&names[0]), "--output", "out"]);
    let exported = files_below(&env.path("out"));
    assert_eq!(exported.len(), names.len());
    for (path, bytes) in &exported {
        let name = path.rsplit('/').next().unwrap();
        let (_, own) = kept.iter().find(|(path, _)| path.ends_with(name)).unwrap();
        assert!(bytes == own, "{path} differs");
    }
    fs::remove_dir_all(env.path(".codex")).unwrap();
    env.done(&["restore", &thread(&names[0])]);
    assert_eq!(files_below(&env.path(".codex")), kept);
    let again = env.done(&["import"]);
    assert!(!again.contains("grown") && !again.contains("new "), "{again}");
}

#[test]
fn a_fork_shows_the_history_of_the_thread_that_it_continues() {
    let env = TestEnv::new();
    let names = keep(&env, "app_fork");
    let view = env.done(&["view", &thread(&names[1])]);
    let places: Vec<_> = ["I run three commands.", "Second turn answer.", "Third turn answer."]
        .iter()
        .map(|text| view.find(text).unwrap_or_else(|| panic!("no {text} in\n{view}")))
        .collect();
    assert!(places.is_sorted(), "{view}");
    // The other fork left before the second turn.
    let other = env.done(&["view", &thread(&names[2])]);
    assert!(
        !other.contains("Second turn answer.") && other.contains("I run three commands."),
        "{other}"
    );
}

#[test]
fn a_growing_rollout_is_followed_with_its_new_subagents() {
    let env = TestEnv::new();
    let files = rollouts("app_sub2");
    let (main, bytes) = &files[0];
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    env.write(&format!(".codex/{main}"), lines[..10].concat());
    let path = env.path(&format!(".codex/{main}"));
    let watch = WatchProcess::new(&env, &[&path.display().to_string(), "--json"]);
    watch.wait_for("[[play:sub2]] go");
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&lines[10..].concat()).unwrap();
    watch.wait_for("Both helpers answered.");
    for (child, bytes) in &files[1..] {
        env.write(&format!(".codex/{child}"), bytes);
    }
    watch.wait_for("Child B report.");
    watch.end();
}

#[test]
fn files_of_forks_and_reviews_are_reported_and_not_compared() {
    for name in ["app_fork", "app_review@0.98.0"] {
        let env = TestEnv::new();
        let files = keep(&env, name);
        assert!(files.len() > 1, "{name}");
        let stream = data(name).join("appserver.jsonl").display().to_string();
        let files: Vec<String> = files.iter().map(|path| format!(".codex/{path}")).collect();
        let mut arguments = vec!["verify", "--stream", &stream];
        arguments.extend(files.iter().flat_map(|path| ["--transcript", path.as_str()]));
        let seen = env.run(&arguments);
        assert!(seen.contains("equal: "), "{seen}");
        assert!(seen.contains("note: ") && seen.contains(" and is not compared"), "{seen}");
    }
}
