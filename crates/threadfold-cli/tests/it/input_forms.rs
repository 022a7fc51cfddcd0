//! Unusual inputs: lines of another agent, documents without an id, compressed and corrupt files,
//! folders.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use crate::env::TestEnv;
use crate::import::files_below;
use crate::input_paths::{Fixture, files};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data")
}

/// Returns the ids of a store's sessions.
fn ids(env: &TestEnv, store: &str) -> Vec<String> {
    let listed = env.done(&["list", "--json", "--store", store]);
    let id = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        row["id"].as_str().unwrap().to_owned()
    };
    listed.lines().map(id).collect()
}

/// Returns the first rollout of a recording.
fn rollout(name: &str) -> Vec<u8> {
    let below = files_below(&data().join("codex").join(name).join("rollout"));
    below.into_iter().find(|(path, _)| path.ends_with(".jsonl")).unwrap().1
}

#[test]
fn a_line_of_another_agent_does_not_change_whose_file_it_is() {
    let meta = rollout("app_text").split_inclusive(|it| *it == b'\n').next().unwrap().to_vec();
    let is_main = |path: &Path| path.extension().is_some_and(|it| it == "jsonl");
    let hosts = [
        files(&data().join("claude/tools/transcript"), is_main).remove(0),
        data().join("claude/tools/stream.jsonl"),
        files(&data().join("codex"), |path| path.ends_with("exec_plan/stream.jsonl")).remove(0),
    ];
    for host in hosts {
        let env = TestEnv::new();
        let bytes = fs::read(&host).unwrap();
        let first = bytes.iter().position(|it| *it == b'\n').unwrap() + 1;
        env.write("mixed.jsonl", [&bytes[..first], &meta, &bytes[first..]].concat());
        assert!(Fixture::of_file(&env.path("mixed.jsonl")).check(), "{}", host.display());
    }
}

#[test]
fn an_agent_is_recognized_behind_a_long_line_that_nobody_knows() {
    let env = TestEnv::new();
    let unknown = format!("{{\"note\":\"{}\"}}\n", "x".repeat(20 << 10));
    env.write("late.jsonl", [unknown.as_bytes(), &rollout("app_text")].concat());
    let fixture = Fixture::of_file(&env.path("late.jsonl"));
    assert!(fixture.check());
    env.done(&["import", "late.jsonl", "--store", "s.db"]);
    assert!(!ids(&env, "s.db")[0].starts_with("other-"));
}

#[test]
fn a_byte_order_mark_alone_is_no_record_on_any_input_path() {
    let env = TestEnv::new();
    env.write("mark.jsonl", "\u{feff}");
    env.write("mark-and-line-end.jsonl", "\u{feff}\r\n");
    for name in ["mark.jsonl", "mark-and-line-end.jsonl"] {
        let fixture = Fixture::of_file(&env.path(name));
        assert!(!fixture.check());
        let shown = fixture.env.run(&["fold", &format!("alone/{name}")]);
        assert!(shown.contains("has no complete record yet"), "{shown}");
    }
}

#[test]
fn a_document_without_an_id_has_one_id_from_a_file_and_from_a_pipe() {
    let names = ["messages.json", "messages.child1.json", "messages.staged.json"];
    for is_pipe_first in [false, true] {
        let env = TestEnv::new();
        for name in names {
            let path = data().join("opencode_newer").join(name);
            let import = || {
                env.write(name, fs::read(&path).unwrap());
                env.done(&["import", name, "--store", "s.db"]);
            };
            if !is_pipe_first {
                import();
            }
            for _ in 0..2 {
                let mut watch = env.command(&["watch", "-", "--json", "--store", "s.db"]);
                assert!(watch.stdin(File::open(&path).unwrap()).output().unwrap().status.success());
            }
            import();
        }
        let ids = ids(&env, "s.db");
        assert_eq!(ids.len(), names.len(), "pipe first: {is_pipe_first}: {ids:?}");
        assert!(ids.iter().all(|it| it.starts_with("opencode-") && it.matches('-').count() == 1));
    }
}

