//! Listing costs the same per session, in whichever layout its files lie and however long they are.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use crate::claude::Transcript;
use crate::env::TestEnv;
use crate::reads::work;
use crate::unchanged::settle;

/// Where a session's subagents are.
#[derive(Clone, Copy)]
enum Layout {
    Inside,
    Beside,
    Below,
    Workflow,
}

/// Returns a home with this many sessions of Claude Code, each with a subagent.
fn claude(count: usize, layout: Layout) -> TestEnv {
    let env = TestEnv::new();
    for number in 0..count {
        let session = format!("5e551013-0000-4000-8000-{number:012}");
        let agent = format!("a{number}");
        let main = Transcript::new(&session).prompt("go").says("gone");
        let subagent = Transcript::of_agent(&session, &agent).prompt("look").says("seen");
        let project = "claude/projects/p";
        let beside = match layout {
            Layout::Inside => {
                let both = format!("{}{}", main.text(), subagent.text());
                env.write(&format!("{project}/{session}.jsonl"), both);
                continue;
            }
            Layout::Beside => format!("{project}/agent-{agent}.jsonl"),
            Layout::Below => format!("{project}/{session}/subagents/agent-{agent}.jsonl"),
            Layout::Workflow => {
                format!("{project}/{session}/subagents/workflows/w1/agent-{agent}.jsonl")
            }
        };
        env.write(&format!("{project}/{session}.jsonl"), main.text());
        env.write(&beside, subagent.text());
    }
    env
}

/// Returns a Codex home with this many sessions on a few days, of which some are archived or
/// compressed, and each has a subagent.
fn codex(count: usize) -> TestEnv {
    let env = TestEnv::new();
    for number in 0..count {
        let [thread, child] =
            [1, 2].map(|kind| format!("01a1e44a-{kind:04}-7f83-a75a-{number:012}"));
        let day = number % 9 + 1;
        let head = |id: &str, parent: Option<&str>| {
            let source = match parent {
                Some(parent) => json!({"subagent": {"thread_spawn": {
                    "parent_thread_id": parent, "depth": 1}}}),
                None => json!("cli"),
            };
            record(
                "session_meta",
                json!({
                    "id": id, "timestamp": "2026-11-16T12:00:00.000Z", "cwd": "/srv/code",
                    "originator": "codex_cli_rs", "cli_version": "0.166.0", "source": source,
                }),
            )
        };
        let prompt = record("event_msg", json!({"type": "user_message", "message": "go"}));
        for (id, parent) in [(&thread, None), (&child, Some(thread.as_str()))] {
            let name = format!("rollout-2026-11-{day:02}T12-00-00-{id}.jsonl");
            let text = format!("{}{prompt}", head(id, parent));
            match number % 10 {
                1 => env.write(&format!(".codex/archived_sessions/{name}"), text),
                2 => {
                    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
                    env.write(&format!(".codex/sessions/2026/11/{day:02}/{name}.zst"), packed);
                }
                _ => env.write(&format!(".codex/sessions/2026/11/{day:02}/{name}"), text),
            }
        }
    }
    env
}

/// Returns a home with this many sessions of Claude Code that are too long to be read completely,
/// each with a long subagent whose file begins with a note that names no session.
fn long_claude(count: usize, layout: Layout) -> TestEnv {
    let env = TestEnv::new();
    let text = "words ".repeat(500);
    for number in 0..count {
        let session = format!("5e551013-0000-4000-8000-{number:012}");
        let agent = format!("a{number}");
        let long = |transcript: Transcript| {
            (0..30).fold(transcript.prompt("go"), |it, _| it.says(&text)).text()
        };
        let main = long(Transcript::new(&session));
        let note = json!({"type": "file-history-snapshot", "snapshot": {}});
        let subagent = long(Transcript::of_agent(&session, &agent).note(note));
        let project = "claude/projects/p";
        let beside = match layout {
            Layout::Inside => {
                env.write(&format!("{project}/{session}.jsonl"), format!("{main}{subagent}"));
                continue;
            }
            Layout::Beside => format!("{project}/agent-{agent}.jsonl"),
            Layout::Below => format!("{project}/{session}/subagents/agent-{agent}.jsonl"),
            Layout::Workflow => {
                format!("{project}/{session}/subagents/workflows/w1/agent-{agent}.jsonl")
            }
        };
        env.write(&format!("{project}/{session}.jsonl"), main);
        env.write(&beside, subagent);
    }
    env
}

