//! `threadfold fold`: options and errors.

use insta::assert_snapshot;

use crate::claude::keep_notes_session;
use crate::env::TestEnv;

const START: &str = r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"assistant_text","status":"pending","content":"Hel"}}}"#;
const MORE: &str = r#"{"type":"block:delta","payload":{"blockId":"a","delta":"lo"}}"#;
const LOST: &str = r#"{"type":"block:delta","payload":{"blockId":"z","delta":"?"}}"#;
const IDLE: &str = r#"{"type":"session:idle"}"#;
const THOUGHT: &str = r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"thinking","status":"complete","content":"Hm"}}}"#;
const BAD_STATUS: &str = r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"thinking","status":"done","content":"Hm"}}}"#;

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn fold(events: &[&str], options: &[&str]) -> String {
    let arguments = [&["fold", "events.jsonl"], options].concat();
    TestEnv::with_events(lines(events)).run(&arguments)
}

#[test]
fn the_state_is_one_line_of_json() {
    assert_snapshot!(fold(&[START, MORE, IDLE], &[]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"a","type":"assistant_text","status":"complete","conversationId":"main","interrupted":true,"content":"Hello"}],"subagents":[]}
    --- stderr
    "#);
}

#[test]
fn pretty_is_indented() {
    assert_snapshot!(fold(&[START, MORE], &["--pretty"]), @r#"
    exit 0
    --- stdout
    {
      "blocks": [
        {
          "id": "a",
          "type": "assistant_text",
          "status": "pending",
          "conversationId": "main",
          "content": "Hello"
        }
      ],
      "subagents": []
    }
    --- stderr
    "#);
}

#[test]
fn no_events_at_all_are_an_empty_state() {
    assert_snapshot!(fold(&[], &["--from", "events"]), @r#"
    exit 0
    --- stdout
    {"blocks":[],"subagents":[]}
    --- stderr
    `events.jsonl` is read as Threadfold's own events, but contains nothing to show: `--from FORMAT` reads it as another format
    "#);
}

#[test]
fn at_is_the_state_after_so_many_events() {
    assert_snapshot!(fold(&[START, "", MORE, "nonsense"], &["--at", "2"]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"a","type":"assistant_text","status":"pending","conversationId":"main","content":"Hello"}],"subagents":[]}
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 4: not an event: expected one JSON object, found text that is not JSON (expected ident at column 2)
    "#);
    assert_snapshot!(fold(&[START], &["--at", "0"]), @r#"
    exit 0
    --- stdout
    {"blocks":[],"subagents":[]}
    --- stderr
    "#);
}

#[test]
fn at_beyond_the_end_reports_the_number_of_events() {
    assert_snapshot!(fold(&[START, MORE], &["--at", "3"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `events.jsonl` has 2 events, and `--at` asks for 3
    hint: `--at 2` is the state after all of them
    ");
    assert_snapshot!(fold(&[], &["--from", "events", "--at", "1", "--hash"]), @"
    exit 2
    --- stdout
    --- stderr
    `events.jsonl` is read as Threadfold's own events, but contains nothing to show: `--from FORMAT` reads it as another format
    error: `events.jsonl` has no events, and `--at` asks for 1
    hint: `--at 0` is the state after all of them
    ");
}

#[test]
fn changes_are_a_line_a_step() {
    assert_snapshot!(fold(&[START, MORE, LOST, IDLE, IDLE, THOUGHT], &["--changes"]), @r#"
    exit 0
    --- stdout
    {"step":1,"type":"block:upsert","outcome":"applied","changes":[{"type":"block:inserted","conversationId":"main","after":null,"block":{"id":"a","type":"assistant_text","status":"pending","conversationId":"main","content":"Hel"}}]}
    {"step":2,"type":"block:delta","outcome":"applied","changes":[{"type":"text:appended","conversationId":"main","blockId":"a","field":"content","text":"lo"}]}
    {"step":3,"type":"block:delta","outcome":"ignored","anomaly":"block `z` does not exist","changes":[]}
    {"step":4,"type":"session:idle","outcome":"applied","changes":[{"type":"block:marked","conversationId":"main","blockId":"a","status":"complete","interrupted":true,"inactive":false}]}
    {"step":5,"type":"session:idle","outcome":"unchanged","changes":[]}
    {"step":6,"type":"block:upsert","outcome":"noted","anomaly":"block `a` changed its type from `assistant_text` to `thinking`","changes":[{"type":"block:replaced","conversationId":"main","block":{"id":"a","type":"thinking","status":"complete","conversationId":"main","content":"Hm"}}]}
    --- stderr
    "#);
}

#[test]
fn a_bad_line_does_not_stop_the_changes() {
    assert_snapshot!(fold(&[IDLE, "{", IDLE], &["--changes"]), @r#"
    exit 0
    --- stdout
    {"step":1,"type":"session:idle","outcome":"unchanged","changes":[]}
    {"step":2,"type":"log","outcome":"unchanged","changes":[]}
    {"step":3,"type":"block:upsert","outcome":"applied","changes":[{"type":"block:inserted","conversationId":"main","after":null,"block":{"id":"line:events:2:1","type":"unknown","status":"complete","conversationId":"main","record":"{"}}]}
    {"step":4,"type":"session:idle","outcome":"unchanged","changes":[]}
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 2: not an event: expected one JSON object, found text that is not JSON (EOF while parsing an object at column 1)
    "#);
}

#[test]
fn anomalies_are_reported_with_their_lines() {
    assert_snapshot!(
        fold(&[START, "", LOST, THOUGHT, r#"{"type":"new:thing"}"#], &["--anomalies"]),
        @"
        exit 0
        --- stdout
        line 3: block:delta ignored: block `z` does not exist
        line 4: block:upsert noted: block `a` changed its type from `assistant_text` to `thinking`
        line 5: new:thing ignored: unknown event type `new:thing`
        --- stderr
        3 anomalies in 4 events
        "
    );
}

#[test]
fn without_anomalies_there_is_only_the_total() {
    assert_snapshot!(fold(&[START], &["--anomalies"]), @"
    exit 0
    --- stdout
    --- stderr
    no anomalies in 1 event
    ");
}

#[test]
fn the_hash_is_that_of_the_state() {
    assert_snapshot!(fold(&[], &["--from", "events", "--hash"]), @"
    exit 0
    --- stdout
    6bcb0a0a610192551ece1021b3458bc1651b9e6c8b5f526af64c336944e275e6
    --- stderr
    `events.jsonl` is read as Threadfold's own events, but contains nothing to show: `--from FORMAT` reads it as another format
    ");
    let grown = r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"assistant_text","status":"pending","content":"Hello"}}}"#;
    assert_eq!(fold(&[START, MORE], &["--hash"]), fold(&[grown], &["--hash"]));
}

#[test]
fn only_one_thing_is_printed() {
    assert_snapshot!(fold(&[START], &["--hash", "--changes"]), @"
    exit 2
    --- stdout
    --- stderr
    error: the argument '--hash' cannot be used with '--changes'

    Usage: threadfold fold --hash <FILE>

    For more information, try '--help'.
    ");
}

#[test]
fn a_line_that_cannot_be_parsed_becomes_a_block_and_is_reported() {
    assert_snapshot!(fold(&[START, "", BAD_STATUS, MORE], &[]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"a","type":"assistant_text","status":"pending","conversationId":"main","content":"Hello"},{"id":"line:events:3:1","type":"unknown","status":"complete","conversationId":"main","record":{"type":"block:upsert","payload":{"block":{"id":"a","type":"thinking","status":"done","content":"Hm"}}}}],"subagents":[]}
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 3: not an event: `payload.block.status`: expected a status: `pending`, `running`, `complete`, `success` or `error`, found `"done"`
    "#);
    assert_snapshot!(fold(&[START, "not json"], &["--pretty"]), @r#"
    exit 0
    --- stdout
    {
      "blocks": [
        {
          "id": "a",
          "type": "assistant_text",
          "status": "pending",
          "conversationId": "main",
          "content": "Hel"
        },
        {
          "id": "line:events:2:1",
          "type": "unknown",
          "status": "complete",
          "conversationId": "main",
          "record": "not json"
        }
      ],
      "subagents": []
    }
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 2: not an event: expected one JSON object, found text that is not JSON (expected ident at column 2)
    "#);
    assert_snapshot!(fold(&["[1]"], &["--hash"]), @"
    exit 0
    --- stdout
    64f1c33bce5cbc7eb0dab7ae962481c449b571770ace6c19509c70cec38cb29d
    --- stderr
    `events.jsonl` is not in a format of a known agent: it is read line by line
    `events.jsonl` is of an unknown agent, and its record was not recognized: `--from FORMAT` reads it as another format
    ");
}

#[test]
fn a_truncated_last_line_is_a_bad_line() {
    let env = TestEnv::with_events(format!("{START}\n{}", &MORE[..40]));
    assert_snapshot!(env.run(&["fold", "events.jsonl"]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"a","type":"assistant_text","status":"pending","conversationId":"main","content":"Hel"},{"id":"line:events:2:1","type":"unknown","status":"complete","conversationId":"main","record":"{\"type\":\"block:delta\",\"payload\":{\"blockI"}],"subagents":[]}
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 2: not an event: expected one JSON object, found text that is not JSON (EOF while parsing a string at column 40)
    "#);
}

#[test]
fn bad_utf_8_is_a_bad_line() {
    let mut bytes = lines(&[START]).into_bytes();
    bytes.extend(b"{\"type\":\"\xff\xfe\"}\n");
    let env = TestEnv::with_events(bytes);
    assert_snapshot!(env.run(&["fold", "events.jsonl"]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"a","type":"assistant_text","status":"pending","conversationId":"main","content":"Hel"},{"id":"line:events:2:1","type":"unknown","status":"complete","conversationId":"main","record":"{\"type\":\"��\"}"}],"subagents":[]}
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 2: not UTF-8
    "#);
    assert_snapshot!(env.run(&["fold", "--hash", "events.jsonl"]), @"
    exit 0
    --- stdout
    3bb71a64bef0ffd6f87581dfa20344a54a6d2afb219c39b0ac238ac249ab1824
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 2: not UTF-8
    ");
}

#[test]
fn only_the_first_of_many_bad_lines_are_listed() {
    assert_snapshot!(fold(&["1"; 12], &[]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"line:main:1:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:2:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:3:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:4:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:5:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:6:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:7:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:8:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:9:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:10:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:11:0","type":"unknown","status":"complete","conversationId":"main","record":1},{"id":"line:main:12:0","type":"unknown","status":"complete","conversationId":"main","record":1}],"subagents":[]}
    --- stderr
    `events.jsonl` is not in a format of a known agent: it is read line by line
    `events.jsonl` is of an unknown agent, and 12 of 12 records were not recognized: `--from FORMAT` reads it as another format
    "#);
}

#[test]
fn at_counts_events_and_not_lines() {
    assert_snapshot!(fold(&["1", START, "2", MORE, "3"], &["--at", "2"]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"line:events:1:1","type":"unknown","status":"complete","conversationId":"main","record":1}],"subagents":[]}
    --- stderr
    3 lines could not be parsed and are kept as blocks:
      line 1: not an event: expected an object, found `1`
      line 3: not an event: expected an object, found `2`
      line 5: not an event: expected an object, found `3`
    "#);
    assert_snapshot!(fold(&["1", START], &["--at", "2"]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"line:events:1:1","type":"unknown","status":"complete","conversationId":"main","record":1}],"subagents":[]}
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 1: not an event: expected an object, found `1`
    "#);
}

#[test]
fn crlf_a_byte_order_mark_and_blank_lines_are_accepted() {
    let env = TestEnv::with_events(format!("\u{feff}\r\n{START}\r\n   \r\n\n{MORE}"));
    assert_eq!(env.run(&["fold", "events.jsonl"]), fold(&[START, MORE], &[]));
}

#[test]
fn a_byte_order_mark_elsewhere_is_not() {
    assert_snapshot!(fold(&[START, &format!("\u{feff}{MORE}")], &[]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"a","type":"assistant_text","status":"pending","conversationId":"main","content":"Hel"},{"id":"line:events:2:1","type":"unknown","status":"complete","conversationId":"main","record":"\ufeff{\"type\":\"block:delta\",\"payload\":{\"blockId\":\"a\",\"delta\":\"lo\"}}"}],"subagents":[]}
    --- stderr
    1 line could not be parsed and is kept as a block:
      line 2: not an event: expected one JSON object, found text that is not JSON (expected value at column 1)
    "#);
}

#[test]
fn stdin_is_read_without_a_file_or_with_a_dash() {
    let env = TestEnv::with_events(lines(&[START, MORE]));
    let from_file = env.run(&["fold", "events.jsonl"]);
    assert_eq!(env.run_piped(&["fold"]), from_file);
    assert_eq!(env.run_piped(&["fold", "-"]), from_file);
    env.write("events.jsonl", "nonsense");
    assert_snapshot!(env.run_piped(&["fold"]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"line:main:1:0","type":"unknown","status":"complete","conversationId":"main","record":"nonsense"}],"subagents":[]}
    --- stderr
    standard input is not in a format of a known agent: it is read line by line
    standard input is of an unknown agent, and its record was not recognized: `--from FORMAT` reads it as another format
    "#);
}

#[test]
fn a_missing_file_is_named() {
    assert_snapshot!(TestEnv::new().run(&["fold", "missing.jsonl"]), @"
    exit 2
    --- stdout
    --- stderr
    error: cannot read `missing.jsonl`
    cause: No such file or directory (os error 2)
    hint: check that it exists and can be read
    ");
}

#[test]
fn a_folder_is_not_a_file() {
    assert_snapshot!(TestEnv::new().run(&["fold", "."]), @"
    exit 2
    --- stdout
    --- stderr
    error: there is no session in `.`
    hint: `threadfold list` shows the sessions on this machine
    ");
}

#[test]
fn control_characters_of_the_input_do_not_reach_the_terminal() {
    let kind = r#"{"type":"\u001b[31m\u009b2J\u202e\nx"}"#;
    assert_snapshot!(fold(&[kind], &["--from", "events", "--anomalies"]), @r"
    exit 0
    --- stdout
    line 1: \u{1b}[31m\u{9b}2J\u{202e}\nx ignored: unknown event type `\u{1b}[31m\u{9b}2J\u{202e}\nx`
    --- stderr
    `events.jsonl` is read as Threadfold's own events, but its record shows nothing: `--from FORMAT` reads it as another format
    1 anomaly in 1 event
    ");
    let raw = "{\"type\":\"log\",\"context\":{\"source\":{\"kind\":\"\u{7f}\u{9b}2J\u{202e}\"}}}";
    assert_snapshot!(fold(&[raw], &["--from", "events"]), @r#"
    exit 0
    --- stdout
    {"blocks":[{"id":"line:events:1:1","type":"unknown","status":"complete","conversationId":"main","record":{"type":"log","context":{"source":{"kind":"\u007f\u009b2J\u202e"}}}}],"subagents":[]}
    --- stderr
    `events.jsonl` is read as Threadfold's own events, but its record was not recognized: `--from FORMAT` reads it as another format
    1 line could not be parsed and is kept as a block:
      line 1: not an event: `context.source.kind`: expected a kind of source: `stream`, `transcript`, `server` or `loop`, found `"\u{7f}\u{9b}2J\u{202e}"`
    "#);
    assert_snapshot!(fold(&[raw, "\u{1b}[2J"], &["--hash"]), @"
    exit 0
    --- stdout
    83ea87598d2fa43ac400891ad08c6c4d6ab9aa52f2861db7ef7c5f01d934abea
    --- stderr
    `events.jsonl` is not in a format of a known agent: it is read line by line
    `events.jsonl` is of an unknown agent, and 2 of 2 records were not recognized: `--from FORMAT` reads it as another format
    ");
    assert_snapshot!(TestEnv::new().run(&["fold", "\u{1b}[31m.jsonl"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: cannot read `\u{1b}[31m.jsonl`
    cause: No such file or directory (os error 2)
    hint: check that it exists and can be read
    ");
}

#[test]
fn deep_nesting_and_long_lines_are_folded() {
    let depth = 100_000;
    let input = format!("{}1e400{}", "[".repeat(depth), "]".repeat(depth));
    let deep = format!(
        r#"{{"type":"block:upsert","payload":{{"block":{{"id":"c","type":"tool_use","status":"pending","toolName":"T","toolUseId":"c","input":{input}}}}}}}"#
    );
    let seen = fold(&[&deep], &[]);
    assert!(seen.contains(&input) && seen.starts_with("exit 0\n"), "{}", &seen[..200]);
    assert!(fold(&[&deep], &["--pretty"]).starts_with("exit 0\n"));
    assert!(fold(&[&deep], &["--changes"]).starts_with("exit 0\n"));
    assert!(fold(&[&deep], &["--hash"]).starts_with("exit 0\n"));
}

#[test]
fn version_is_printed() {
    assert_snapshot!(TestEnv::new().run(&["--version"]), @"
    exit 0
    --- stdout
    threadfold 0.1.0
    --- stderr
    ");
}

#[test]
fn help_lists_commands_and_options() {
    assert_snapshot!(TestEnv::new().run(&["--help"]), @"
    exit 0
    --- stdout
    Show and store sessions of AI agents, and run agent loops that survive crashes

    Usage: threadfold <COMMAND>

    Commands:
      list     List the sessions of all agents on this machine and in the store, newest first
      view     Show a session's conversation
      import   Import sessions into the store, which keeps them after the agent deletes them
      log      Show the records of a stored session, one per line
      export   Export a session from the store: its original files, its events, its state, or Markdown
      restore  Restore a session's files to where the agent reads them
      rm       Remove sessions from the store, with all their records
      reindex  Rebuild snapshots and summaries with the current converters
      doctor   Check the store for corruption
      gc       Free space used by data that no session references
      backup   Copy the store to a file, as a consistent snapshot
      copy     Copy sessions from one store to another
      fold     Fold a session and print the resulting state
      verify   Verify that a stream and a transcript fold to the same state
      watch    Watch a session live
      serve    Serve all sessions of this machine to programs and browsers, live
      push     Send an agent's stream on standard input to a server
      run      Run an agent loop that can be killed and resumed
      resume   Resume a run that stopped, was killed, or needs a decision
      runs     List unfinished runs and what each is waiting for
      help     Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
    --- stderr
    ");
    assert_snapshot!(TestEnv::new().run(&["fold", "--help"]), @"
    exit 0
    --- stdout
    Fold a session and print the resulting state

    Reads what an agent emits or stores, or Threadfold's own events, and prints the state as one line of
    JSON. The format is detected, and files that belong to the session are included. A line that cannot
    be parsed becomes an `unknown` block and is reported.

    Usage: threadfold fold [OPTIONS] [FILE]

    Arguments:
      [FILE]
              Read this file or folder; default, or `-`: standard input

    Options:
          --from <FORMAT>
              Read the input in this format instead of detecting it

              Possible values:
              - events:            Threadfold's own events, one JSON object per line
              - opencode-events:   Events of OpenCode's bus (`/event`, `/global/event`), as server-sent
                events or JSON
              - opencode-export:   Output of `opencode export`, or messages of OpenCode's API
              - opencode-db:       OpenCode's database (SQLite), opened read-only, even while OpenCode
                runs
              - opencode-storage:  OpenCode's `storage` folder (versions up to 1.1)
              - codex-exec:        Stream of `codex exec --json`
              - codex-app-server:  Messages of `codex app-server` (JSON-RPC, one per line)
              - codex-rollout:     Session file of Codex (`rollout-*.jsonl`)
              - claude-stream:     Stream of Claude Code or the Agent SDK (`--output-format
                stream-json`)
              - claude-transcript: Session file of Claude Code (JSONL)
              - other:             Any other text: every line is stored and shown unchanged

          --session <ID>
              Read this session, if the input contains several

          --at <N>
              Stop after N events

          --changes
              Print the changes of each event, one JSON object per line

          --anomalies
              Print anomalous events, one per line, and their count on standard error

          --hash
              Print the hash of the state

          --unknown
              Print the kinds of unknown records, and the number of each

          --pretty
              Print the state indented

      -h, --help
              Print help (see a summary with '-h')
    --- stderr
    ");
}

#[test]
fn the_example_folds_without_anomalies() {
    let example = include_str!("../../../../examples/first-session.jsonl");
    let env = TestEnv::with_events(example);
    assert_snapshot!(env.run(&["fold", "events.jsonl", "--anomalies"]), @"
    exit 0
    --- stdout
    --- stderr
    no anomalies in 18 events
    ");
    assert_snapshot!(env.run(&["fold", "events.jsonl", "--hash"]), @"
    exit 0
    --- stdout
    ff4c88a97a44a0ad2661e0306d298b2eebec549828e96cc743e4ec4d7c45ed1a
    --- stderr
    ");
    assert_snapshot!(env.run(&["fold", "events.jsonl", "--pretty"]), @r#"
    exit 0
    --- stdout
    {
      "blocks": [
        {
          "id": "u1",
          "type": "user_message",
          "status": "complete",
          "conversationId": "main",
          "content": "How many tests are there, and do they pass?"
        },
        {
          "id": "m1/0",
          "type": "thinking",
          "status": "complete",
          "conversationId": "main",
          "content": "Count the files first.",
          "signature": "c2lnbmVk"
        },
        {
          "id": "m1/1",
          "type": "assistant_text",
          "status": "complete",
          "conversationId": "main",
          "content": "I will look.",
          "model": "claude-example"
        },
        {
          "id": "call_1",
          "type": "tool_use",
          "status": "complete",
          "conversationId": "main",
          "toolName": "Bash",
          "toolUseId": "call_1",
          "input": {"command":"ls tests | wc -l"}
        },
        {
          "id": "permission:q1",
          "type": "permission",
          "status": "complete",
          "conversationId": "main",
          "requestId": "q1",
          "toolUseId": "call_1",
          "question": "Run `ls tests | wc -l`?",
          "options": ["yes","no"],
          "answer": "yes"
        },
        {
          "id": "result:call_1",
          "type": "tool_result",
          "status": "complete",
          "conversationId": "main",
          "toolUseId": "call_1",
          "output": "3\n",
          "durationMs": 12
        },
        {
          "id": "call_2",
          "type": "subagent",
          "timestamp": "2026-01-15T09:30:12Z",
          "status": "success",
          "conversationId": "main",
          "toolUseId": "call_2",
          "agentId": "a7",
          "name": "tester",
          "description": "Run the tests",
          "input": "Run all tests and tell which fail.",
          "output": "All 3 pass.",
          "durationMs": 4100,
          "metadata": {
            "toolName": "Task",
            "input": {"description":"Run the tests","prompt":"Run all tests and tell which fail."}
          }
        },
        {
          "id": "m2/0",
          "type": "assistant_text",
          "status": "complete",
          "conversationId": "main",
          "content": "There are 3 tests, and all pass."
        }
      ],
      "subagents": [
        {
          "toolUseId": "call_2",
          "agentId": "a7",
          "status": "success",
          "prompt": "Run all tests and tell which fail.",
          "output": "All 3 pass.",
          "durationMs": 4100,
          "blocks": [
            {
              "id": "call_3",
              "type": "tool_use",
              "status": "complete",
              "conversationId": "a7",
              "toolName": "Bash",
              "toolUseId": "call_3",
              "input": {"command":"cargo test"}
            },
            {
              "id": "result:call_3",
              "type": "tool_result",
              "status": "complete",
              "conversationId": "a7",
              "toolUseId": "call_3",
              "output": "3 passed"
            },
            {
              "id": "m3/0",
              "type": "assistant_text",
              "status": "complete",
              "conversationId": "a7",
              "content": "All 3 pass."
            }
          ]
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn subagent_files_out_of_reach_of_stdin_are_reported() {
    let env = TestEnv::new();
    keep_notes_session(&env);
    let main = "claude/projects/-home-somebody-notes/5e551011-aaaa-4000-8000-000000000001.jsonl";
    env.write("events.jsonl", std::fs::read(env.path(main)).unwrap());
    assert_snapshot!(env.run_piped(&["fold", "-", "--hash"]), @"
    exit 0
    --- stdout
    008837bb19c18f85d7a383a7c3537565c75ef4d08492a02573c89cc90ebb9a0d
    --- stderr
    standard input does not include the files of 1 subagent: use the path of the transcript
    ");
    let whole = env.run(&["fold", main, "--hash"]);
    assert!(whole.ends_with("--- stderr\n"), "{whole}");
}

#[test]
fn repeated_history_is_reported_as_that_and_not_as_a_line_that_could_not_be_parsed() {
    let env = TestEnv::new();
    let told = |first: &str, second: &str| {
        format!(
            concat!(
                r#"{{"type":"user","uuid":"{0}","parentUuid":null,"sessionId":"s1","message":{{"role":"user","content":"do it"}}}}"#,
                "\n",
                r#"{{"type":"assistant","uuid":"{1}","parentUuid":"{0}","sessionId":"s1","message":{{"id":"m1","role":"assistant","content":[{{"type":"text","text":"Done."}}]}}}}"#,
                "\n",
            ),
            first, second
        )
    };
    env.write("s1.jsonl", told("u1", "a1") + &told("u2", "a2"));
    let seen = env.run(&["fold", "--hash", "s1.jsonl"]);
    let (_, notes) = seen.split_once("--- stderr\n").unwrap();
    assert_eq!(
        notes,
        "1 line repeats history that was read before:\n  line 4: `m1:0` was read before: repeated \
         history keeps its first place\n"
    );
}
