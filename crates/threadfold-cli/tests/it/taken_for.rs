//! What an input is detected as: nobody gets an empty answer without an explanation.

use std::fs::File;

use crate::env::{TestEnv, seen};

fn prompt(number: usize, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"u{number}","sessionId":"s1","message":{{"role":"user","content":"{text}"}}}}"#
    ) + "\n"
}

#[test]
fn a_first_line_of_megabytes_is_recognized() {
    for length in [1 << 20, 5 << 20] {
        let env = TestEnv::new();
        let text = prompt(1, &"x".repeat(length)) + &prompt(2, "second");
        env.write("long.jsonl", &text);
        env.write("corrupt.jsonl", format!("{{\"type\":\n{text}"));
        for file in ["long.jsonl", "corrupt.jsonl"] {
            let state = env.done(&["fold", file]);
            assert_eq!(state.matches(r#""type":"user_message""#).count(), 2, "{file} {length}");
            let input = File::open(env.path(file)).unwrap();
            let piped = env.command(&["fold"]).stdin(input).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&piped.stdout), state, "{file} {length}");
            assert!(env.done(&["view", file]).contains("second"), "{file} {length}");
        }
    }
}

#[test]
fn a_file_of_an_unknown_agent_is_shown_with_the_assumed_format() {
    let env = TestEnv::new();
    let text = "{\"type\":\"turn.started\"}\n{\"type\":\"item\",\"text\":\"hi\"}\n";
    env.write("turns.jsonl", text);
    env.write("folder/turns.jsonl", text);
    for (command, name) in [("fold", "turns.jsonl"), ("view", "turns.jsonl"), ("view", "./folder")]
    {
        let seen = env.run(&[command, name]);
        assert!(seen.starts_with("exit 0\n") && seen.contains("turn.started"), "{seen}");
        let note = " is of an unknown agent, and 2 of 2 records were not recognized: \
                    `--from FORMAT` reads it as another format";
        assert!(seen.contains(&format!("`{name}`{note}")), "{seen}");
    }
}

#[test]
fn nothing_is_no_session_whatever_is_asked_for() {
    let env = TestEnv::new();
    env.write("all/empty.txt", "");
    env.write("all/lines.jsonl", "\n\n");
    for arguments in [
        &["import", "all/empty.txt"][..],
        &["import", "--any", "all/empty.txt"],
        &["import", "--any", "all"],
    ] {
        env.run(&[arguments, &["--store", "s.db"]].concat());
        let listed = env.run(&["list", "--store", "s.db"]);
        assert!(!listed.starts_with("exit 0"), "{arguments:?}: {listed}");
    }
}

#[test]
fn a_file_with_the_fields_of_a_rollout_is_not_taken_for_one() {
    for line in [
        r#"{"type":"message","payload":{"type":"message","role":"user"},"timestamp":"t"}"#,
        r#"{"type":"event_msg","payload":{"type":"something_else"},"timestamp":"t"}"#,
        r#"{"type":"response_item","payload":"text","timestamp":"t"}"#,
        r#"{"type":"session_meta","payload":{"id":"s1"},"timestamp":"t"}"#,
        r#"{"type":"item.completed","item":{"text":"hi"}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1"}}"#,
    ] {
        let env = TestEnv::new();
        env.write("other.jsonl", format!("{line}\n").repeat(2));
        let seen = env.run(&["fold", "other.jsonl"]);
        assert!(!seen.contains("Codex") && seen.contains("\"unknown\""), "{line}: {seen}");
    }
}

#[test]
fn a_file_without_anything_to_show_is_reported() {
    let env = TestEnv::new();
    env.write("settings.jsonl", "{\"type\":\"mode\",\"sessionId\":\"s1\"}\n".repeat(3));
    for arguments in [&["fold", "settings.jsonl"][..], &["view", "settings.jsonl"]] {
        let seen =
            seen(&env.command(arguments).args(["--from", "claude-transcript"]).output().unwrap());
        assert!(
            seen.contains("is read as Claude Code, but none of its 3 records shows anything"),
            "{seen}"
        );
    }
}

#[test]
fn a_document_without_messages_is_reported() {
    for (document, found) in [
        (r#"{"info":{"id":"ses_1"},"messages":[]}"#, "its record shows nothing"),
        (r#"{"messages":[]}"#, "contains nothing to show"),
    ] {
        let env = TestEnv::new();
        env.write("session.json", document);
        let note = format!("is detected as OpenCode, but {found}: `--from FORMAT` reads it");
        for arguments in [&["fold", "session.json"][..], &["view", "session.json"]] {
            let seen = env.run(arguments);
            assert!(seen.starts_with("exit 0\n") && seen.contains(&note), "{document}: {seen}");
        }
        let input = File::open(env.path("session.json")).unwrap();
        let piped = seen(&env.command(&["fold"]).stdin(input).output().unwrap());
        assert!(piped.contains(&note), "{document}: {piped}");
    }
}

#[test]
fn a_session_that_shows_something_is_not_remarked_on() {
    let env = TestEnv::new();
    env.write("one.jsonl", prompt(1, "hello"));
    let seen = env.run(&["fold", "one.jsonl"]);
    assert!(seen.ends_with("--- stderr\n"), "{seen}");
}
