//! `threadfold watch`: live sessions.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use crate::env::{TestEnv, seen};

/// How long something may take to be seen.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn line(number: usize, kind: &str, text: &str) -> String {
    let content = match kind {
        "user" => format!("\"{text}\""),
        _ => format!(r#"[{{"type":"text","text":"{text}"}}]"#),
    };
    format!(
        r#"{{"type":"{kind}","uuid":"u{number}","sessionId":"s1","timestamp":"2026-01-02T03:04:05Z","message":{{"id":"m{number}","role":"{kind}","content":{content}}}}}"#
    ) + "\n"
}

/// A program that watches, and the lines it prints.
pub(crate) struct WatchProcess {
    child: Child,
    lines: Receiver<String>,
    pub(crate) said: Receiver<String>,
}

impl WatchProcess {
    /// Returns whether Ctrl-C would be handled by now.
    #[cfg(target_os = "linux")]
    fn handles_ctrl_c(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::INT.as_raw() - 1) != 0
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn new(env: &TestEnv, arguments: &[&str]) -> Self {
        Self::with_stdin(env, arguments, Stdio::null())
    }

    fn with_stdin(env: &TestEnv, arguments: &[&str], stdin: Stdio) -> Self {
        let mut command = env.command(&[&["watch"], arguments].concat());
        command.stdin(stdin);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let said = lines_of(child.stderr.take().unwrap());
        Self { child, lines, said }
    }

    /// Waits for a line that has this in it.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        find(&self.lines, text)
    }

    /// Waits until it ends by itself, and returns its exit status and output.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < LIMIT, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
        (self.child.wait().unwrap().code(), self.said.iter().collect())
    }

    /// Ends it with Ctrl-C, and returns its exit status, the lines that were not waited for, and what
    /// it said.
    pub(crate) fn end_with_lines(mut self) -> (Option<i32>, Vec<String>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let ended = self.child.wait().unwrap();
        (ended.code(), self.lines.iter().collect(), self.said.iter().collect())
    }

    /// Ends it with Ctrl-C, and returns its exit status and output.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let ended = self.child.wait().unwrap();
        (ended.code(), self.said.iter().collect())
    }
}

