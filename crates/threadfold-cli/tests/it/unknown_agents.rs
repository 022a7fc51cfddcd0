//! Files of unknown agents: stored byte for byte, shown unchanged.

use std::fs;

use insta::assert_snapshot;

use crate::env::TestEnv;
use crate::import::files_below;

/// Records as one agent writes them that is not known.
const ROLLOUT: &str = r#"{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{"id":"one","cwd":"/p"}}
{"timestamp":"2026-01-02T03:04:06Z","type":"response_item","payload":{"role":"user","text":"Hello"}}
{"timestamp":"2026-01-02T03:04:07Z","type":"event_msg","payload":{"type":"done"}}
"#;

/// And as another does.
const TREE: &str = r#"{"type":"session","version":3,"id":"two","cwd":"/p"}
{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"Hi"}}
"#;

/// One object over several lines, with a name for the session that Claude Code uses, too.
const WHOLE: &str = "{\n  \"sessionId\": \"three\",\n  \"messages\": [\n    {\"id\": 1}\n  ]\n}\n";

/// Lines that are no text, a zero byte, and no end.
const DAMAGED: &[u8] =
    b"{\"type\":\"note\",\"text\":\"\xff\xfe\"}\n\x00\x01\x02 not a record\r\n\n[1,2";

fn env() -> TestEnv {
    let env = TestEnv::new();
    for (name, bytes) in [
        ("rollout-one.jsonl", ROLLOUT.as_bytes()),
        ("two.jsonl", TREE.as_bytes()),
        ("three.json", WHOLE.as_bytes()),
        ("damaged.ndjson", DAMAGED),
    ] {
        env.write(name, bytes);
    }
    env
}

const NAMES: [&str; 4] = ["damaged.ndjson", "rollout-one.jsonl", "three.json", "two.jsonl"];

