//! Invalid OpenCode inputs: each is reported, none is guessed.

use std::fs;

use insta::assert_snapshot;

use crate::claude::Transcript;
use crate::env::TestEnv;
use crate::opencode::recorded;

#[test]
fn a_format_that_does_not_match_is_an_error() {
    let env = recorded("text");
    assert_snapshot!(env.run(&["fold", "opencode.db", "--from", "opencode-export"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `opencode.db` is not in format `opencode-export`: it is a SQLite database
    hint: omit `--from` to detect the format; `--help` lists the formats
    ");
    assert_snapshot!(env.run(&["fold", "export.json", "--from", "opencode-db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `export.json` is not a SQLite database, or is encrypted
    cause: its header is not that of a SQLite database
    cause: Error code 26: file is not a database
    hint: `threadfold list` shows where agents keep their sessions
    ");
    let unfit = env.run(&["fold", "export.json", "--from", "opencode-events", "--unknown"]);
    assert!(unfit.starts_with("exit 0"), "lines that are not understood are kept: {unfit}");
    env.write("notes.db", b"SQLite format 3\0");
    assert!(env.run(&["fold", "notes.db"]).starts_with("exit 2"));
    rusqlite::Connection::open(env.path("other.db"))
        .unwrap()
        .execute_batch("CREATE TABLE notes (id)")
        .unwrap();
    assert_snapshot!(env.run(&["fold", "other.db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `other.db` is a SQLite database, but not one of OpenCode
    hint: `threadfold list` shows where it looks for sessions
    ");
}

#[test]
fn a_database_is_not_read_from_standard_input() {
    let env = recorded("text");
    env.write("events.jsonl", fs::read(env.path("opencode.db")).unwrap());
    assert_snapshot!(env.run_piped(&["fold"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `stdin` is not in format `opencode-db`: this format needs random access; give its path
    hint: omit `--from` to detect the format; `--help` lists the formats
    ");
}

#[test]
fn an_empty_file_is_no_session() {
    let env = recorded("text");
    env.write("empty", "");
    for from in ["opencode-events", "opencode-export"] {
        let shown = env.run(&["fold", "empty", "--from", from, "--hash"]);
        assert!(shown.starts_with("exit 0"), "{shown}");
    }
    assert_snapshot!(env.run(&["fold", "empty", "--from", "opencode-db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `empty` is not a SQLite database, or is encrypted
    cause: its header is not that of a SQLite database
    cause: Error code 26: file is not a database
    hint: `threadfold list` shows where agents keep their sessions
    ");
    assert_snapshot!(
        env.run(&["verify", "--stream", "events.sse.jsonl", "--transcript", "empty"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `empty` contains nothing to compare
    hint: use the agent's own file of the same session
    "
    );
    assert_snapshot!(
        env.run(&["verify", "--stream", "empty", "--transcript", "opencode.db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: session `opencode-af1349b9f5f9` is not in `opencode.db`
    hint: `threadfold list` shows the sessions on this machine
    "
    );
}

#[test]
fn two_agents_are_not_compared() {
    let env = recorded("text");
    env.write("claude.jsonl", Transcript::new("s1").prompt("Hello").says("Hello").text());
    assert_snapshot!(
        env.run(&["verify", "--stream", "events.sse.jsonl", "--transcript", "claude.jsonl"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `events.sse.jsonl` is from OpenCode, but `claude.jsonl` is from Claude Code
    hint: give a stream and a transcript of the same agent
    "
    );
    let mixed = ["verify", "--stream", "events.sse.jsonl", "--transcript", "export.json"];
    let shown = env.run(&[&mixed[..], &["--transcript", "claude.jsonl"]].concat());
    assert!(shown.starts_with("exit 2"), "{shown}");
}

#[test]
fn a_name_is_a_name_and_never_a_path_or_a_flag() {
    let env = recorded("text");
    for name in ["../../etc/passwd", "ses_%", "' OR 1=1 --", "-", "", "\u{1b}[31m", "opencode.db"] {
        let argument = format!("--session={name}");
        for file in ["opencode.db", "events.sse.jsonl"] {
            let shown = env.run(&["fold", file, &argument]);
            assert!(
                shown.starts_with("exit 2\n--- stdout\n--- stderr\nerror: "),
                "{name}: {shown}"
            );
            let helps = shown.contains("hint: ") || shown.contains("--help");
            assert!(helps && !shown.contains('\u{1b}'), "{name}: {shown}");
        }
    }
    let flag = env.run(&["fold", "opencode.db", "--session", "--hash"]);
    assert!(flag.starts_with("exit 2"), "{flag}");
    env.write("claude.jsonl", Transcript::new("s1").prompt("Hello").text());
    assert_snapshot!(env.run(&["fold", "claude.jsonl", "--session", "s1"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `claude.jsonl` contains only one session, but a session was specified
    hint: omit `--session`
    ");
}

#[test]
fn a_corrupt_database_is_reported_and_other_sessions_are_listed() {
    let env = TestEnv::new();
    Transcript::new("good").prompt("Hello").keep(&env, "p");
    env.write(".local/share/opencode/opencode.db", "SQLite format 3\0 and then nothing of one");
    let home = env.path("").display().to_string();
    assert_snapshot!(env.run(&["list"]).replace(&home, "~/"), @"
    exit 0
    --- stdout
    id    when        project  title  blocks
    ────  ──────────  ───────  ─────  ──────
    good  2025-03-01  p        Hello       1
    --- stderr
    skipped `~/.local/share/opencode/opencode.db`: it is not a SQLite database, or is encrypted
    ");
    assert_snapshot!(env.run(&["view", "ses_1"]).replace(&home, "~/"), @"
    exit 2
    --- stdout
    --- stderr
    skipped `~/.local/share/opencode/opencode.db`: it is not a SQLite database, or is encrypted
    error: session `ses_1` is not in `~/.local/share/opencode`, `~/.codex` or `~/claude/projects`
    hint: `threadfold list` shows the sessions; the path of a session's file works as well
    ");
}