fn record(kind: &str, payload: Value) -> String {
    let line = json!({"timestamp": "2026-11-16T12:00:00.000Z", "type": kind, "payload": payload});
    format!("{line}\n")
}

/// Returns a home with this many sessions in the older files of OpenCode, each with a child.
fn opencode_files(count: usize) -> TestEnv {
    let env = TestEnv::new();
    for number in 0..count {
        let storage = ".local/share/opencode/storage";
        let id = format!("ses_{number:06}");
        let child = format!("ses_{number:06}_child");
        for (id, parent) in [(&id, None), (&child, Some(&id))] {
            let session = json!({"id": id, "parentID": parent, "directory": "/srv/code",
                "title": format!("Title of {id}"), "version": "1.0.0",
                "time": {"created": 1_760_000_000_000_i64, "updated": 1_760_000_000_000_i64}});
            env.write(&format!("{storage}/session/p/{id}.json"), session.to_string());
            let message = json!({"id": format!("msg_{id}"), "sessionID": id, "role": "user",
                "time": {"created": 1_760_000_000_000_i64}});
            let path = format!("{storage}/message/{id}/msg_{id}.json");
            env.write(&path, message.to_string());
        }
    }
    env
}

/// Returns a home with this many sessions in OpenCode's database, each with a long message.
fn opencode_rows(count: usize) -> TestEnv {
    let env = TestEnv::new();
    let folder = env.path(".local/share/opencode");
    std::fs::create_dir_all(&folder).unwrap();
    let database = rusqlite::Connection::open(folder.join("opencode.db")).unwrap();
    database
        .execute_batch(
            "CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT,
                version TEXT, time_created INTEGER, time_updated INTEGER);
             CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER,
                time_updated INTEGER, data TEXT);
             CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT,
                time_created INTEGER, time_updated INTEGER, data TEXT);
             CREATE INDEX message_session ON message (session_id);
             CREATE INDEX part_session ON part (session_id); BEGIN;",
        )
        .unwrap();
    let text = json!({"type": "text", "text": "words ".repeat(2_000)}).to_string();
    for number in 0..count {
        let id = format!("ses_{number:06}");
        let add =
            |sql: &str, values: &[&dyn rusqlite::ToSql]| database.execute(sql, values).unwrap();
        add(
            "INSERT INTO session VALUES (?1, NULL, '/srv/code', ?2, '1.0.0', 1760000000000, 1760000000000)",
            &[&id, &format!("Title of {id}")],
        );
        add(
            "INSERT INTO message VALUES (?1, ?1, 1760000000000, 1760000000000, '{\"role\":\"user\"}')",
            &[&id],
        );
        add(
            "INSERT INTO part VALUES (?1, ?1, ?1, 1760000000000, 1760000000000, ?2)",
            &[&id, &text],
        );
    }
    database.execute_batch("COMMIT").unwrap();
    env
}

/// Lists homes of these sizes, and checks that each further session costs the same.
fn check(counts: &[usize], home: impl Fn(usize) -> TestEnv, most_bytes: u64, most_reads: u64) {
    let cost = |count: usize| {
        let listed = work(&home(count).command(&["list", "--json", "--store", "store.db"]));
        assert_eq!(listed.stdout.lines().count(), count);
        (listed.read, listed.reads)
    };
    let first = cost(counts[0]);
    for count in &counts[1..] {
        let more = (count - counts[0]) as u64;
        let (bytes, reads) = cost(*count);
        let per_session = ((bytes - first.0) / more, (reads - first.1) / more);
        assert!(
            per_session.0 <= most_bytes && per_session.1 <= most_reads,
            "{count} sessions: {per_session:?} bytes and reads for each"
        );
    }
}