#[test]
fn lines_without_an_id_are_one_session_from_a_file_and_from_a_pipe() {
    for is_pipe_first in [false, true] {
        let env = TestEnv::new();
        env.write("a.jsonl", "{\"x\":1}\n{\"y\":1}\n");
        env.write("b.jsonl", "{\"x\":1}\n{\"y\":2}\n");
        let pipe = |name: &str| {
            let mut watch = env.command(&["watch", "-", "--json", "--store", "s.db"]);
            let output = watch.stdin(File::open(env.path(name)).unwrap()).output().unwrap();
            assert!(output.status.success());
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let import = |name: &str| drop(env.done(&["import", name, "--store", "s.db"]));
        if is_pipe_first {
            pipe("a.jsonl");
            import("a.jsonl");
        } else {
            import("a.jsonl");
            pipe("a.jsonl");
        }
        let log = env.done(&["log", &ids(&env, "s.db")[0], "--json", "--store", "s.db"]);
        let again = pipe("a.jsonl");
        assert!(again.contains("the input is in the store already"), "{again}");
        assert_eq!(env.done(&["log", &ids(&env, "s.db")[0], "--json", "--store", "s.db"]), log);
        // One that only begins alike is another session.
        pipe("b.jsonl");
        import("b.jsonl");
        assert_eq!(ids(&env, "s.db").len(), 2, "pipe first: {is_pipe_first}");
    }
}

#[test]
fn a_compressed_rollout_has_one_state_for_every_input_path() {
    let env = TestEnv::new();
    let plain = rollout("app_shell");
    let packed = zstd::encode_all(plain.as_slice(), 3).unwrap();
    env.write("plain.jsonl", &plain);
    // Its first bytes decide, not its name.
    for name in ["rollout.jsonl.zst", "rollout.jsonl", "rollout.zst"] {
        env.write(name, &packed);
        let fixture = Fixture::of_file(&env.path(name));
        assert!(fixture.check(), "{name}");
        assert_eq!(
            env.done(&["fold", "--hash", name]),
            env.done(&["fold", "--hash", "plain.jsonl"])
        );
    }
}

#[test]
fn of_a_corrupt_compressed_rollout_what_precedes_the_corruption_is_read() {
    let env = TestEnv::new();
    // Long enough for several blocks of the compression.
    let mut plain = rollout("app_shell");
    for number in 0..20_000 {
        let line = format!(
            "{{\"timestamp\":\"\",\"type\":\"event_msg\",\"payload\":{{\"type\":\"note\",\"n\":{}}}}}\n",
            number * 7919
        );
        plain.extend_from_slice(line.as_bytes());
    }
    let packed = zstd::encode_all(plain.as_slice(), 3).unwrap();
    let mut broken = packed.clone();
    let middle = broken.len() / 2;
    broken[middle..].fill(0xff);
    for (name, bytes) in [
        ("truncated.jsonl.zst", packed[..packed.len() * 3 / 4].to_vec()),
        ("garbage.jsonl.zst", [packed.as_slice(), b"garbage"].concat()),
        ("broken.jsonl.zst", broken),
    ] {
        env.write(name, bytes);
        let fixture = Fixture::of_file(&env.path(name));
        assert!(fixture.check(), "{name}");
        let shown = fixture.env.run(&["fold", "--hash", &format!("alone/{name}")]);
        assert!(shown.contains("cannot be decompressed to its end: "), "{shown}");
        let shown = fixture.env.run(&["import", &format!("alone/{name}"), "--store", "loss.db"]);
        assert!(shown.contains("cannot be decompressed to its end: "), "{shown}");
    }
    // What cannot be read at all is refused everywhere.
    env.write("nothing.jsonl.zst", b"\x28\xb5\x2f\xfdnothing of this can be decompressed");
    let fixture = Fixture::of_file(&env.path("nothing.jsonl.zst"));
    assert!(!fixture.check());
}

#[test]
fn a_folder_with_one_session_is_read_by_fold_as_by_view() {
    let env = TestEnv::new();
    env.write("one/a.jsonl", rollout("app_text"));
    let hash = env.done(&["fold", "--hash", "one/a.jsonl"]);
    assert_eq!(env.done(&["fold", "--hash", "one"]), hash);
    assert!(env.done(&["view", "one"]).contains("session "));
    env.write("two/a.jsonl", "{\"x\":1}\n{\"y\":1}\n");
    env.write("two/b.jsonl", "{\"x\":1}\n{\"y\":2}\n");
    let both = [env.run(&["view", "two"]), env.run(&["fold", "two"])];
    assert_eq!(both[0], both[1]);
    assert_snapshot!(both[0], @"
    exit 2
    --- stdout
    --- stderr
    error: there are 2 sessions in `two`: `two/a.jsonl`, `two/b.jsonl`
    hint: give the path of one of their files
    ");
    fs::create_dir_all(env.path("none")).unwrap();
    let both = [env.run(&["view", "none/"]), env.run(&["fold", "none/"])];
    assert_eq!(both[0], both[1]);
    assert!(both[0].contains("there is no session in `none/`"), "{}", both[0]);
}
