//! What agents' places hold that this version does not read is reported by `list`, `import` and
//! `doctor`; what agents ordinarily keep there is not.

use std::fs;

use rusqlite::Connection;
use serde_json::Value;
use threadfold_testkit::opencode::database::fill_stage;

use crate::env::TestEnv;
use crate::import::files_below;
use crate::watch::line;

const COMMANDS: [&str; 3] = ["list", "import", "doctor"];

/// Returns the reports of a command, each as `what` with the number of rows or files.
fn reports(env: &TestEnv, command: &str) -> Vec<(String, u64)> {
    let printed = env.done(&[command, "--json"]);
    let report = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let unread = row.get("unread")?;
        let counted = unread["rows"].as_u64().or(unread["files"].as_u64())?;
        Some((unread["what"].as_str()?.to_owned(), counted))
    };
    printed.lines().filter_map(report).collect()
}

/// Demands these reports of every command, and returns the notes of one.
fn check(env: &TestEnv, wanted: &[(&str, u64)]) -> String {
    for command in COMMANDS {
        let found = reports(env, command);
        let found: Vec<_> = found.iter().map(|(what, count)| (what.as_str(), *count)).collect();
        assert_eq!(found, wanted, "{command}");
        let shown = env.run(&[command]);
        for (what, _) in wanted {
            assert!(shown.contains(what), "{command}: {shown}");
        }
    }
    env.run(&["list"])
}

fn opencode(stage: &str) -> (TestEnv, Connection) {
    let env = TestEnv::new();
    fs::create_dir_all(env.path(".local/share/opencode")).unwrap();
    let path = env.path(".local/share/opencode/opencode.db");
    fill_stage(&path, stage);
    (env, Connection::open(path).unwrap())
}

#[test]
fn databases_that_opencode_wrote_hold_nothing_unknown() {
    for stage in ["1_v1", "2_v2_started", "3_v2_used", "4_v1_again", "6_v2_again"] {
        let (env, _) = opencode(stage);
        check(&env, &[]);
    }
}

#[test]
fn event_types_and_aggregates_that_nobody_knows_are_reported() {
    let (env, connection) = opencode("1_v1");
    connection
        .execute_batch(
            "INSERT INTO event (id, aggregate_id, seq, type, data) \
             SELECT 'evt_new' || n, (SELECT min(aggregate_id) FROM event), 90000 + n, \
             'hologram.emitted.1', '{}' FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3); \
             INSERT INTO event_sequence (aggregate_id, seq) VALUES ('thr_1', 0); \
             INSERT INTO event (id, aggregate_id, seq, type, data) \
             VALUES ('evt_thread', 'thr_1', 0, 'thread.created.1', '{}');",
        )
        .unwrap();
    drop(connection);
    let shown = check(
        &env,
        &[("events of type `hologram.emitted.1`", 3), ("events of type `thread.created.1`", 1)],
    );
    assert!(shown.contains("OpenCode: not understood: events of type `hologram"), "{shown}");
    assert!(shown.contains("OpenCode: not read: events of type `thread"), "{shown}");
}

#[test]
fn versions_columns_and_messages_that_nobody_knows_are_reported() {
    let (env, connection) = opencode("6_v2_again");
    connection
        .execute_batch(
            "UPDATE session_v2 SET version = '3.1.0' WHERE id = (SELECT min(id) FROM session_v2); \
             ALTER TABLE session_v2 ADD COLUMN branch text; \
             UPDATE session_v2 SET branch = 'b' WHERE id = (SELECT min(id) FROM session_v2); \
             ALTER TABLE part ADD COLUMN unused integer DEFAULT 0 NOT NULL; \
             UPDATE session_message SET type = 'hologram' \
             WHERE id = (SELECT min(id) FROM session_message);",
        )
        .unwrap();
    drop(connection);
    let shown = check(
        &env,
        &[
            ("messages of type `hologram`", 1),
            ("sessions of version `3.1.0` in table `session_v2`", 1),
            ("column `branch` of table `session_v2`", 1),
        ],
    );
    let note = "OpenCode: not understood: messages of type `hologram` in `";
    assert!(shown.contains(note), "{shown}");
    assert!(shown.contains("they are imported, and shown as they are"), "{shown}");
    assert!(!shown.contains("not read"), "{shown}");
}

#[test]
fn a_folder_of_opencode_that_nobody_knows_is_reported() {
    let (env, _) = opencode("1_v1");
    let storage = ".local/share/opencode/storage";
    for known in ["session/p", "message/m", "part/m", "project", "session_diff", "todo"] {
        env.write(&format!("{storage}/{known}/ses_1.json"), "{}");
    }
    env.write(&format!("{storage}/migration"), "2");
    env.write(&format!("{storage}/session_cost/ses_1.json"), "{}");
    for number in 0..3 {
        env.write(&format!("{storage}/session_v3/p/{number}.json"), "{}");
    }
    check(&env, &[("folder `session_v3`", 3)]);
}

