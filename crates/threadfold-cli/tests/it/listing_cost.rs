//! Listing costs the same per session, in whichever layout its files lie.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::claude::Transcript;
use crate::env::TestEnv;

/// What a run of the program read.
struct Reads {
    calls: u64,
    stdout: String,
}

/// Runs the program, and returns how often it read, files and pipes alike (Linux only).
fn reads(mut command: Command) -> Reads {
    let out = tempfile::NamedTempFile::new().unwrap();
    let (stdout, stderr) = (out.reopen().unwrap(), Stdio::null());
    let mut child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
    let counters = format!("/proc/{}/io", child.id());
    let mut calls = 0;
    // The counters only rise, so the last ones that can be read are the totals.
    loop {
        let text = fs::read_to_string(&counters).unwrap_or_default();
        let counter =
            |name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        calls = counter("syscr:").unwrap_or(calls).max(calls);
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "{command:?}: {ended}");
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    Reads { calls, stdout: fs::read_to_string(out.path()).unwrap() }
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
