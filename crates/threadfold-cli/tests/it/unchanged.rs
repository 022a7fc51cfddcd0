//! Costs what is new: an unchanged file is not read again, and a folder is listed once.

use std::fs::{self, File, FileTimes};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::claude::Transcript;
use crate::env::TestEnv;

const SESSION: &str = "5e551012-0000-4000-8000-000000000001";

/// What a run of the program read.
struct Reads {
    bytes: u64,
    calls: u64,
    stdout: String,
}

/// Runs the program, and returns how much it read, files and pipes alike (Linux only).
fn reads(mut command: Command) -> Reads {
    let out = tempfile::NamedTempFile::new().unwrap();
    let (stdout, stderr) = (out.reopen().unwrap(), Stdio::null());
    let mut child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
    let counters = format!("/proc/{}/io", child.id());
    let (mut bytes, mut calls) = (0, 0);
    // The counters only rise, so the last ones that can be read are the totals.
    loop {
        let text = fs::read_to_string(&counters).unwrap_or_default();
        let counter =
            |name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        bytes = counter("rchar:").unwrap_or(bytes).max(bytes);
        calls = counter("syscr:").unwrap_or(calls).max(calls);
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "{command:?}: {ended}");
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    Reads { bytes, calls, stdout: fs::read_to_string(out.path()).unwrap() }
}

fn main_file(env: &TestEnv) -> std::path::PathBuf {
    env.path(&format!("claude/projects/p/{SESSION}.jsonl"))
}

/// Returns a home with one session of some megabytes, which was written a while ago.
fn home() -> TestEnv {
    let env = TestEnv::new();
    let text = "words ".repeat(12_000);
    let transcript =
        (0..50).fold(Transcript::new(SESSION), |it, number| it.prompt(format!("{number} {text}")));
    env.write(&format!("claude/projects/p/{SESSION}.jsonl"), transcript.text());
    // A file that changed just now may change again within the same tick of the clock.
    thread::sleep(Duration::from_millis(60));
    env
}

fn import<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["import", "--json", "--store", "store.db"], more].concat()
}

#[test]
#[cfg(target_os = "linux")]
fn an_unchanged_file_is_not_read_again_unless_asked() {
    let env = home();
    let size = main_file(&env).metadata().unwrap().len();
    assert!(size > 3_000_000);
    let first = reads(env.command(&import(&[])));
    assert!(first.bytes >= size, "{}", first.bytes);
    let before = fs::read(env.path("store.db")).unwrap();

    let again = reads(env.command(&import(&[])));
    assert!(again.stdout.contains(r#""status":"unchanged""#), "{}", again.stdout);
    assert!(again.bytes < size / 4, "{} bytes were read of {size}", again.bytes);
    assert!(fs::read(env.path("store.db")).unwrap() == before, "the store was written to");

    let reread = reads(env.command(&import(&["--reread"])));
    assert!(reread.stdout.contains(r#""status":"unchanged""#), "{}", reread.stdout);
    assert!(reread.bytes >= size, "{}", reread.bytes);
}

#[test]
fn a_file_that_was_rewritten_in_place_is_read_although_its_size_and_time_are_the_same() {
    let env = home();
    env.done(&import(&[]));
    let path = main_file(&env);
    let (text, modified) =
        (fs::read_to_string(&path).unwrap(), path.metadata().unwrap().modified());
    fs::write(&path, text.replacen("words", "WORDS", 1)).unwrap();
    let times = FileTimes::new().set_modified(modified.unwrap());
    File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let again = env.done(&import(&[]));
    assert!(again.contains(r#""status":"grown""#) && again.contains(r#""newParts":1"#), "{again}");
}

#[test]
fn a_subagent_that_was_added_is_read_although_its_session_is_unchanged() {
    let env = home();
    env.done(&import(&[]));
    let subagent = Transcript::of_agent(SESSION, "a1").prompt("look");
    let path = format!("claude/projects/p/{SESSION}/subagents/agent-a1.jsonl");
    env.write(&path, subagent.text());
    let again = env.done(&import(&[]));
    assert!(again.contains(r#""status":"grown""#), "{again}");
}

/// Returns a home whose sessions each have a subagent's file, in one of the layouts.
fn many(count: usize, is_beside: bool) -> TestEnv {
    let env = TestEnv::new();
    for number in 0..count {
        let session = format!("5e551013-0000-4000-8000-{number:012}");
        let main = Transcript::new(&session).prompt("go");
        env.write(&format!("claude/projects/p/{session}.jsonl"), main.text());
        let subagent = Transcript::of_agent(&session, &format!("a{number}")).prompt("look");
        let path = match is_beside {
            true => format!("claude/projects/p/agent-a{number}.jsonl"),
            false => format!("claude/projects/p/{session}/subagents/agent-a{number}.jsonl"),
        };
        env.write(&path, subagent.text());
    }
    env
}

#[test]
#[cfg(target_os = "linux")]
fn listing_ten_times_the_sessions_reads_at_most_twelve_times_as_often() {
    for is_beside in [true, false] {
        let calls = [40, 400].map(|count| {
            let env = many(count, is_beside);
            let listed = reads(env.command(&["list", "--json", "--store", "store.db"]));
            assert_eq!(listed.stdout.lines().count(), count);
            listed.calls
        });
        assert!(calls[1] <= 12 * calls[0], "{calls:?} reads, beside: {is_beside}");
    }
}
