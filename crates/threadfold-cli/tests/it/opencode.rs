//! OpenCode sessions in the program: events, exports, databases, `storage` folder.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use rusqlite::Connection;

use crate::claude::keep_notes_session;
use crate::env::{TestEnv, seen};
use threadfold_testkit::opencode::database::{DatabaseContent, add, fill, recording};

/// Returns a folder with what a recording holds, and a database made from it.
pub(crate) fn recorded(name: &str) -> TestEnv {
    let env = TestEnv::new();
    for entry in fs::read_dir(recording(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            env.write(path.file_name().unwrap().to_str().unwrap(), fs::read(&path).unwrap());
        }
    }
    if recording(name).join("db_rows.jsonl").exists() {
        fill(&env.path("opencode.db"), &recording(name), DatabaseContent::All);
    }
    env
}

/// Returns the output of `verify` without the number of fields, which depends on the form that the
/// session is stored in.
fn without_field_count(output: &str) -> String {
    let line = |line: &str| match line.rsplit_once(", ") {
        Some((start, rest)) if rest.ends_with("fields compared") => format!("{start}\n"),
        _ => format!("{line}\n"),
    };
    output.lines().map(line).collect()
}

fn first_line(shown: &str) -> &str {
    shown.lines().nth(2).unwrap_or(shown)
}

#[test]
fn every_format_of_a_session_is_detected_and_verified() {
    for name in ["text", "tools", "thinking", "text@1.2.27", "tools@1.2.27", "abort_text"] {
        let env = recorded(name);
        for kept in ["export.json", "opencode.db", "db_rows.jsonl"] {
            let shown = env.run(&[
                "verify",
                "--stream",
                "events.sse.jsonl",
                "--transcript",
                kept,
                "--replay",
            ]);
            assert!(shown.starts_with("exit 0\n--- stdout\nequal: "), "{name} {kept}: {shown}");
            assert!(
                shown.contains("one state") && !shown.contains("NOT"),
                "{name} {kept}: {shown}"
            );
        }
        let shown = env.run(&["verify", "--stream", "export.json", "--transcript", "opencode.db"]);
        assert!(shown.starts_with("exit 0\n--- stdout\nequal: "), "{name}: {shown}");
    }
}