const COUNTS: [usize; 4] = [10, 100, 1_000, 10_000];

#[test]
fn sessions_with_subagents_inside_cost_the_same_however_many_there_are() {
    check(&COUNTS, |count| claude(count, Layout::Inside), 4 << 10, 24);
}

#[test]
fn sessions_with_subagents_beside_them_cost_the_same_however_many_there_are() {
    check(&COUNTS, |count| claude(count, Layout::Beside), 8 << 10, 28);
}

#[test]
fn sessions_with_subagents_below_them_cost_the_same_however_many_there_are() {
    check(&COUNTS, |count| claude(count, Layout::Below), 8 << 10, 28);
}

#[test]
fn sessions_with_workflows_cost_the_same_however_many_there_are() {
    check(&COUNTS, |count| claude(count, Layout::Workflow), 8 << 10, 28);
}

#[test]
fn long_sessions_cost_the_same_in_every_layout_however_many_there_are() {
    // The first and the last bytes of the main file, the last ones of the subagent's file, and the
    // first ones where only they show its session.
    let most_bytes = (4 + 64 + 4 + 4 + 1) << 10;
    for (layout, most_reads) in
        [(Layout::Inside, 3), (Layout::Beside, 5), (Layout::Below, 4), (Layout::Workflow, 4)]
    {
        check(&[10, 100, 1_000], |count| long_claude(count, layout), most_bytes, most_reads);
    }
}

/// Returns what listing sessions again costs, of which all were imported.
fn cost_after_import(count: usize, layout: Layout) -> (u64, u64) {
    let env = claude(count, layout);
    settle();
    env.done(&["import", "--store", "store.db"]);
    let listed = work(&env.command(&["list", "--json", "--store", "store.db"]));
    assert_eq!(listed.stdout.lines().count(), count);
    let again = work(&env.command(&["import", "--store", "store.db"]));
    assert_eq!(again.stdout.matches("unchanged").count(), count);
    // One line for each session, and what readers of a database note in its shared memory.
    let noted = again.written - again.stdout.len() as u64;
    assert!(noted < 1_000, "{noted} bytes were written");
    (listed.read.max(again.read), listed.reads.max(again.reads))
}

#[test]
fn sessions_that_were_imported_are_not_read_again_in_any_layout() {
    for layout in [Layout::Inside, Layout::Beside, Layout::Below, Layout::Workflow] {
        let [few, many] = [10, 200].map(|count| cost_after_import(count, layout));
        let (bytes, reads) = ((many.0 - few.0) / 190, (many.1 - few.1) / 190);
        assert!(bytes <= 12 << 10 && reads <= 4, "{bytes} bytes and {reads} reads for each");
    }
}

#[test]
fn a_subagent_beside_a_session_is_of_the_session_that_its_first_lines_name() {
    let env = long_claude(3, Layout::Beside);
    env.done(&["import", "--store", "store.db"]);
    let listed = env.done(&["list", "--json", "--store", "store.db"]);
    for line in listed.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["subagents"], 1, "{row}");
    }
}

#[test]
fn a_subagent_whose_first_line_is_long_is_stored_with_its_session_only() {
    let env = TestEnv::new();
    let prompt = "words ".repeat(20_000);
    for number in 0..3 {
        let session = format!("5e551013-0000-4000-8000-{number:012}");
        let agent = format!("a{number}");
        let main = Transcript::new(&session).prompt("go").says("done").text();
        let subagent =
            Transcript::of_agent(&session, &agent).prompt(prompt.as_str()).says("done").text();
        env.write(&format!("claude/projects/p/{session}.jsonl"), main);
        env.write(&format!("claude/projects/p/agent-{agent}.jsonl"), subagent);
    }
    env.done(&["import", "--store", "store.db"]);
    let listed = env.done(&["list", "--json", "--store", "store.db"]);
    assert_eq!(listed.lines().count(), 3);
    for line in listed.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["subagents"], 1, "{row}");
    }
}