#[test]
fn a_database_that_cannot_be_opened_is_reported_once() {
    let env = TestEnv::new();
    env.write(".local/share/opencode/opencode-next.db", "junk\n");
    env.write("claude/projects/p/s1.jsonl", line(1, "user", "hello"));
    for command in COMMANDS {
        let shown = env.run(&[command]);
        assert_eq!(shown.matches("opencode-next.db").count(), 1, "{command}: {shown}");
    }
    assert_eq!(reports(&env, "doctor"), [("a database that cannot be opened".to_owned(), 1)]);
}

#[test]
fn what_codex_may_keep_elsewhere_is_reported() {
    let env = TestEnv::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../threadfold-convert/tests/data/codex");
    for (path, bytes) in files_below(&fs::canonicalize(folder).unwrap().join("app_text/rollout")) {
        env.write(&format!(".codex/{path}"), bytes);
    }
    let ordinary = [
        "auth.json",
        "config.toml",
        "history.jsonl",
        "session_index.jsonl",
        "version.json",
        "installation_id",
        "models_cache.json",
        "state_5.sqlite",
        "state_5.sqlite-wal",
        "thread_history_1.sqlite",
        "logs_2.sqlite",
        "sqlite/state_5.sqlite",
        "log/codex-tui.log",
        "shell_snapshots/a.sh",
        "skills/.system/a/SKILL.md",
        "tmp/arg0/x",
        "sessions/.DS_Store",
    ];
    for name in ordinary {
        env.write(&format!(".codex/{name}"), "x");
    }
    check(&env, &[]);
    env.write(".codex/state_9.sqlite", "x");
    env.write(".codex/sessions/threads.db", "x");
    env.write(".codex/sessions/2027/01/02/rollout-x.cbor", "x");
    env.write(".codex/sessions/2027/01/02/rollout-y.cbor", "x");
    env.write(".codex/threads/a.jsonl", "x");
    let shown =
        check(&env, &[("`state_9.sqlite`", 1), ("`*.cbor`", 2), ("`*.db`", 1), ("`*.jsonl`", 1)]);
    assert!(shown.contains("/.codex/threads`, 1 file since "), "{shown}");
}

#[test]
fn what_claude_code_may_keep_elsewhere_is_reported() {
    let env = TestEnv::new();
    let session = "0b0a6b0e-5f4e-4c52-9d0b-0d8b6e6d2f10";
    let ordinary = [
        format!("p/{session}/subagents/agent-1.jsonl"),
        format!("p/{session}/tool-results/1.bin"),
        "p/sessions-index.json".to_owned(),
        "p/memory/MEMORY.md".to_owned(),
        "p/memory/notes.json".to_owned(),
        "p/.DS_Store".to_owned(),
        ".DS_Store".to_owned(),
    ];
    env.write(&format!("claude/projects/p/{session}.jsonl"), line(1, "user", "hello"));
    for name in ordinary {
        env.write(&format!("claude/projects/{name}"), line(1, "user", "hello"));
    }
    check(&env, &[]);
    env.write("claude/projects/p/sessions.db", "x");
    env.write("claude/projects/p/a.jsonl2", "x");
    env.write("claude/projects/q/b.jsonl2", "x");
    env.write("claude/projects/p/threads/c.cbor", "x");
    check(&env, &[("`*.db`", 1), ("`*.jsonl2`", 2), ("`*.cbor`", 1)]);
    env.write("claude/sessions/4711.json", "{}");
    env.write("claude/session-env/a/env.sh", "x");
    env.write("claude/shell-snapshots/snapshot.sh", "x");
    env.write("claude/sessions_v2/p/d.jsonl", "{}");
    check(&env, &[("`*.db`", 1), ("`*.jsonl2`", 2), ("`*.cbor`", 1), ("`*.jsonl`", 1)]);
}

/// A rollout is found by its name, and read only if its records are known.
#[test]
fn rollouts_whose_records_nobody_knows_are_reported() {
    let env = TestEnv::new();
    let folder = ".codex/sessions/2026/01/01";
    let name = |number: u32| {
        format!(
            "{folder}/rollout-2026-01-01T00-00-0{number}-00000000-0000-4000-8000-00000000000{number}.jsonl"
        )
    };
    env.write(&name(1), "{\"type\":\"thread_meta_v9\",\"payload\":{\"id\":\"x\"}}\n");
    env.write(&name(2), [0xff, 0x00, 0x12, 0x99]);
    // `doctor` needs a store.
    env.write("notes.jsonl", "{}\n");
    env.done(&["import", "--any", "notes.jsonl"]);
    for command in COMMANDS {
        let output = env.command(&[command]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("not read") && said.contains("2 files"), "{command}: {said}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_database_is_reported_and_not_waited_for() {
    let env = TestEnv::new();
    fs::create_dir_all(env.path(".local/share/opencode")).unwrap();
    let path = env.path(".local/share/opencode/opencode.db");
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
    for command in ["list", "import"] {
        let said = env.run(&[command]);
        assert!(said.contains("opencode.db"), "{command}: {said}");
    }
}
