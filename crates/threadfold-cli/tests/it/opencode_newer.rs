//! OpenCode 2 in the program: every form of its sessions, both versions in one database, tables that
//! nobody knows, and servers with a password.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use insta::assert_snapshot;
use rusqlite::Connection;
use serde_json::Value;
use threadfold_testkit::opencode::database::fill_stage;

use crate::env::TestEnv;
use crate::opencode::recorded;

#[test]
fn every_form_of_every_recorded_scenario_is_detected_and_verified() {
    for name in [
        "text",
        "tools",
        "steered",
        "revert",
        "compact_manual",
        "switch",
        "permission",
        "question",
        "error_retry",
        "drop_midstream",
        "abort_text",
        "shell_fork",
    ] {
        let env = recorded(&format!("{name}@2.0.15"));
        let session = session_of(&env);
        for kept in ["export.json", "opencode.db", "db_rows.jsonl"] {
            let mut arguments = vec!["verify", "--stream", "events.sse.jsonl", "--replay"];
            arguments.extend(["--transcript", kept]);
            if kept == "opencode.db" {
                arguments.extend(["--session", &session]);
            }
            let shown = env.run(&arguments);
            assert!(shown.starts_with("exit 0\n--- stdout\nequal: "), "{name} {kept}: {shown}");
            let is_one = shown.contains("one state") && !shown.contains("NOT");
            assert!(is_one, "{name} {kept}: {shown}");
        }
    }
}

fn session_of(env: &TestEnv) -> String {
    let export: Value =
        serde_json::from_slice(&fs::read(env.path("export.json")).unwrap()).unwrap();
    export["data"]["info"]["id"].as_str().unwrap().to_owned()
}

/// Returns an environment whose OpenCode was updated from version 1 to 2, used, and set back.
fn updated() -> TestEnv {
    let env = TestEnv::new();
    fs::create_dir_all(env.path(".local/share/opencode")).unwrap();
    fill_stage(&env.path(".local/share/opencode/opencode.db"), "6_v2_again");
    env
}

fn rows(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn sessions_of_both_versions_in_one_database_are_listed_imported_viewed_and_exported() {
    let env = updated();
    let found = rows(&env.done(&["list", "--json"]));
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|row| row["title"].is_string() && row["blocks"].is_null()));
    env.done(&["import"]);
    assert!(env.done(&["import"]).lines().all(|it| it.ends_with("  unchanged")));
    let listed = rows(&env.done(&["list", "--json"]));
    assert_eq!(listed.len(), 8);
    for row in &listed {
        let id = row["id"].as_str().unwrap();
        assert!(row["blocks"].as_u64() > Some(0), "{row}");
        assert!(env.done(&["view", id]).lines().count() > 3, "{id}");
        let out = format!("out/{id}");
        env.done(&["export", id, "--output", &out]);
        assert!(env.path(&out).metadata().is_ok_and(|it| it.len() > 0), "{id}");
        let folded =
            env.done(&["fold", ".local/share/opencode/opencode.db", "--session", id, "--hash"]);
        let stored = env.done(&["view", id, "--json"]);
        assert!(!folded.is_empty() && !stored.is_empty());
    }
}

#[test]
fn a_table_that_nobody_knows_is_reported_by_list_import_and_doctor() {
    let env = updated();
    let connection = Connection::open(env.path(".local/share/opencode/opencode.db")).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE session_v3 (id text, time_created integer); \
             INSERT INTO session_v3 VALUES ('a', 1794831427541), ('b', 1794931427541);",
        )
        .unwrap();
    drop(connection);
    let note = "OpenCode: not read: table `session_v3` in `";
    let rest = "opencode.db`, 2 rows since 2026-11-16; ";
    for arguments in [&["list"][..], &["import"], &["doctor"]] {
        let shown = env.run(arguments);
        assert!(shown.starts_with("exit 0"), "{shown}");
        let (_, stderr) = shown.split_once("--- stderr").unwrap();
        assert!(stderr.contains(note) && stderr.contains(rest), "{arguments:?}: {shown}");
        let printed = env.done(&[arguments, &["--json"]].concat());
        let unread: Vec<_> =
            rows(&printed).into_iter().filter(|it| it["unread"].is_object()).collect();
        assert_eq!(unread.len(), 1, "{arguments:?}: {printed}");
        let unread = &unread[0]["unread"];
        assert_eq!(unread["what"], "table `session_v3`");
        assert_eq!(
            (unread["rows"].as_u64(), unread["agent"].as_str()),
            (Some(2), Some("opencode"))
        );
    }
    // Tables with secrets are not even counted.
    let all = [env.run(&["list"]), env.run(&["doctor", "--json"])].concat();
    assert!(!all.contains("credential") && !all.contains("account"), "{all}");
    // A database that is named is reported as well.
    let path = env.path(".local/share/opencode/opencode.db");
    let shown = env.run(&["import", path.to_str().unwrap(), "--store", "other.db"]);
    assert!(shown.contains(note), "{shown}");
}

/// Starts a server that answers every request in the same way, and returns its port.
fn serve(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            drop(client.read(&mut request));
            drop(client.write_all(answer.as_bytes()));
        }
    });
    port
}

const REFUSAL: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const PAGE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\
                    connection: close\r\n\r\n<html>";

#[test]
fn a_password_is_wanted_and_never_shown() {
    let env = TestEnv::new();
    let port = serve(REFUSAL);
    let without_port = |shown: String| shown.replace(&port.to_string(), "PORT");
    assert_snapshot!(without_port(env.run(&["watch", &format!("http://127.0.0.1:{port}")])), @"
    exit 2
    --- stdout
    --- stderr
    error: http://127.0.0.1:PORT/ requires a password
    hint: set `OPENCODE_PASSWORD`, or give the password with `--password-file FILE`
    ");
    let address = format!("http://opencode:s3cret@127.0.0.1:{port}");
    assert_snapshot!(without_port(env.run(&["watch", &address])), @"
    exit 2
    --- stdout
    --- stderr
    error: http://127.0.0.1:PORT/ refuses the password
    hint: set `OPENCODE_PASSWORD`, or give the password with `--password-file FILE`
    ");
    env.write("password", "s3cret\n");
    let shown =
        env.run(&["watch", &format!("http://127.0.0.1:{port}"), "--password-file", "password"]);
    assert!(shown.contains("refuses the password") && !shown.contains("s3cret"), "{shown}");
    // Nobody listens, or the address is none: the error shows it without the password.
    for address in ["http://opencode:s3cret@127.0.0.1:1", "http://opencode:s3cret@[broken"] {
        let shown = env.run(&["watch", address]);
        assert!(shown.starts_with("exit 2") && !shown.contains("s3cret"), "{shown}");
    }
}

#[test]
fn a_server_that_answers_with_a_page_is_not_waited_for() {
    let env = TestEnv::new();
    let port = serve(PAGE);
    let shown = env.run(&["watch", &format!("http://127.0.0.1:{port}")]);
    assert_snapshot!(shown.replace(&port.to_string(), "PORT"), @"
    exit 2
    --- stdout
    --- stderr
    error: http://127.0.0.1:PORT/ answers with a web page: it is not the server of a known agent
    hint: check that the agent's server runs, and its address
    ");
}
