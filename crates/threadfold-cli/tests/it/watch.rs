//! `threadfold watch`: a session while it goes on.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use crate::env::{TestEnv, seen};

/// How long something may take to be seen.
const LIMIT: Duration = Duration::from_secs(20);

fn line(number: usize, kind: &str, text: &str) -> String {
    let content = match kind {
        "user" => format!("\"{text}\""),
        _ => format!(r#"[{{"type":"text","text":"{text}"}}]"#),
    };
    format!(
        r#"{{"type":"{kind}","uuid":"u{number}","sessionId":"s1","timestamp":"2026-01-02T03:04:05Z","message":{{"id":"m{number}","role":"{kind}","content":{content}}}}}"#
    ) + "\n"
}

/// A program that watches, and the lines it prints.
struct Watching {
    child: Child,
    lines: Receiver<String>,
    said: Receiver<String>,
}

impl Watching {
    /// Says whether Ctrl-C would be heard by now.
    #[cfg(target_os = "linux")]
    fn hears_ctrl_c(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::INT.as_raw() - 1) != 0
    }

    fn new(env: &TestEnv, arguments: &[&str]) -> Self {
        Self::hearing(env, arguments, Stdio::null())
    }

    fn hearing(env: &TestEnv, arguments: &[&str], stdin: Stdio) -> Self {
        let mut command = env.command(&[&["watch"], arguments].concat());
        command.stdin(stdin);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let said = lines_of(child.stderr.take().unwrap());
        Self { child, lines, said }
    }

    /// Waits for a line that has this in it.
    fn wait_for(&self, text: &str) -> String {
        find(&self.lines, text)
    }

    /// Ends it as a person would, and returns how it ended and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let ended = self.child.wait().unwrap();
        (ended.code(), self.said.iter().collect())
    }
}

fn find(lines: &Receiver<String>, text: &str) -> String {
    loop {
        let line = lines.recv_timeout(LIMIT);
        let line = line.unwrap_or_else(|_| panic!("`{text}` was not seen"));
        if line.contains(text) {
            return line;
        }
    }
}