#[test]
fn sessions_of_codex_cost_the_same_however_many_there_are() {
    check(&[10, 100, 1_000, 3_000], codex, 16 << 10, 24);
}

#[test]
fn sessions_in_files_of_opencode_cost_the_same_however_many_there_are() {
    check(&[10, 100, 1_000, 3_000], opencode_files, 16 << 10, 32);
}

#[test]
fn sessions_in_the_database_of_opencode_are_listed_without_their_messages() {
    // Each has 12,000 bytes of messages.
    check(&[10, 100, 1_000, 3_000], opencode_rows, 4 << 10, 4);
}

/// Returns a home with one session of about this many bytes, with a title at its end.
fn long(bytes: usize) -> TestEnv {
    let env = TestEnv::new();
    let session = "5e551013-0000-4000-8000-000000000001";
    let text = "words ".repeat(1_000);
    let mut transcript = Transcript::new(session).prompt("Count the words");
    for _ in 0..bytes / 6_400 {
        transcript = transcript.says(&text);
    }
    let title = json!({"type": "ai-title", "sessionId": session, "aiTitle": "Words"});
    let transcript = transcript.note(title).says("done");
    env.write(&format!("claude/projects/p/{session}.jsonl"), transcript.text());
    env
}

#[test]
fn a_long_session_is_listed_by_its_first_and_last_lines() {
    let listed = [1 << 20, 8 << 20].map(|bytes| {
        let env = long(bytes);
        let listed = work(&env.command(&["list", "--json", "--store", "store.db"]));
        let row: Value = serde_json::from_str(&listed.stdout).unwrap();
        (listed.read, listed.reads, row)
    });
    let [(short, short_reads, row), (long, long_reads, _)] = &listed;
    assert!(long.abs_diff(*short) < 1_000 && short_reads == long_reads, "{short} {long}");
    for (field, value) in [
        ("title", json!("Words")),
        ("firstPrompt", json!("Count the words")),
        ("model", json!("model-large-1")),
        ("startedAt", json!("2025-03-01T10:00:00.000Z")),
        ("blocks", Value::Null),
        ("usage", Value::Null),
        ("unknown", json!(["costUsd", "blocks", "subagents", "usage"])),
    ] {
        assert_eq!(row[field], value, "{field} of {row}");
    }
}

#[test]
fn what_the_first_and_last_lines_do_not_show_is_unknown_until_it_is_imported() {
    let env = TestEnv::new();
    let session = "5e551013-0000-4000-8000-000000000001";
    let text = "words ".repeat(20_000);
    let title = json!({"type": "custom-title", "sessionId": session, "customTitle": "Words"});
    let old = json!({"type": "custom-title", "sessionId": session, "customTitle": "Old"});
    let transcript = Transcript::new(session).note(old).prompt("Count the words").says(&text);
    let transcript = transcript.note(title).says(&text).says("done");
    env.write(&format!("claude/projects/p/{session}.jsonl"), transcript.text());
    let row = || -> Value {
        let listed = env.done(&["list", "--json", "--store", "store.db"]);
        serde_json::from_str(&listed).unwrap()
    };
    let before = row();
    assert_eq!(before["title"], Value::Null);
    assert!(before["unknown"].as_array().unwrap().contains(&json!("title")), "{before}");
    let shown = env.done(&["list", "--store", "store.db"]);
    assert!(shown.contains("Count the words") && shown.contains('–'), "{shown}");
    env.done(&["import", "--store", "store.db"]);
    let after = row();
    assert_eq!((&after["title"], &after["blocks"]), (&json!("Words"), &json!(4)), "{after}");
    assert_eq!(after["unknown"], Value::Null);
}
