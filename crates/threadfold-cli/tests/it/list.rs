//! `threadfold list`: what is listed, how, and what is not.

use insta::assert_snapshot;
use serde_json::json;

use crate::claude::{Transcript, keep_notes_session};
use crate::env::{TestEnv, seen};

fn some_sessions() -> TestEnv {
    let env = TestEnv::new();
    keep_notes_session(&env);
    Transcript::new("0b5e55ed-bbbb-4000-8000-000000000002")
        .prompt("<ide_opened_file>a.rs</ide_opened_file>Explain to me, in as many words as it takes,\nwhat a fold over events is, and why anybody would want one")
        .says("It is a loop.")
        .keep(&env, "-srv-code-a-very-long-name-of-a-project");
    Transcript::new("0b5e55ed-cccc-4000-8000-000000000003")
        .line("user", json!({"isMeta": true, "timestamp": "2025-02-01T10:00:00Z", "message": {"role": "user", "content": "<command-name>/status</command-name>"}}))
        .keep(&env, "-srv-code-other");
    env
}

fn list_at(env: &TestEnv, columns: &str) -> String {
    seen(&env.command(&["list"]).env("COLUMNS", columns).output().unwrap())
}

#[test]
fn eighty_columns() {
    assert_snapshot!(list_at(&some_sessions(), "80"), @"
    exit 0
    --- stdout
    id          when        project     title               blocks  subagents   cost
    ──────────  ──────────  ──────────  ──────────────────  ──────  ─────────  ─────
    5e551011-a  2025-03-01  …ody-notes  Count the notes         17          2  $0.01
    0b5e55ed-b  2025-03-01  …a-project  Explain to me, in…       3
    0b5e55ed-c  2025-02-01  …ode-other  /status                  1
    --- stderr
    ");
}

#[test]
fn a_hundred_and_sixty_columns() {
    assert_snapshot!(list_at(&some_sessions(), "160"), @"
    exit 0
    --- stdout
    id          when        project                       title                                                                             blocks  subagents   cost
    ──────────  ──────────  ────────────────────────────  ────────────────────────────────────────────────────────────────────────────────  ──────  ─────────  ─────
    5e551011-a  2025-03-01  home-somebody-notes           Count the notes                                                                       17          2  $0.01
    0b5e55ed-b  2025-03-01  …very-long-name-of-a-project  Explain to me, in as many words as it takes, what a fold over events is, and wh…       3
    0b5e55ed-c  2025-02-01  srv-code-other                /status                                                                                1
    --- stderr
    ");
}

#[test]
fn every_line_fits_any_width() {
    let env = some_sessions();
    for columns in [30, 40, 60, 80, 100, 200] {
        let shown = list_at(&env, &columns.to_string());
        for line in shown.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn json_has_every_field() {
    let env = some_sessions();
    let shown = env.run(&["list", "--json"]);
    let folder = env.path("claude").display().to_string();
    assert_snapshot!(shown.replace(&folder, "<claude>"), @r#"
    exit 0
    --- stdout
    {"id":"5e551011-aaaa-4000-8000-000000000001","agent":"claude","where":"disk","path":"<claude>/projects/-home-somebody-notes/5e551011-aaaa-4000-8000-000000000001.jsonl","project":"home-somebody-notes","title":"Count the notes","firstPrompt":"How long are my notes?\nPlease count **lines** and words.","startedAt":"2025-03-01T10:00:00.000Z","endedAt":"2025-03-01T10:10:00.000Z","blocks":17,"subagents":2,"model":"model-large-1","usage":{"inputTokens":1100,"outputTokens":220,"cacheReadTokens":33000,"cacheCreationTokens":0},"costUsd":0.0123}
    {"id":"0b5e55ed-bbbb-4000-8000-000000000002","agent":"claude","where":"disk","path":"<claude>/projects/-srv-code-a-very-long-name-of-a-project/0b5e55ed-bbbb-4000-8000-000000000002.jsonl","project":"srv-code-a-very-long-name-of-a-project","title":null,"firstPrompt":"Explain to me, in as many words as it takes,\nwhat a fold over events is, and why anybody would want one","startedAt":"2025-03-01T10:00:00.000Z","endedAt":"2025-03-01T10:01:00.000Z","blocks":3,"subagents":0,"model":"model-large-1","usage":{"inputTokens":100,"outputTokens":20,"cacheReadTokens":3000,"cacheCreationTokens":0},"costUsd":null}
    {"id":"0b5e55ed-cccc-4000-8000-000000000003","agent":"claude","where":"disk","path":"<claude>/projects/-srv-code-other/0b5e55ed-cccc-4000-8000-000000000003.jsonl","project":"srv-code-other","title":null,"firstPrompt":null,"startedAt":"2025-02-01T10:00:00Z","endedAt":"2025-02-01T10:00:00Z","blocks":1,"subagents":0,"model":null,"usage":{"inputTokens":0,"outputTokens":0,"cacheReadTokens":0,"cacheCreationTokens":0},"costUsd":null}
    --- stderr
    "#);
}

#[test]
fn a_limit_returns_the_most_recently_written() {
    let env = some_sessions();
    let shown = env.run(&["list", "--limit", "1", "--json"]);
    assert_eq!(shown.matches("\"id\"").count(), 1, "{shown}");
}

#[test]
fn a_subagent_beside_the_main_file_belongs_to_the_session_that_it_names() {
    let env = TestEnv::new();
    for session in ["one", "two"] {
        Transcript::new(session)
            .prompt("Go")
            .calls("call-1", "Task", json!({"prompt": "Work", "description": "Work"}))
            .answered_by("call-1", &format!("of-{session}"), "Done")
            .keep(&env, "p");
        let agent = Transcript::of_agent(session, &format!("of-{session}"));
        let name = format!("claude/projects/p/agent-of-{session}.jsonl");
        env.write(&name, agent.prompt("Work").says("Done").text());
    }
    let shown = env.run(&["list", "--json"]);
    assert_eq!(shown.matches("\"subagents\":1,").count(), 2, "{shown}");
}

#[test]
fn without_sessions_the_searched_folders_are_reported() {
    let env = TestEnv::new();
    let folder = env.path("claude").display().to_string();
    let home = env.path("").display().to_string();
    let shown = env.run(&["list"]).replace(&folder, "<claude>").replace(&home, "<home>/");
    assert_snapshot!(shown, @"
    exit 1
    --- stdout
    --- stderr
    no sessions found in `<home>/.local/share/opencode`, `<home>/.codex` or `<claude>/projects`; to search elsewhere, set `CLAUDE_CONFIG_DIR`, `CODEX_HOME`, `OPENCODE_DB` or `XDG_DATA_HOME`
    ");
}

#[test]
fn the_home_folder_is_the_default() {
    let env = TestEnv::new();
    env.write(".claude/projects/p/s1.jsonl", Transcript::new("s1").prompt("Hello").text());
    let output = env.command(&["list"]).env_remove("CLAUDE_CONFIG_DIR").output().unwrap();
    assert_snapshot!(seen(&output), @"
    exit 0
    --- stdout
    id  when        project  title  blocks
    ──  ──────────  ───────  ─────  ──────
    s1  2025-03-01  p        Hello       1
    --- stderr
    ");
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_reported_and_the_others_are_listed() {
    let env = TestEnv::new();
    Transcript::new("good").prompt("Hello").keep(&env, "p");
    std::fs::create_dir(env.path("claude/projects/p/bad.jsonl")).unwrap();
    let folder = env.path("claude").display().to_string();
    assert_snapshot!(env.run(&["list"]).replace(&folder, "<claude>"), @"
    exit 0
    --- stdout
    id    when        project  title  blocks
    ────  ──────────  ───────  ─────  ──────
    good  2025-03-01  p        Hello       1
    --- stderr
    skipped `<claude>/projects/p/bad.jsonl`: it is not a regular file
    ");
}

#[test]
fn short_titles_leave_room_for_the_other_columns() {
    let env = TestEnv::new();
    let project = "-srv-code-a-very-long-name-of-a-project";
    Transcript::new("0b5e55ed-bbbb-4000-8000-000000000002").prompt("Hi").keep(&env, project);
    let shown = list_at(&env, "50");
    assert!(shown.contains("project"), "{shown}");
}