pub(crate) fn find(lines: &Receiver<String>, text: &str) -> String {
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

pub(crate) fn append(env: &TestEnv, name: &str, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(env.path(name)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn records_of_another_process_are_shown_live_and_stored() {
    let env = TestEnv::new();
    env.write("s1.jsonl", line(1, "user", "first question"));
    let watching = WatchProcess::new(&env, &["s1.jsonl"]);
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
fn a_stream_on_stdin_is_shown_and_stored() {
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
    assert!(
        told.starts_with("exit 0") && told.contains("not in a format of a known agent"),
        "{told}"
    );
    assert!(told.contains("unknown record: item.done"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_stream_of_an_unknown_agent_is_stored_as_it_arrives() {
    let env = TestEnv::new();
    let (watching, _stdin) = watch_stdin(&env, "{\"type\":\"thread.began\"}\n");
    watching.wait_for("thread.began");
    let listed = env.done(&["list", "--json"]);
    assert_eq!(listed.matches(r#""id":"other-"#).count(), 1, "{listed}");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn a_stored_session_is_followed_in_its_file() {
    let env = TestEnv::new();
    env.write("elsewhere/s1.jsonl", line(1, "user", "first question"));
    env.done(&["import", "elsewhere/s1.jsonl"]);
    let watching = WatchProcess::new(&env, &["s1"]);
    watching.wait_for("first question");
    append(&env, "elsewhere/s1.jsonl", &line(2, "assistant", "an answer"));
    watching.wait_for("an answer");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn json_starts_with_the_state_and_continues_with_changes() {
    let env = TestEnv::new();
    env.write("s1.jsonl", line(1, "user", "first question"));
    let watching = WatchProcess::new(&env, &["s1.jsonl", "--json"]);
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
    let first = WatchProcess::new(&env, &["s1.jsonl"]);
    first.wait_for("first question");
    let second = WatchProcess::new(&env, &["s1.jsonl"]);
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
fn a_second_watch_takes_over_when_the_first_one_is_killed() {
    for arguments in [&["s1.jsonl"][..], &["s1.jsonl", "--json"]] {
        let env = TestEnv::new();
        env.write("s1.jsonl", line(1, "user", "first question"));
        let mut first = WatchProcess::new(&env, &["s1.jsonl"]);
        first.wait_for("first question");
        let second = WatchProcess::new(&env, arguments);
        second.wait_for("first question");
        first.child.kill().unwrap();
        first.child.wait().unwrap();
        append(&env, "s1.jsonl", &line(2, "assistant", "an answer"));
        second.wait_for("an answer");
        append(&env, "s1.jsonl", &line(3, "user", "another question"));
        second.wait_for("another question");
        let (code, said) = second.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("this one writes the session now"), "{said}");
        let log = env.run(&["log", "s1", "--json"]);
        assert_eq!(log.matches(r#""kind":"line""#).count(), 3, "{log}");
    }
}

/// A server of an agent with sessions that can be set, and nothing in them. Returns its address.
fn serve(sessions: Arc<Mutex<Vec<&'static str>>>) -> String {
    serve_bus(sessions, "")
}

/// A server of an agent with sessions that can be set, whose bus sends some JSON lines as events.
/// Returns its address.
pub(crate) fn serve_bus(sessions: Arc<Mutex<Vec<&'static str>>>, lines: &str) -> String {
    let hello = "{\"type\":\"server.connected\",\"properties\":{}}";
    let events = std::iter::once(hello).chain(lines.lines());
    let events: Arc<str> = events.map(|it| format!("data: {it}\n\n")).collect::<String>().into();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let (sessions, events) = (sessions.clone(), events.clone());
            thread::spawn(move || answer(connection, &sessions, &events));
        }
    });
    address
}

fn answer(mut connection: TcpStream, sessions: &Mutex<Vec<&'static str>>, events: &str) {
    let mut request = String::new();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    while reader.read_line(&mut request).is_ok_and(|it| it > 2) {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let session = |id: &str| {
        format!(
            r#"{{"id":"{id}","directory":"/","title":"a title","time":{{"created":1,"updated":1}}}}"#
        )
    };
    let known = sessions.lock().unwrap().clone();
    let body = match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
        ["session"] => {
            format!("[{}]", known.iter().map(|it| session(it)).collect::<Vec<_>>().join(","))
        }
        ["session", id] => session(id),
        ["event"] => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            connection.write_all(format!("{head}{events}").as_bytes()).unwrap();
            // Held open until the client leaves.
            reader.read_line(&mut String::new()).ok();
            return;
        }
        _ => "[]".to_owned(),
    };
    let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\nconnection: close\r\n\r\n{body}");
    connection.write_all(answer.as_bytes()).ok();
}

#[test]
fn a_server_without_sessions_is_waited_for_and_the_followed_session_is_named() {
    let env = TestEnv::new();
    let sessions = Arc::new(Mutex::new(Vec::new()));
    let address = serve(sessions.clone());
    let watching = WatchProcess::new(&env, &[&address, "--json"]);
    find(&watching.said, "has no session yet: waiting for one");
    sessions.lock().unwrap().extend(["ses_1", "ses_2"]);
    find(&watching.said, "following session `ses_1` and not 1 other of the server");
    watching.wait_for(r#""type":"snapshot""#);
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn growing_sessions_of_a_folder_are_reported() {
    let env = TestEnv::new();
    let of_old = |text: String| text.replace("\"s1\"", "\"old\"");
    env.write("projects/p/old.jsonl", of_old(line(1, "user", "an old question")));
    let watching = WatchProcess::new(&env, &["projects", "--json"]);
    find(&watching.said, "watching");
    let of_new = line(1, "user", "a new question").replace("\"s1\"", "\"new\"");
    append(&env, "projects/p/new.jsonl", &of_new);
    let told = watching.wait_for("a new question");
    assert!(told.contains(r#""sessionId":"new""#), "{told}");
    append(&env, "projects/p/old.jsonl", &of_old(line(2, "user", "one more")));
    let told = watching.wait_for(r#""sessionId":"old""#);
    assert!(told.contains("an old question") && told.contains("one more"), "{told}");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn an_input_that_cannot_be_watched_is_an_error_with_a_hint() {
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
    error: `http://` is not the address of a known agent's server
    hint: an address looks like `http://127.0.0.1:4096`
    ");
}

#[test]
fn a_file_of_an_unknown_agent_is_followed() {
    let env = TestEnv::new();
    env.write("strange.jsonl", "{\"type\":\"session\",\"version\":3}\n");
    let watching = WatchProcess::new(&env, &["strange.jsonl", "--json"]);
    watching.wait_for(r#""version":3"#);
    append(&env, "strange.jsonl", "{\"type\":\"message\",\"text\":\"more of it\"}\n");
    watching.wait_for("more of it");
    let (code, said) = watching.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("`strange.jsonl` is in an unknown format: it is stored line by line"),
        "{said}"
    );
}

/// Watches standard input, and returns once all of it was read and Ctrl-C would be handled.
fn watch_stdin(env: &TestEnv, said: &str) -> (WatchProcess, ChildStdin) {
    let mut watching = WatchProcess::with_stdin(env, &["-", "--json"], Stdio::piped());
    let mut stdin = watching.child.stdin.take().unwrap();
    stdin.write_all(said.as_bytes()).unwrap();
    let end = Instant::now() + LIMIT;
    while !watching.handles_ctrl_c() || rustix::io::ioctl_fionread(&stdin).unwrap() > 0 {
        assert!(Instant::now() < end, "it does not read");
        thread::sleep(Duration::from_millis(10));
    }
    (watching, stdin)
}

#[cfg(target_os = "linux")]
#[test]
fn stdin_read_so_far_is_stored_on_ctrl_c() {
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
fn stdin_read_before_the_session_id_is_stored_on_ctrl_c() {
    let env = TestEnv::new();
    let unnamed = r#"{"type":"stream_event","event":{"type":"ping"}}"#;
    let (watching, _stdin) = watch_stdin(&env, &format!("{unnamed}\n"));
    assert_eq!(watching.end(), (Some(0), String::new()));
    let listed = env.done(&["list", "--json"]);
    assert_eq!(listed.matches(r#""id":"claude-"#).count(), 1, "{listed}");
}

#[test]
fn an_empty_file_is_shown_once_it_has_content() {
    let env = TestEnv::new();
    env.write("s1.jsonl", "");
    let watching = WatchProcess::new(&env, &["s1.jsonl"]);
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
fn waiting_for_an_empty_file_ends_on_ctrl_c() {
    let env = TestEnv::new();
    env.write("s1.jsonl", "");
    let watching = WatchProcess::new(&env, &["s1.jsonl"]);
    find(&watching.said, "`s1.jsonl` has no record yet");
    // Its output comes before it listens.
    let end = Instant::now() + LIMIT;
    while !watching.handles_ctrl_c() {
        assert!(Instant::now() < end, "it does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(watching.end().0, Some(0));
}

/// A stream of one answer, which has no prompt, and the transcript of the same session.
fn stream_and_transcript() -> (String, String) {
    let answer = r#""uuid":"a1","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"Hello there."}]}"#;
    let stream = [
        r#"{"type":"system","subtype":"init","session_id":"s9","uuid":"i1","model":"m","tools":[],"cwd":"/"}"#.to_owned(),
        format!(r#"{{"type":"assistant","session_id":"s9",{answer}}}"#),
        r#"{"type":"result","subtype":"success","session_id":"s9","uuid":"r1","is_error":false,"result":"Hello there."}"#.to_owned(),
    ];
    let transcript = [
        r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s9","message":{"role":"user","content":"The question"}}"#.to_owned(),
        format!(r#"{{"type":"assistant","parentUuid":"u1","sessionId":"s9",{answer}}}"#),
    ];
    (stream.join("\n") + "\n", transcript.join("\n") + "\n")
}

#[test]
fn a_prompt_that_comes_after_its_answer_is_drawn_before_it() {
    let (stream, transcript) = stream_and_transcript();
    let env = TestEnv::with_events(stream);
    assert!(env.run_piped(&["watch", "-"]).starts_with("exit 0"));
    let watching = WatchProcess::new(&env, &["s9"]);
    watching.wait_for("Hello there.");
    env.write("s9.jsonl", transcript);
    env.done(&["import", "s9.jsonl"]);
    watching.wait_for("continues from an earlier block");
    watching.wait_for("The question");
    watching.wait_for("Hello there.");
    assert_eq!(watching.end(), (Some(0), String::new()));
}

/// Returns the lines that a terminal shows after what was sent to it.
fn screen(sent: &str) -> Vec<String> {
    let (mut lines, mut row) = (vec![String::new()], 0);
    let mut letters = sent.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => {
                row += 1;
                lines.resize(lines.len().max(row + 1), String::new());
            }
            '\r' => {}
            '\u{1b}' => {
                let mut number = String::new();
                let end = letters.find(|it| {
                    number.extend(it.is_ascii_digit().then_some(*it));
                    it.is_ascii_alphabetic()
                });
                match end {
                    Some('A') => row -= number.parse::<usize>().unwrap(),
                    Some('J') => {
                        lines.truncate(row);
                        lines.push(String::new());
                    }
                    // A colour, or the cursor.
                    _ => {}
                }
            }
            letter => lines[row].push(letter),
        }
    }
    lines
}

#[test]
fn on_a_terminal_a_late_prompt_is_drawn_in_place() {
    let (stream, transcript) = stream_and_transcript();
    let env = TestEnv::with_events(stream);
    assert!(env.run_piped(&["watch", "-"]).starts_with("exit 0"));
    let mut command = env.command(&["watch", "s9"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let sent = crate::pager::interrupted_in_terminal(command, |sent| {
        if sent.contains("Hello there.") && !env.path("s9.jsonl").exists() {
            env.write("s9.jsonl", &transcript);
            env.done(&["import", "s9.jsonl"]);
        }
        sent.find("The question").is_some_and(|at| sent[at..].contains("Hello there."))
    });
    assert!(sent.starts_with("exit Some(0)"), "{sent}");
    assert!(!sent.contains("continues from an earlier block"), "{sent}");
    let screen = screen(&sent);
    let rows = |text: &str| -> Vec<usize> {
        (0..screen.len()).filter(|&row| screen[row].contains(text)).collect()
    };
    let (question, answer) = (rows("The question"), rows("Hello there."));
    assert_eq!((question.len(), answer.len()), (1, 1), "{sent:?} {screen:#?}");
    assert!(question < answer, "{screen:#?}");
}
