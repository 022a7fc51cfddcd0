//! `threadfold view`: how a conversation is shown, and how a session is found.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::json;

use crate::claude::{Transcript, keep_notes_session};
use crate::env::{TestEnv, seen};

fn notes() -> TestEnv {
    let env = TestEnv::new();
    keep_notes_session(&env);
    env
}

/// Shows a transcript of its own.
fn view(transcript: &Transcript, options: &[&str]) -> String {
    let env = TestEnv::new();
    env.write("s.jsonl", transcript.text());
    env.run(&[&["view", "s.jsonl"], options].concat())
}

#[test]
fn eighty_columns() {
    assert_snapshot!(notes().run(&["view", "5e55"]), @"
    exit 0
    --- stdout
    Count the notes
    session 5e551011-aaaa-4000-8000-000000000001
    2025-03-01 10:00

    You · 10:00
      How long are my notes?
      Please count **lines** and words.

    Assistant · model-large-1 · 10:01
      ✻ thinking: The person wants two numbers. I can count lines myself and let so…

      I will count the lines, and have the words counted.

      ● Bash  wc -l notes.txt  ✓ 3 notes.txt

      ● Agent  counter: Count words  ✓ 2.1 s
      │ Prompt · 10:00
      │   Count the words in notes.txt.
      │
      │ Assistant · model-large-1 · 10:01
      │   ● Agent  reader: Read the notes  ✓ 2.1 s
      │   │ Prompt · 10:00
      │   │   Read notes.txt aloud.
      │   │
      │   │ Assistant · model-large-1 · 10:01
      │   │   One two three.
      │
      │   ● Bash  wc -w notes.txt  ✓ 12 notes.txt (+1 line)
      │
      │   There are 12 words.

      ● Read  …/long/way/to/the/folder/of/notes/missing.txt  ✗ File does not exist.

      ## Result

      Your notes have:

      • 3 lines
      • 12 words, as `wc` counts them

      file       lines  words
      ─────────  ─────  ─────
      notes.txt      3     12

          wc -lw notes.txt

      See the manual (https://example.com/wc).

    ────────────────────────────────────────────────────────────────────────────────
    17 blocks · 2 subagents · 10 min 0 s · $0.0123
    tokens: 1,100 in · 220 out · 33,000 read from cache
    not shown: 1 hidden thought (`--full` shows them)
    --- stderr
    ");
}

#[test]
fn a_hundred_and_sixty_columns() {
    assert_snapshot!(notes().run(&["view", "5e55", "--width", "160"]), @"
    exit 0
    --- stdout
    Count the notes
    session 5e551011-aaaa-4000-8000-000000000001
    2025-03-01 10:00

    You · 10:00
      How long are my notes?
      Please count **lines** and words.

    Assistant · model-large-1 · 10:01
      ✻ thinking: The person wants two numbers. I can count lines myself and let somebody else count the words.

      I will count the lines, and have the words counted.

      ● Bash  wc -l notes.txt  ✓ 3 notes.txt

      ● Agent  counter: Count words  ✓ 2.1 s
      │ Prompt · 10:00
      │   Count the words in notes.txt.
      │
      │ Assistant · model-large-1 · 10:01
      │   ● Agent  reader: Read the notes  ✓ 2.1 s
      │   │ Prompt · 10:00
      │   │   Read notes.txt aloud.
      │   │
      │   │ Assistant · model-large-1 · 10:01
      │   │   One two three.
      │
      │   ● Bash  wc -w notes.txt  ✓ 12 notes.txt (+1 line)
      │
      │   There are 12 words.

      ● Read  /home/somebody/a/rather/long/way/to/the/folder/of/notes/missing.txt  ✗ File does not exist.

      ## Result

      Your notes have:

      • 3 lines
      • 12 words, as `wc` counts them

      file       lines  words
      ─────────  ─────  ─────
      notes.txt      3     12

          wc -lw notes.txt

      See the manual (https://example.com/wc).

    ────────────────────────────────────────────────────────────────────────────────────────────────────
    17 blocks · 2 subagents · 10 min 0 s · $0.0123
    tokens: 1,100 in · 220 out · 33,000 read from cache
    not shown: 1 hidden thought (`--full` shows them)
    --- stderr
    ");
}

#[test]
fn in_full() {
    assert_snapshot!(notes().run(&["view", "5e55", "--full", "--no-subagents"]), @"
    exit 0
    --- stdout
    Count the notes
    session 5e551011-aaaa-4000-8000-000000000001
    2025-03-01 10:00

    You · 10:00
      How long are my notes?
      Please count **lines** and words.

    Assistant · model-large-1 · 10:01
      ✻ thinking: The person wants two numbers. I can count lines myself and let so…

      I will count the lines, and have the words counted.

      ● Bash  wc -l notes.txt  ✓ 3 notes.txt
          command: wc -l notes.txt
          description: Count lines
        ⎿ 3 notes.txt

      ● Agent  counter: Count words  ✓ 2.1 s · There are **12** words.

      ● Read  …/long/way/to/the/folder/of/notes/missing.txt  ✗ File does not exist.
          file_path:
          /home/somebody/a/rather/long/way/to/the/folder/of/notes/missing.txt
        ⎿ <tool_use_error>File does not exist.</tool_use_error>

      ✻ thinking, hidden by the provider

      ## Result

      Your notes have:

      • 3 lines
      • 12 words, as `wc` counts them

      file       lines  words
      ─────────  ─────  ─────
      notes.txt      3     12

          wc -lw notes.txt

      See the manual (https://example.com/wc).

    ────────────────────────────────────────────────────────────────────────────────
    17 blocks · 2 subagents · 10 min 0 s · $0.0123
    tokens: 1,100 in · 220 out · 33,000 read from cache
    --- stderr
    ");
}

#[test]
fn with_thoughts() {
    let transcript = Transcript::new("s")
        .prompt("Think")
        .thinks("First one thing.\n\nThen another.")
        .thinks("")
        .says("I did.");
    assert_snapshot!(view(&transcript, &["--thinking"]), @"
    exit 0
    --- stdout
    session s
    2025-03-01 10:00

    You · 10:00
      Think

    Assistant · model-large-1 · 10:01
      ✻ thinking
        First one thing.

        Then another.

      ✻ thinking, hidden by the provider

      I did.

    ────────────────────────────────────────────────────────────────────────────────
    4 blocks · 3 min 0 s
    tokens: 300 in · 60 out · 9,000 read from cache
    --- stderr
    ");
    assert_snapshot!(view(&transcript, &[]), @"
    exit 0
    --- stdout
    session s
    2025-03-01 10:00

    You · 10:00
      Think

    Assistant · model-large-1 · 10:01
      ✻ thinking: First one thing. Then another.

      I did.

    ────────────────────────────────────────────────────────────────────────────────
    4 blocks · 3 min 0 s
    tokens: 300 in · 60 out · 9,000 read from cache
    not shown: 1 hidden thought (`--full` shows them)
    --- stderr
    ");
}

#[test]
fn without_subagents() {
    assert_snapshot!(notes().run(&["view", "5e55", "--no-subagents"]), @"
    exit 0
    --- stdout
    Count the notes
    session 5e551011-aaaa-4000-8000-000000000001
    2025-03-01 10:00

    You · 10:00
      How long are my notes?
      Please count **lines** and words.

    Assistant · model-large-1 · 10:01
      ✻ thinking: The person wants two numbers. I can count lines myself and let so…

      I will count the lines, and have the words counted.

      ● Bash  wc -l notes.txt  ✓ 3 notes.txt

      ● Agent  counter: Count words  ✓ 2.1 s · There are **12** words.

      ● Read  …/long/way/to/the/folder/of/notes/missing.txt  ✗ File does not exist.

      ## Result

      Your notes have:

      • 3 lines
      • 12 words, as `wc` counts them

      file       lines  words
      ─────────  ─────  ─────
      notes.txt      3     12

          wc -lw notes.txt

      See the manual (https://example.com/wc).

    ────────────────────────────────────────────────────────────────────────────────
    17 blocks · 2 subagents · 10 min 0 s · $0.0123
    tokens: 1,100 in · 220 out · 33,000 read from cache
    not shown: 1 hidden thought (`--full` shows them)
    --- stderr
    ");
}

#[test]
fn rewound_blocks_are_shown_and_marked() {
    let again = json!({"role": "user", "content": "No, a song"});
    let transcript = Transcript::new("s")
        .prompt("Hello")
        .says("Hi.")
        .prompt("Write a poem")
        .thinks("Something with roses.")
        .says("Roses are red.")
        .line("user", json!({"parentUuid": "s-main-1", "message": again}))
        .says("La la la.");
    assert_snapshot!(view(&transcript, &[]), @"
    exit 0
    --- stdout
    session s
    2025-03-01 10:00

    You · 10:00
      Hello

    Assistant · model-large-1 · 10:01
      Hi.

    ┊ no longer in the context: rewound, edited or compacted
    ┊
    ┊ You · 10:02
    ┊   Write a poem
    ┊
    ┊ Assistant · model-large-1 · 10:03
    ┊   ✻ thinking: Something with roses.
    ┊
    ┊   Roses are red.

    You · 10:05
      No, a song

    Assistant · model-large-1 · 10:06
      La la la.

    ────────────────────────────────────────────────────────────────────────────────
    7 blocks · 6 min 0 s
    tokens: 400 in · 80 out · 12,000 read from cache
    --- stderr
    ");
}

#[test]
fn interrupted_failed_and_unanswered_calls_are_marked() {
    let transcript = Transcript::new("s")
        .prompt("Run it")
        .calls("c1", "Bash", json!({"command": "sleep 60"}))
        .prompt(json!([{"type": "text", "text": "[Request interrupted by user]"}]))
        .line("assistant", json!({
            "isApiErrorMessage": true,
            "error": "rate_limit",
            "message": {"id": "m9", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "Too many requests"}]},
        }))
        .line("from-the-future", json!({"subtype": "new"}))
        .gives("elsewhere", "who asked?");
    assert_snapshot!(view(&transcript, &[]), @"
    exit 0
    --- stdout
    session s
    2025-03-01 10:00

    You · 10:00
      Run it

    Assistant · 10:01
      ● Bash  sleep 60  ✗ interrupted
      ⚠ request interrupted by user

      ✗ Too many requests

      ? unknown record: from-the-future/new
      ● result  of a missing call  ✓ who asked?

    ────────────────────────────────────────────────────────────────────────────────
    6 blocks · 5 min 0 s
    tokens: 100 in · 20 out · 3,000 read from cache
    --- stderr
    ");
}

#[test]
fn an_image_shows_its_size() {
    let data = "A".repeat(16_000);
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
    let transcript = Transcript::new("s")
        .prompt(json!([{"type": "text", "text": "What is this?"}, image]))
        .calls("c1", "Read", json!({"file_path": "/tmp/cat.png"}))
        .gives("c1", json!([image]));
    assert_snapshot!(view(&transcript, &[]), @"
    exit 0
    --- stdout
    session s
    2025-03-01 10:00

    You · 10:00
      What is this?
      [image png, 12 KB]

    Assistant · 10:01
      ● Read  /tmp/cat.png  ✓ [image png, 12 KB]

    ────────────────────────────────────────────────────────────────────────────────
    3 blocks · 2 min 0 s
    tokens: 100 in · 20 out · 3,000 read from cache
    --- stderr
    ");
}

#[test]
fn a_question_is_shown_with_its_answer() {
    let env = TestEnv::with_events(
        [
            r#"{"type":"permission:requested","payload":{"requestId":"r1","question":"May Bash be used?"}}"#,
            r#"{"type":"permission:resolved","payload":{"requestId":"r1","answer":"only this once"}}"#,
            r#"{"type":"permission:requested","payload":{"requestId":"r2","question":"And now?"}}"#,
        ]
        .join("\n"),
    );
    assert_snapshot!(env.run(&["view", "events.jsonl"]), @"
    exit 0
    --- stdout
      ? May Bash be used? → only this once
      ? And now? → waits for an answer

    ────────────────────────────────────────────────────────────────────────────────
    2 blocks
    --- stderr
    ");
}

#[test]
fn json_is_the_state_on_one_line() {
    let shown = notes().run(&["view", "5e55", "--json"]);
    let lines: Vec<_> = shown.lines().collect();
    let state: serde_json::Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!((lines.len(), state["subagents"].as_array().unwrap().len()), (4, 2));
}

#[test]
fn a_stream_is_shown_from_standard_input() {
    let env = TestEnv::with_events(
        [
            r#"{"type":"system","subtype":"init","session_id":"s1","model":"model-large-1","cwd":"/home/somebody/p"}"#,
            r#"{"type":"assistant","session_id":"s1","uuid":"u1","message":{"id":"m1","role":"assistant","model":"model-large-1","content":[{"type":"text","text":"Hello"}],"usage":{"input_tokens":5,"output_tokens":1}}}"#,
            r#"{"type":"result","subtype":"success","session_id":"s1","uuid":"u2","total_cost_usd":0.5}"#,
        ]
        .join("\n"),
    );
    assert_snapshot!(env.run_piped(&["view", "-"]), @"
    exit 0
    --- stdout
    session s1
    /home/somebody/p

    Assistant · model-large-1
      Hello

    ────────────────────────────────────────────────────────────────────────────────
    1 block · $0.5000
    tokens: 5 in · 1 out
    --- stderr
    ");
}

#[test]
fn a_transcript_is_shown_from_standard_input_too() {
    let env = TestEnv::with_events(Transcript::new("s").prompt("Hello").says("Hi.").text());
    assert_snapshot!(env.run_piped(&["view", "-"]), @"
    exit 0
    --- stdout
    session s
    2025-03-01 10:00

    You · 10:00
      Hello

    Assistant · model-large-1 · 10:01
      Hi.

    ────────────────────────────────────────────────────────────────────────────────
    2 blocks · 1 min 0 s
    tokens: 100 in · 20 out · 3,000 read from cache
    --- stderr
    ");
}

#[test]
fn a_folder_with_one_session_is_that_session() {
    let env = notes();
    let by_id = env.run(&["view", "5e551011-aaaa-4000-8000-000000000001"]);
    for path in ["claude", "claude/projects", "claude/projects/-home-somebody-notes"] {
        assert_eq!(env.run(&["view", path]), by_id, "{path}");
    }
}

#[test]
fn an_ambiguous_name_is_an_error() {
    let env = TestEnv::new();
    for session in ["abc-1", "abc-2", "abd-1"] {
        Transcript::new(session).prompt("Hello").keep(&env, "p");
    }
    assert_snapshot!(env.run(&["view", "abc"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `abc` matches 2 sessions: `abc-1`, `abc-2`
    hint: use a longer prefix
    ");
    assert_snapshot!(env.run(&["view", "claude"]), @"
    exit 2
    --- stdout
    --- stderr
    error: there are 3 sessions in `claude`: `abc-1`, `abc-2`, `abd-1`
    hint: give the path of one of their files
    ");
}

#[test]
fn an_exact_id_is_preferred_to_a_prefix() {
    let env = TestEnv::new();
    for session in ["abc", "abc-2"] {
        Transcript::new(session).prompt(session).keep(&env, "p");
    }
    assert!(env.run(&["view", "abc"]).contains("session abc\n"));
}

#[test]
fn an_unknown_name_is_an_error() {
    let env = notes();
    let folder = env.path("claude").display().to_string();
    let home = env.path("").display().to_string();
    let hidden = |shown: String| shown.replace(&folder, "<claude>").replace(&home, "<home>/");
    assert_snapshot!(hidden(env.run(&["view", "beef"])), @"
    exit 2
    --- stdout
    --- stderr
    error: session `beef` is not in `<home>/.local/share/opencode`, `<home>/.codex` or `<claude>/projects`
    hint: `threadfold list` shows the sessions; the path of a session's file works as well
    ");
    assert_snapshot!(hidden(env.run(&["view", "missing.jsonl"])), @"
    exit 2
    --- stdout
    --- stderr
    error: cannot read `missing.jsonl`
    cause: No such file or directory (os error 2)
    hint: check that it exists and can be read
    ");
    assert_snapshot!(hidden(env.run(&["view", ""])), @"
    exit 2
    --- stdout
    --- stderr
    error: session `` is not in `<home>/.local/share/opencode`, `<home>/.codex` or `<claude>/projects`
    hint: `threadfold list` shows the sessions; the path of a session's file works as well
    ");
}

#[test]
fn a_name_never_leads_out_of_the_folder() {
    let env = notes();
    env.write("claude/secret.jsonl", Transcript::new("secret").prompt("hidden").text());
    // A folder of its own, because `..` is read as what it says: the folder above.
    env.write("above/inside/empty.txt", "");
    for name in ["../secret", "..\\secret", "%2e%2e%2fsecret", ".."] {
        let mut command = env.command(&["view", name]);
        let shown = seen(&command.current_dir(env.path("above/inside")).output().unwrap());
        assert!(!shown.contains("hidden"), "{name}: {shown}");
    }
}

#[test]
fn every_line_fits_any_width() {
    let env = notes();
    for width in [20, 33, 80, 160] {
        let shown = env.run(&["view", "5e55", "--full", "--width", &width.to_string()]);
        let drawn = shown.lines().skip(2).take_while(|line| !line.starts_with("---"));
        drawn.for_each(|line| assert!(line.chars().count() <= width, "{width}: {line}"));
    }
}

#[test]
fn a_closed_reader_is_not_an_error() {
    let transcript = Transcript::new("s").prompt("line\n".repeat(50_000));
    let env = TestEnv::with_events(transcript.text());
    let mut child = env
        .command(&["view", "-"])
        .stdin(File::open(env.path("events.jsonl")).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(seen(&output), "exit 0\n--- stdout\n--- stderr\n");
}

#[test]
fn an_input_without_a_session_is_an_error() {
    let env = TestEnv::with_events("");
    assert_snapshot!(env.run_piped(&["view", "-"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `stdin` has no complete record yet to detect its format from
    hint: try again when its first line is complete, or set the format with `--from`
    ");
    assert!(env.run(&["view", "events.jsonl", "--json"]).starts_with("exit 2"));
}