#[test]
fn a_file_of_an_unknown_agent_is_stored_and_reported() {
    let env = env();
    assert_snapshot!(env.run(&["import", "rollout-one.jsonl"]), @"
    exit 0
    --- stdout
    other-5ce14e3a2c5a  new: 3 records, 276 B
    --- stderr
    `rollout-one.jsonl` is in an unknown format: it is stored line by line
    ");
    assert_snapshot!(env.run(&["import", "rollout-one.jsonl"]), @"
    exit 0
    --- stdout
    other-5ce14e3a2c5a  unchanged
    --- stderr
    `rollout-one.jsonl` is in an unknown format: it is stored line by line
    ");
    assert_snapshot!(env.run(&["view", "other-5ce1"]), @"
    exit 0
    --- stdout
    session other-5ce14e3a2c5a

      ? unknown record: session_meta
      ? unknown record: response_item
      ? unknown record: event_msg

    ────────────────────────────────────────────────────────────────────────────────
    3 blocks
    --- stderr
    ");
    assert_snapshot!(env.run(&["import", "damaged.ndjson"]), @"
    exit 0
    --- stdout
    other-3d8ea8c2a6c7  new: 4 records, 51 B
    --- stderr
    `damaged.ndjson` is in an unknown format: it is stored line by line
    ");
    assert_snapshot!(env.run(&["view", "other-3d8e"]), @"
    exit 0
    --- stdout
    session other-3d8ea8c2a6c7

      ? unknown record: not readable
      ? unknown record: not readable
      ? unknown record: not readable

    ────────────────────────────────────────────────────────────────────────────────
    3 blocks
    --- stderr
    ");
    assert_snapshot!(env.run(&["import", "three.json"]), @"
    exit 0
    --- stdout
    other-4b36f8f62612  new: 1 record, 62 B
    --- stderr
    `three.json` is in an unknown format: it is stored line by line
    ");
    // One object over several lines is one record.
    let log = env.done(&["log", "other-4b36", "--json"]);
    assert_eq!(log.matches(r#""kind":"document""#).count(), 1, "{log}");
}

#[test]
fn every_byte_of_an_unknown_agent_is_exported_unchanged() {
    let env = env();
    let before: Vec<_> = NAMES.iter().map(|name| fs::read(env.path(name)).unwrap()).collect();
    env.done(&["import", NAMES[0], NAMES[1], NAMES[2], NAMES[3]]);
    env.done(&["export", "--format", "original", "--output", "out"]);
    let out = files_below(&env.path("out"));
    assert_eq!(out.len(), NAMES.len(), "{:?}", out.keys());
    for (name, bytes) in NAMES.iter().zip(before) {
        let found = out.iter().find(|(path, _)| path.ends_with(name));
        assert!(found.is_some_and(|(_, found)| *found == bytes), "{name}");
    }
    assert_snapshot!(env.told(&["doctor"]), @"
    exit 0
    --- stdout
    no problems: 4 sessions, 14 records, 61 KB, 0 B of it free
    --- stderr
    checked `<home>/.local/share/threadfold/store.db`
    ");
    assert_snapshot!(env.run(&["reindex"]), @"
    exit 0
    --- stdout
    other-3d8ea8c2a6c7  same: 5 records, 3 blocks
    other-4b36f8f62612  same: 2 records, 1 block
    other-56f392fbebc4  same: 3 records, 2 blocks
    other-5ce14e3a2c5a  same: 4 records, 3 blocks
    --- stderr
    ");
}

#[test]
fn lines_added_to_a_file_of_an_unknown_agent_are_imported() {
    let env = env();
    env.done(&["import", "two.jsonl"]);
    let longer = format!("{TREE}{}", "{\"type\":\"message\",\"id\":\"b\",\"parentId\":\"a\"}\n");
    env.write("two.jsonl", longer.as_bytes());
    assert_snapshot!(env.run(&["import", "two.jsonl"]), @"
    exit 0
    --- stdout
    other-56f392fbebc4  grown: 1 record, 43 B
    --- stderr
    `two.jsonl` is in an unknown format: it is stored line by line
    ");
    env.done(&["export", "other-56f3", "--format", "original", "--output", "out"]);
    assert_eq!(fs::read(env.path("out")).unwrap(), longer.into_bytes());
}

#[test]
fn files_of_unknown_agents_in_a_folder_are_imported_and_reported() {
    let env = env();
    let folder = env.path("mixed");
    fs::create_dir_all(folder.join("deeper")).unwrap();
    let claude = r#"{"type":"user","uuid":"u1","sessionId":"four","message":{"role":"user","content":"Hello"}}"#;
    fs::write(folder.join("four.jsonl"), claude).unwrap();
    fs::write(folder.join("one.jsonl"), ROLLOUT).unwrap();
    fs::write(folder.join("deeper/one.jsonl"), TREE).unwrap();
    fs::write(folder.join("deeper/picture"), b"\x89PNG\r\n\x1a\n\x00\x00").unwrap();
    assert_snapshot!(env.run(&["import", "mixed"]), @"
    exit 0
    --- stdout
    four  new: 1 record, 90 B
    other-5ce14e3a2c5a  new: 3 records, 276 B
    other-56f392fbebc4  new: 2 records, 138 B
    --- stderr
    skipped 1 file of `mixed` in an unknown format: use `--any` to import every file
    2 files in an unknown format, stored line by line
    3 sessions: 3 new or updated, 0 unchanged, 0 failed
    ");
    assert_snapshot!(env.run(&["import", "mixed", "--any"]), @"
    exit 0
    --- stdout
    four  unchanged
    other-5ce14e3a2c5a  unchanged
    other-56f392fbebc4  unchanged
    other-87da8eea1705  new: 3 records, 10 B
    --- stderr
    3 files in an unknown format, stored line by line
    4 sessions: 1 new or updated, 3 unchanged, 0 failed
    ");
    assert_snapshot!(env.run(&["import", "mixed", "--any"]), @"
    exit 0
    --- stdout
    four  unchanged
    other-5ce14e3a2c5a  unchanged
    other-56f392fbebc4  unchanged
    other-87da8eea1705  unchanged
    --- stderr
    3 files in an unknown format, stored line by line
    4 sessions: 0 new or updated, 4 unchanged, 0 failed
    ");
    env.done(&["export", "--format", "original", "--output", "out"]);
    let mut out: Vec<_> = files_below(&env.path("out")).into_values().collect();
    let mut before: Vec<_> = files_below(&folder).into_values().collect();
    out.sort();
    before.sort();
    assert!(out == before);
}

#[test]
fn a_folder_of_an_unknown_agent_is_imported() {
    let env = env();
    fs::create_dir(env.path("strange")).unwrap();
    fs::write(env.path("strange/one.jsonl"), ROLLOUT).unwrap();
    assert_snapshot!(env.run(&["import", "strange"]), @"
    exit 0
    --- stdout
    other-5ce14e3a2c5a  new: 3 records, 276 B
    --- stderr
    `strange/one.jsonl` is in an unknown format: it is stored line by line
    ");
}

#[test]
fn a_file_with_any_extension_is_imported() {
    let env = env();
    env.write("notes.txt", b"some notes\n");
    assert_snapshot!(env.run(&["import", "notes.txt"]), @"
    exit 0
    --- stdout
    other-9cf020c68d47  new: 1 record, 11 B
    --- stderr
    `notes.txt` is in an unknown format: it is stored line by line
    ");
    assert_snapshot!(env.run(&["import", "notes.txt", "--any"]), @"
    exit 0
    --- stdout
    other-9cf020c68d47  unchanged
    --- stderr
    `notes.txt` is in an unknown format: it is stored line by line
    ");
}
