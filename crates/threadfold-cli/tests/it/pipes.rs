//! Closed pipes, slow writers, terminals.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::env::TestEnv;

const EVENT: &str = r#"{"type":"session:idle"}"#;
const BLOCK: &str = r#"{"type":"block:upsert","payload":{"block":{"id":"b","type":"assistant_text","status":"complete","content":"b"}}}"#;

#[test]
fn a_closed_reader_is_not_an_error() {
    // The last event has something to show: that an input has nothing is reported.
    let events = format!("{EVENT}\n").repeat(20_000);
    let env = TestEnv::with_events(events + BLOCK + "\n");
    let mut child = env
        .command(&["fold", "events.jsonl", "--changes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(
        first,
        "{\"step\":1,\"type\":\"session:idle\",\"outcome\":\"unchanged\",\"changes\":[]}\n"
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (Some(0), "")
    );
}

#[test]
fn changes_are_there_as_soon_as_their_event_is() {
    let env = TestEnv::new();
    let mut child = env
        .command(&["fold", "--changes"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = child.stdin.take().unwrap();
    let mut steps = BufReader::new(child.stdout.take().unwrap());
    for number in 1..=3 {
        writeln!(events, "{EVENT}").unwrap();
        let mut step = String::new();
        steps.read_line(&mut step).unwrap();
        assert!(step.starts_with(&format!("{{\"step\":{number},")), "{step}");
    }
    drop(events);
    let mut rest = String::new();
    steps.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("", Some(0)));
}

#[cfg(unix)]
#[test]
fn a_terminal_is_not_waited_for() {
    use std::fs::OpenOptions;

    use insta::assert_snapshot;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use crate::env::seen;

    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let output = TestEnv::new().command(&["fold"]).stdin(terminal).output().unwrap();
    assert_snapshot!(seen(&output), @"
    exit 2
    --- stdout
    --- stderr
    error: no file was given, and standard input is a terminal
    hint: give a file, pipe one in, or give `-` to type lines
    ");
}