fn lines_of(out: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn append(env: &TestEnv, name: &str, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(env.path(name)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn what_another_program_writes_is_seen_as_it_comes_and_is_kept() {
    let env = TestEnv::new();
    env.write("s1.jsonl", line(1, "user", "first question"));
    let watching = Watching::new(&env, &["s1.jsonl"]);
    watching.wait_for("first question");
    let answer = line(2, "assistant", "an answer");
    let (begin, end) = answer.split_at(50);
    append(&env, "s1.jsonl", begin);
    append(&env, "s1.jsonl", end);
    watching.wait_for("an answer");
    fs::create_dir_all(env.path("s1/subagents")).unwrap();
    append(&env, "s1.jsonl", &line(3, "user", "another question"));
    watching.wait_for("another question");
    assert_eq!(watching.end(), (Some(0), String::new()));
    let log = env.run(&["log", "s1", "--json"]);
    assert_eq!(log.matches(r#""kind":"line""#).count(), 3, "{log}");
}

#[test]
fn a_stream_on_standard_input_is_told_and_kept() {
    let env = TestEnv::with_events(
        [
            r#"{"type":"system","subtype":"init","session_id":"s9","uuid":"i1","model":"m","tools":[],"cwd":"/"}"#,
            r#"{"type":"assistant","uuid":"a1","session_id":"s9","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"Hello there."}]}}"#,
            r#"{"type":"result","subtype":"success","session_id":"s9","uuid":"r1","is_error":false,"result":"Hello there."}"#,
        ]
        .join("\n"),
    );
    assert_snapshot!(env.run_piped(&["watch", "-"]), @"
    exit 0
    --- stdout
    Assistant · m
      Hello there.
    --- stderr
    ");
    assert!(env.run(&["view", "s9", "--no-pager"]).contains("Hello there."));
}

#[test]
fn a_stream_of_an_unknown_agent_is_shown_line_by_line() {
    let env = TestEnv::with_events("{\"type\":\"thread.began\"}\n{\"type\":\"item.done\"}\n");
    let told = env.run_piped(&["watch", "-"]);
    assert!(told.starts_with("exit 0") && told.contains("no format of a known agent"), "{told}");
    assert!(told.contains("unknown record: item.done"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_stream_of_an_unknown_agent_is_kept_as_it_comes() {
    let env = TestEnv::new();
    let (watching, _stdin) = watch_stdin(&env, "{\"type\":\"thread.began\"}\n");
    watching.wait_for("thread.began");
    let listed = env.done(&["list", "--json"]);
    assert_eq!(listed.matches(r#""id":"other-"#).count(), 1, "{listed}");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn a_kept_session_is_followed_in_its_file() {
    let env = TestEnv::new();
    env.write("elsewhere/s1.jsonl", line(1, "user", "first question"));
    env.done(&["import", "elsewhere/s1.jsonl"]);
    let watching = Watching::new(&env, &["s1"]);
    watching.wait_for("first question");
    append(&env, "elsewhere/s1.jsonl", &line(2, "assistant", "an answer"));
    watching.wait_for("an answer");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn json_begins_with_the_state_and_goes_on_with_changes() {
    let env = TestEnv::new();
    env.write("s1.jsonl", line(1, "user", "first question"));
    let watching = Watching::new(&env, &["s1.jsonl", "--json"]);
    let state = watching.wait_for("first question");
    assert!(state.starts_with(r#"{"type":"snapshot","sessionId":"s1","cursor":""#), "{state}");
    append(&env, "s1.jsonl", &line(2, "assistant", "an answer"));
    let changes = watching.wait_for("an answer");
    assert!(changes.starts_with(r#"{"type":"changes","sessionId":"s1","cursor":""#), "{changes}");
    assert!(changes.contains(r#""type":"block:inserted""#), "{changes}");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn a_second_watch_follows_read_only() {
    let env = TestEnv::new();
    env.write("s1.jsonl", line(1, "user", "first question"));
    let first = Watching::new(&env, &["s1.jsonl"]);
    first.wait_for("first question");
    let second = Watching::new(&env, &["s1.jsonl"]);
    second.wait_for("first question");
    append(&env, "s1.jsonl", &line(2, "assistant", "an answer"));
    first.wait_for("an answer");
    second.wait_for("an answer");
    let (code, said) = second.end();
    assert_eq!(code, Some(0));
    assert!(
        said.contains("threadfold watch, process ") && said.contains("following it read-only"),
        "{said}"
    );
    assert_eq!(first.end(), (Some(0), String::new()));
}

#[test]
fn sessions_of_a_folder_are_told_of_when_they_grow() {
    let env = TestEnv::new();
    let of_old = |text: String| text.replace("\"s1\"", "\"old\"");
    env.write("projects/p/old.jsonl", of_old(line(1, "user", "an old question")));
    let watching = Watching::new(&env, &["projects", "--json"]);
    find(&watching.said, "watching");
    let of_new = line(1, "user", "a new question").replace("\"s1\"", "\"new\"");
    append(&env, "projects/p/new.jsonl", &of_new);
    let told = watching.wait_for("a new question");
    assert!(told.contains(r#""sessionId":"new""#), "{told}");
    append(&env, "projects/p/old.jsonl", &of_old(line(2, "user", "one more")));
    let told = watching.wait_for(r#""sessionId":"old""#);
    assert!(told.contains("one more") && told.contains(r#""records":2"#), "{told}");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn what_cannot_be_watched_is_said_with_a_hint() {
    let env = TestEnv::new();
    assert_snapshot!(env.run(&["watch", "nothing.jsonl"]), @"
    exit 2
    --- stdout
    --- stderr
    error: cannot read `nothing.jsonl`
    cause: No such file or directory (os error 2)
    hint: check that it exists and can be read
    ");
    assert_snapshot!(env.run(&["watch", "http://127.0.0.1:1"]).lines().next().unwrap(), @"exit 2");
    assert_snapshot!(seen(&env.command(&["watch", "http://"]).output().unwrap()), @"
    exit 2
    --- stdout
    --- stderr
    error: `http://` is not the address of a server of a known agent
    hint: an address looks like `http://127.0.0.1:4096`
    ");
}

#[test]
fn a_file_of_an_unknown_agent_is_followed() {
    let env = TestEnv::new();
    env.write("strange.jsonl", "{\"type\":\"session\",\"version\":3}\n");
    let watching = Watching::new(&env, &["strange.jsonl", "--json"]);
    watching.wait_for(r#""version":3"#);
    append(&env, "strange.jsonl", "{\"type\":\"message\",\"text\":\"more of it\"}\n");
    watching.wait_for("more of it");
    let (code, said) = watching.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("`strange.jsonl` is no known agent's session: every line is kept as it is"),
        "{said}"
    );
}

/// Watches what is said on standard input, and returns once all of it was read and Ctrl-C would be
/// heard.
fn watch_stdin(env: &TestEnv, said: &str) -> (Watching, ChildStdin) {
    let mut watching = Watching::hearing(env, &["-", "--json"], Stdio::piped());
    let mut stdin = watching.child.stdin.take().unwrap();
    stdin.write_all(said.as_bytes()).unwrap();
    let end = Instant::now() + LIMIT;
    while !watching.hears_ctrl_c() || rustix::io::ioctl_fionread(&stdin).unwrap() > 0 {
        assert!(Instant::now() < end, "it does not read");
        thread::sleep(Duration::from_millis(10));
    }
    (watching, stdin)
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_read_from_standard_input_is_kept_when_a_person_ends_it() {
    let env = TestEnv::new();
    let init = r#"{"type":"system","subtype":"init","session_id":"s9","uuid":"i1","model":"m","tools":[],"cwd":"/"}"#;
    let unfinished = r#"{"type":"assistant","uuid":"a1","session_id":"s9","mess"#;
    let (watching, _stdin) = watch_stdin(&env, &format!("{init}\n{unfinished}"));
    assert_eq!(watching.end(), (Some(0), String::new()));
    env.done(&["export", "s9", "-o", "out"]);
    assert_eq!(fs::read_to_string(env.path("out")).unwrap(), format!("{init}\n{unfinished}"));
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_read_before_the_session_had_a_name_is_kept_too() {
    let env = TestEnv::new();
    let unnamed = r#"{"type":"stream_event","event":{"type":"ping"}}"#;
    let (watching, _stdin) = watch_stdin(&env, &format!("{unnamed}\n"));
    assert_eq!(watching.end(), (Some(0), String::new()));
    let listed = env.done(&["list", "--json"]);
    assert_eq!(listed.matches(r#""id":"claude-"#).count(), 1, "{listed}");
}

#[test]
fn a_file_that_is_empty_is_shown_rightly_once_it_fills() {
    let env = TestEnv::new();
    env.write("s1.jsonl", "");
    let watching = Watching::new(&env, &["s1.jsonl"]);
    find(&watching.said, "`s1.jsonl` has no record yet");
    let first = line(1, "user", "first question");
    let (begin, end) = first.split_at(30);
    append(&env, "s1.jsonl", begin);
    thread::sleep(Duration::from_millis(150));
    append(&env, "s1.jsonl", end);
    watching.wait_for("first question");
    assert_eq!(watching.end().0, Some(0));
    let viewed = env.run(&["view", "s1", "--no-pager"]);
    assert!(viewed.contains("first question") && !viewed.contains("unknown"), "{viewed}");
}

#[cfg(target_os = "linux")]
#[test]
fn who_waits_for_a_file_to_fill_can_be_ended() {
    let env = TestEnv::new();
    env.write("s1.jsonl", "");
    let watching = Watching::new(&env, &["s1.jsonl"]);
    find(&watching.said, "`s1.jsonl` has no record yet");
    // What it says comes before it listens.
    let end = Instant::now() + LIMIT;
    while !watching.hears_ctrl_c() {
        assert!(Instant::now() < end, "it does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(watching.end().0, Some(0));
}