#[test]
fn exports_of_children_are_separate_files() {
    let env = recorded("subagent");
    let whole = env.run(&[
        "verify",
        "--stream",
        "events.sse.jsonl",
        "--transcript",
        "export.json",
        "--transcript",
        "export.child1.json",
        "--replay",
    ]);
    assert_snapshot!(without_field_count(&whole), @"
    exit 0
    --- stdout
    equal: 12 blocks, 1 subagent
      merge: 136 interleavings, one state
    --- stderr
    ");
    let database =
        env.run(&["verify", "--stream", "events.sse.jsonl", "--transcript", "opencode.db"]);
    let [database, exports] = [&database, &whole].map(|it| without_field_count(it));
    assert_eq!(first_line(&database), first_line(&exports));
    let alone = env.run(&["verify", "--stream", "events.sse.jsonl", "--transcript", "export.json"]);
    assert_snapshot!(without_field_count(&alone), @"
    exit 0
    --- stdout
    partial: 4 blocks, 1 subagent
      lacking: the files lack a subagent's blocks (the agent exports subagents one by one) (8)
    --- stderr
    ");
}

#[test]
fn the_bus_is_read_in_all_its_wrappers() {
    let env = recorded("text");
    let told = fs::read_to_string(env.path("events.sse.jsonl")).unwrap();
    let bare: Vec<String> = told
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["data"].to_string())
        .collect();
    env.write("bare.jsonl", bare.join("\n"));
    let sse: String = bare.iter().map(|event| format!("data: {event}\n\n")).collect();
    env.write("events.sse", format!(": a comment\n\n{sse}"));
    env.write("list.json", format!("[{}]", bare.join(",\n")));
    let hash = |file: &str| env.run(&["fold", file, "--hash"]);
    let expected = hash("events.sse.jsonl");
    assert!(expected.starts_with("exit 0"), "{expected}");
    for file in ["bare.jsonl", "events.sse", "list.json", "global_events.sse.jsonl"] {
        assert_eq!(hash(file), expected, "{file}");
    }
    let said = ["fold", "bare.jsonl", "--hash", "--from", "opencode-events"];
    assert_eq!(env.run(&said), expected);
}

#[test]
fn messages_of_the_api_and_exports_on_one_line_are_exports() {
    let env = recorded("tools");
    let export: serde_json::Value =
        serde_json::from_slice(&fs::read(env.path("export.json")).unwrap()).unwrap();
    env.write("one-line.json", export.to_string());
    env.write("messages.json", serde_json::to_string_pretty(&export["messages"]).unwrap());
    let expected = env.run(&["fold", "export.json", "--hash"]);
    assert!(expected.starts_with("exit 0"), "{expected}");
    for file in ["one-line.json", "messages.json"] {
        assert_eq!(env.run(&["fold", file, "--hash"]), expected, "{file}");
    }
    env.write("events.jsonl", fs::read(env.path("export.json")).unwrap());
    assert_eq!(env.run_piped(&["fold", "--hash"]), expected);
}

#[test]
fn a_session_of_a_database_with_several_must_be_named() {
    let env = recorded("text");
    let connection = Connection::open(env.path("opencode.db")).unwrap();
    let other = add(&connection, &recording("subagent"), DatabaseContent::All);
    drop(connection);
    assert_snapshot!(env.run(&["fold", "opencode.db", "--hash"]), @"
    exit 2
    --- stdout
    --- stderr
    error: there are 2 sessions in `opencode.db`
    hint: `--session ses_e1f450d7dffecTDTCJIAkNCL25` reads one of them; `threadfold list` shows more
    ");
    let named = env.run(&["fold", "opencode.db", "--session", &other, "--hash"]);
    let only = recorded("subagent").run(&["fold", "opencode.db", "--hash"]);
    assert_eq!(named, only);
    // Without a name it is the session that the stream reports.
    let verified =
        env.run(&["verify", "--stream", "events.sse.jsonl", "--transcript", "opencode.db"]);
    assert!(verified.starts_with("exit 0\n--- stdout\nequal: "), "{verified}");
    let viewed = env.run(&["view", "opencode.db", "--session", &other, "--no-pager"]);
    assert!(viewed.contains("Count lines"), "{viewed}");
}

#[test]
fn a_session_is_chosen_from_the_bus_of_many() {
    let env = recorded("text");
    let more = fs::read(recording("tools").join("events.sse.jsonl")).unwrap();
    let both = [fs::read(env.path("events.sse.jsonl")).unwrap(), more].concat();
    env.write("both.jsonl", both);
    let tools = recorded("tools");
    let session = first_session(&tools);
    let chosen = env.run(&["fold", "both.jsonl", "--session", &session, "--hash"]);
    assert_eq!(chosen, tools.run(&["fold", "events.sse.jsonl", "--hash"]));
}

fn first_session(env: &TestEnv) -> String {
    let export = fs::read(env.path("export.json")).unwrap();
    let export: serde_json::Value = serde_json::from_slice(&export).unwrap();
    export["info"]["id"].as_str().unwrap().to_owned()
}

/// Returns a home folder with sessions of both agents; OpenCode's in `data`.
fn both_agents(data: &str) -> TestEnv {
    let env = TestEnv::new();
    keep_notes_session(&env);
    fs::create_dir_all(env.path(data)).unwrap();
    let database = env.path(data).join("opencode.db");
    fill(&database, &recording("text"), DatabaseContent::All);
    let connection = Connection::open(&database).unwrap();
    add(&connection, &recording("subagent"), DatabaseContent::All);
    env
}

fn list_at(columns: &str, env: &TestEnv) -> String {
    let mut command = env.command(&["list"]);
    seen(&command.env("COLUMNS", columns).output().unwrap())
}

#[test]
fn the_sessions_of_both_agents_are_in_one_table() {
    let env = both_agents(".local/share/opencode");
    assert_snapshot!(without_age(&list_at("100", &env)), @"
    exit 0
    --- stdout
    id        agent     project              title               blocks  subagents   cost
    ────────  ────────  ───────────────────  ──────────────────  ──────  ─────────  ─────
    ses_e1f1  opencode  project              Mock session title       –          –  $0.01
    ses_e1f4  opencode  project              Mock session title       –          –  $0.02
    5e551011  claude    home-somebody-notes  Count the notes         17          2  $0.01
    --- stderr
    ");
    env.done(&["import"]);
    assert_snapshot!(without_age(&list_at("110", &env)), @"
    exit 0
    --- stdout
    id        agent     where  project              title               blocks  subagents   cost
    ────────  ────────  ─────  ───────────────────  ──────────────────  ──────  ─────────  ─────
    ses_e1f1  opencode  both   project              Mock session title       2             $0.01
    ses_e1f4  opencode  both   project              Mock session title      12          1  $0.02
    5e551011  claude    both   home-somebody-notes  Count the notes         17          2  $0.01
    --- stderr
    ");
    let json = env.run(&["list", "--json"]);
    assert_eq!(json.matches("\"agent\":\"opencode\"").count(), 2, "{json}");
    assert_eq!(json.matches("\"agent\":\"claude\"").count(), 1, "{json}");
    assert!(json.contains("\"costUsd\":0.016347"), "{json}");
}

/// Returns a table without the column that depends on the day.
fn without_age(shown: &str) -> String {
    let mut cut = None;
    let mut lines = Vec::new();
    for line in shown.lines() {
        if let (Some(from), Some(to)) = (line.find("when"), line.find("project")) {
            cut = Some((from, to));
        }
        let letters: Vec<char> = line.chars().collect();
        match cut {
            Some((from, to)) if letters.len() > to => {
                let kept = letters[..from].iter().chain(&letters[to..]);
                lines.push(kept.collect::<String>());
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[test]
fn the_data_folder_can_be_set() {
    let env = both_agents("elsewhere/opencode");
    let shown =
        env.command(&["list", "--json"]).env("XDG_DATA_HOME", env.path("elsewhere")).output();
    assert_eq!(seen(&shown.unwrap()).matches("\"agent\":\"opencode\"").count(), 2);
}

#[test]
fn a_session_is_viewed_by_its_id_or_a_prefix() {
    let env = both_agents(".local/share/opencode");
    let session = first_session(&recorded("subagent"));
    let whole = env.run(&["view", &session, "--no-pager", "--width", "80"]);
    assert_snapshot!(whole, @"
    exit 0
    --- stdout
    Mock session title
    session ses_e1f450d7dffecTDTCJIAkNCL25
    /home/dev/project

    You · 2026-11-15 19:41
      [[play:subagent]] please run

    Assistant · mock-1 · 19:41
      I delegate this to a subagent.

      ● Agent  general: Count lines  ✓ 1.0 s
      │ Prompt · 19:41
      │   [[play:child#a]] Count the lines of notes.txt and report.
      │
      │ Assistant · mock-1 · 19:41
      │   ✻ thinking: I am the subagent; count lines.
      │
      │   Counting now.
      │
      │   ● bash  wc -l notes.txt  ✓ 3 notes.txt · 62 ms
      │   ● read  notes.txt  ✓ 3 lines · 9 ms
      │
      │   notes.txt has 3 lines. The reducer folds every event into one immutable
      │   state. Streaming and loading must agree, so the same function runs on the
      │   server and in the browser.

      The subagent says: 3 lines.

    ────────────────────────────────────────────────────────────────────────────────
    12 blocks · 1 subagent · $0.0163
    tokens: 34,719 in · 126 out
    --- stderr
    ");
    assert_eq!(env.run(&["view", &session[..12], "--no-pager", "--width", "80"]), whole);
}

#[test]
fn a_child_is_viewed_by_its_name() {
    let env = both_agents(".local/share/opencode");
    let child = "ses_e1f450c37fferSTZBV40VI5uFC";
    let whole = env.run(&["view", child, "--no-pager", "--width", "80"]);
    assert_snapshot!(whole, @"
    exit 0
    --- stdout
    Count lines (@general subagent)
    session ses_e1f450c37fferSTZBV40VI5uFC
    /home/dev/project

    You · 2026-11-15 19:41
      [[play:child#a]] Count the lines of notes.txt and report.

    Assistant · mock-1 · 19:41
      ✻ thinking: I am the subagent; count lines.

      Counting now.

      ● bash  wc -l notes.txt  ✓ 3 notes.txt · 62 ms
      ● read  notes.txt  ✓ 3 lines · 9 ms

      notes.txt has 3 lines. The reducer folds every event into one immutable state.
      Streaming and loading must agree, so the same function runs on the server and
      in the browser.

    ────────────────────────────────────────────────────────────────────────────────
    8 blocks · $0.0186
    tokens: 18,438 in · 93 out
    --- stderr
    ");
    assert_eq!(env.run(&["view", &child[..12], "--no-pager", "--width", "80"]), whole);
    let listed = env.run(&["list", "--json"]);
    assert!(!listed.contains(child), "children are listed with their parents: {listed}");

    let older = TestEnv::new();
    let storage = older.path(".local/share/opencode/storage");
    copy(&recording("subagent@1.1.65").join("storage"), &storage);
    let mut sessions: Vec<_> = fs::read_dir(storage.join("message")).unwrap().flatten().collect();
    sessions.retain(|it| !it.path().ends_with(first_session(&recorded("subagent@1.1.65"))));
    assert_eq!(sessions.len(), 1);
    let child = sessions[0].file_name().into_string().unwrap();
    let viewed = older.run(&["view", &child, "--no-pager", "--width", "80"]);
    assert!(viewed.starts_with("exit 0") && viewed.contains(&child), "{viewed}");
}

#[test]
fn the_storage_folder_is_folded_and_verified_in_place() {
    let env = recorded("subagent@1.1.65");
    copy(&recording("subagent@1.1.65").join("storage"), &env.path("storage"));
    let folded = env.run(&["fold", "storage", "--anomalies"]);
    assert!(folded.contains("no anomalies"), "{folded}");
    let verified =
        env.run(&["verify", "--stream", "events.sse.jsonl", "--transcript", "storage", "--replay"]);
    assert!(verified.starts_with("exit 0\n--- stdout\nequal: "), "{verified}");
    assert!(verified.contains("one state") && !verified.contains("NOT"), "{verified}");
    let viewed = env.run(&["view", "./storage", "--no-pager"]);
    assert!(viewed.contains("Count lines"), "{viewed}");

    copy(&recording("text@1.1.65").join("storage"), &env.path("storage"));
    let two = env.run(&["fold", "storage"]);
    assert!(two.contains("there are 2 sessions in `storage`"), "{two}");
    let session = first_session(&recorded("text@1.1.65"));
    let one = env.run(&["fold", "storage", "--session", &session, "--anomalies"]);
    assert!(one.contains("no anomalies"), "{one}");
    assert_snapshot!(env.run(&["fold", "storage", "--session", "ses_none"]), @"
    exit 2
    --- stdout
    --- stderr
    error: session `ses_none` is not in `storage`
    hint: `threadfold list` shows the sessions on this machine
    ");
}

#[test]
fn a_folder_without_sessions_is_an_error() {
    let env = recorded("text");
    fs::create_dir(env.path("empty")).unwrap();
    assert_snapshot!(env.run(&["fold", "empty"]), @"
    exit 2
    --- stdout
    --- stderr
    error: there is no session in `empty`
    hint: `threadfold list` shows the sessions on this machine
    ");
    assert_snapshot!(env.run(&["fold", "export.json", "--from", "opencode-storage"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `export.json` is not in format `opencode-storage`: it is a file
    hint: omit `--from` to detect the format; `--help` lists the formats
    ");
}

#[test]
fn the_session_that_is_asked_for_is_replayed() {
    let env = recorded("tools");
    let stream = |name: &str| fs::read(recording(name).join("events.sse.jsonl")).unwrap();
    env.write("both.jsonl", [stream("text"), stream("tools"), stream("thinking")].concat());
    let session = first_session(&env);
    let verify = |more: &[&str]| {
        let asked = ["verify", "--stream", "both.jsonl", "--transcript", "export.json", "--replay"];
        env.run(&[&asked, more].concat())
    };
    let verified = verify(&["--session", &session]);
    assert!(verified.starts_with("exit 0\n--- stdout\nequal: "), "{verified}");
    assert!(verified.contains("one state") && !verified.contains("NOT"), "{verified}");
    assert!(!verify(&[]).starts_with("exit 0"), "the first session is another one");
}

#[test]
fn the_older_folder_is_listed_and_viewed() {
    let env = TestEnv::new();
    let storage = env.path(".local/share/opencode/storage");
    copy(&recording("subagent@1.1.65").join("storage"), &storage);
    assert_snapshot!(without_age(&list_at("110", &env)), @"
    exit 0
    --- stdout
    id        project  title               blocks  subagents
    ────────  ───────  ──────────────────  ──────  ─────────
    ses_e1f1  project  Mock session title      12          1
    --- stderr
    ");
    let session = first_session(&recorded("subagent@1.1.65"));
    let viewed = env.run(&["view", &session, "--no-pager", "--width", "80"]);
    assert!(viewed.contains("Count lines"), "{viewed}");

    // A database that took the older files over has them in it.
    fill(&env.path(".local/share/opencode/opencode.db"), &recording("text"), DatabaseContent::All);
    let connection = Connection::open(env.path(".local/share/opencode/opencode.db")).unwrap();
    connection.execute("UPDATE session SET id = ?1", [&session]).unwrap();
    let json = env.run(&["list", "--json"]);
    assert_eq!(json.matches(&format!("\"id\":\"{session}\"")).count(), 1, "{json}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
