//! `threadfold export`: every format; never writes outside the target.

use std::fs;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::{Value, json};
use threadfold_core::SessionId;
use threadfold_engine::{Options, Session, holder};
use threadfold_fold::{Agent, Record, RecordKind, SourceRole, SourceSpec};
use threadfold_sqlite::SqliteStore;

use crate::claude::{Transcript, keep_notes_session};
use crate::env::{TestEnv, seen};
use crate::import::files_below;

const NOTES: &str = "5e551011-aaaa-4000-8000-000000000001";

fn notes() -> TestEnv {
    let env = TestEnv::new();
    keep_notes_session(&env);
    env.done(&["import"]);
    env
}

/// Makes a store whose session has sources of these names, as only an attacker would.
pub(crate) fn hostile_store(path: &Path, session: &str, sources: &[(&str, Option<&str>)]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = std::sync::Arc::new(SqliteStore::open(path).unwrap());
        let id = SessionId::from(session);
        let mut open = Session::open(store, &id, Options::new(holder("a test"))).await.unwrap();
        for (name, place) in sources {
            let mut spec =
                SourceSpec::new(Agent::from_name("claude").unwrap(), SourceRole::Main, *name);
            spec.path = place.map(str::to_owned);
            let source = open.source(&spec).await.unwrap();
            let (kind, bytes) = (RecordKind::Line, "{}\n");
            open.accept(vec![Record::new(kind, source, 0, bytes)]).await.unwrap();
        }
        open.close().await.unwrap();
    });
}

#[test]
fn a_session_is_exported_as_markdown() {
    assert_snapshot!(notes().done(&["export", "5e55", "--format", "markdown"]), @r#"
    # Count the notes

    - session: 5e551011-aaaa-4000-8000-000000000001
    - model: model-large-1
    - started: 2025-03-01T10:00:00.000Z
    - ended: 2025-03-01T10:10:00.000Z

    **You** · 2025-03-01T10:00:00.000Z

    > How long are my notes?
    > Please count **lines** and words.

    <details><summary>Thinking</summary>

    ```text
    The person wants two numbers. I can count lines myself and let somebody else count the words.
    ```

    </details>

    **Assistant** · 2025-03-01T10:02:00.000Z

    > I will count the lines, and have the words counted.

    <details><summary>Bash ✓ wc -l notes.txt</summary>

    ```text
    {"command":"wc -l notes.txt","description":"Count lines"}
    ```

    ```text
    3 notes.txt
    ```

    </details>

    **Agent** counter Count words

    > **Prompt** · 2025-03-01T10:00:00.000Z
    >
    > > Count the words in notes.txt.
    >
    > **Agent** reader Read the notes
    >
    > > **Prompt** · 2025-03-01T10:00:00.000Z
    > >
    > > > Read notes.txt aloud.
    > >
    > > **Assistant** · 2025-03-01T10:01:00.000Z
    > >
    > > > One two three.
    > >
    > <details><summary>Result</summary>
    >
    > ```text
    > One two three.
    > ```
    >
    > </details>
    >
    > <details><summary>Bash ✓ wc -w notes.txt</summary>
    >
    > ```text
    > {"command":"wc -w notes.txt"}
    > ```
    >
    > ```text
    > 12 notes.txt
    > (that was all)
    > ```
    >
    > </details>
    >
    > **Assistant** · 2025-03-01T10:05:00.000Z
    >
    > > There are **12** words.
    >
    <details><summary>Result</summary>

    ```text
    There are **12** words.
    ```

    </details>

    <details><summary>Read ✗ /home/somebody/a/rather/long/way/to/the/folder/of/notes/missing.txt</summary>

    ```text
    {"file_path":"/home/somebody/a/rather/long/way/to/the/folder/of/notes/missing.txt"}
    ```

    ```text
    <tool_use_error>File does not exist.</tool_use_error>
    ```

    </details>

    - Thinking

    **Assistant** · 2025-03-01T10:10:00.000Z

    > ## Result
    >
    > Your notes have:
    >
    > - **3** lines
    > - 12 words, as `wc` counts them
    >
    > | file | lines | words |
    > |---|--:|--:|
    > | notes.txt | 3 | 12 |
    >
    > ```sh
    > wc -lw notes.txt
    > ```
    > See [the manual](https://example.com/wc).
    "#);
}

#[test]
fn nothing_in_a_session_reaches_beyond_its_place_in_a_document() {
    let env = TestEnv::new();
    Transcript::new("s1")
        .note(json!({"type": "ai-title", "sessionId": "s1", "aiTitle": "<b>*x*</b> [y](z)"}))
        .prompt("<script>alert(1)</script>\n```\nnever closed")
        .says("</details>\n\n![pixel](http://example.com/p.png)\n\n# heading\n~~~~\nopen")
        .calls("call-1", "</summary><b>", json!({"command": "````\n</details>\n`````"}))
        .gives("call-1", "``````\n\u{1b}]0;title\u{7}<img src=x>")
        .says("after")
        .keep(&env, "p");
    env.done(&["import"]);
    let page = env.done(&["export", "s1", "--format", "markdown"]);
    assert_snapshot!(page, @r#"
    # &#60;b&#62;&#42;x&#42;&#60;/b&#62; &#91;y&#93;&#40;z&#41;

    - session: s1
    - model: model-large-1
    - started: 2025-03-01T10:00:00.000Z
    - ended: 2025-03-01T10:04:00.000Z

    **You** · 2025-03-01T10:00:00.000Z

    > &lt;script>alert(1)&lt;/script>
    > ```
    > never closed

    **Assistant** · 2025-03-01T10:01:00.000Z

    > &lt;/details>
    >
    > \![pixel](http://example.com/p.png)
    >
    > # heading
    > ~~~~
    > open

    <details><summary>&#60;/summary&#62;&#60;b&#62; ✓ &#96;&#96;&#96;&#96; &#60;/details&#62; &#96;&#96;&#96;&#96;&#96;</summary>

    ``````text
    {"command":"````\n</details>\n`````"}
    ``````

    ```````text
    ``````
    \u{1b}]0;title\u{7}<img src=x>
    ```````

    </details>

    **Assistant** · 2025-03-01T10:04:00.000Z

    > after
    "#);
}

#[test]
fn exported_state_and_events_equal_the_view() {
    let env = notes();
    let viewed: Value = serde_json::from_str(&env.done(&["view", NOTES, "--json"])).unwrap();
    let state: Value =
        serde_json::from_str(&env.done(&["export", NOTES, "--format", "json"])).unwrap();
    assert_eq!((&state["blocks"], &state["subagents"]), (&viewed["blocks"], &viewed["subagents"]));
    assert_eq!(state["metadata"]["title"], "Count the notes");
    env.done(&["export", NOTES, "--format", "events", "--output", "events.jsonl"]);
    let events: Value =
        serde_json::from_str(&env.done(&["view", "events.jsonl", "--json"])).unwrap();
    assert_eq!(events, viewed);
    let first = fs::read_to_string(env.path("events.jsonl")).unwrap();
    let first: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert!(first["context"]["seq"].is_u64(), "{first}");
}

#[test]
fn files_go_to_a_folder_and_one_file_anywhere() {
    let env = notes();
    assert_snapshot!(env.told(&["export", NOTES]), @"
    exit 2
    --- stdout
    --- stderr
    error: the session has more than one file, but stdout is only one
    hint: use `--output FOLDER`
    ");
    env.done(&["export", NOTES, "--output", "out"]);
    let project = env.path("claude/projects/-home-somebody-notes");
    assert_eq!(files_below(&env.path("out")), files_below(&project));
    let again = env.told(&["export", NOTES, "--output", "out"]);
    assert!(again.starts_with("exit 2") && again.contains("`--force`"), "{again}");
    env.done(&["export", NOTES, "--output", "out", "--force"]);
    assert_eq!(files_below(&env.path("out")), files_below(&project));
    for format in ["events", "json", "markdown"] {
        env.done(&["export", "--format", format, "--output", "all"]);
    }
    let all: Vec<_> = files_below(&env.path("all")).into_keys().collect();
    assert_eq!(all, ["events.jsonl", "json", "md"].map(|it| format!("{NOTES}.{it}")));
}

/// Returns a command that can write files of up to 64 KB.
#[cfg(unix)]
fn with_small_files(command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh"]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(command.get_current_dir().unwrap());
    limited
}

#[cfg(unix)]
#[test]
fn existing_output_is_replaced_atomically_and_pipes_and_links_are_preserved() {
    let env = TestEnv::new();
    Transcript::new("s1").prompt("Hello ".repeat(50_000)).keep(&env, "p");
    env.done(&["import"]);
    let original = fs::read(env.path("claude/projects/p/s1.jsonl")).unwrap();

    env.write("old.jsonl", "old");
    std::os::unix::fs::symlink(env.path("old.jsonl"), env.path("link.jsonl")).unwrap();
    let refused = env.told(&["export", "s1", "--output", "link.jsonl"]);
    assert!(refused.contains("`--force` replaces it"), "{refused}");
    env.done(&["export", "s1", "--output", "link.jsonl", "--force"]);
    assert!(fs::symlink_metadata(env.path("link.jsonl")).unwrap().is_symlink());
    assert_eq!(fs::read(env.path("old.jsonl")).unwrap(), original);

    std::os::unix::fs::symlink(env.path("nowhere"), env.path("dangling")).unwrap();
    let refused = env.told(&["export", "s1", "--output", "dangling", "--force"]);
    assert!(refused.contains("it is a broken link") && !refused.contains("`--force`"), "{refused}");

    let pipe = env.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let heard = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    env.done(&["export", "s1", "--output", "pipe", "--force"]);
    assert_eq!(heard.join().unwrap(), original);
    assert!(!fs::symlink_metadata(&pipe).unwrap().is_file(), "it is a pipe still");
    let refused = env.told(&["backup", "pipe", "--force"]);
    assert!(refused.contains("is not a file"), "{refused}");

    env.write("full.jsonl", "old");
    let failing = env.command(&["export", "s1", "--output", "full.jsonl", "--force"]);
    let failed = seen(&with_small_files(&failing).output().unwrap());
    assert!(failed.contains("`full.jsonl` cannot be written"), "{failed}");
    assert_eq!(fs::read_to_string(env.path("full.jsonl")).unwrap(), "old");
    let names: Vec<_> = fs::read_dir(env.path("")).unwrap().flatten().collect();
    assert!(names.iter().all(|it| !it.file_name().to_string_lossy().contains("unfinished")));
}

#[test]
fn the_readable_part_of_a_corrupt_session_is_salvaged() {
    let env = TestEnv::new();
    let mut transcript = Transcript::new("s1");
    for number in 0..400 {
        // Each is another, so that many groups hold them.
        let words: String = (0..200).map(|it| format!("{:x} ", number * 7919 + it * it)).collect();
        transcript = transcript.prompt(words);
    }
    transcript.keep(&env, "p");
    env.done(&["import"]);
    let original = fs::read_to_string(env.path("claude/projects/p/s1.jsonl")).unwrap();
    let store = env.path(".local/share/threadfold/store.db");
    let database = rusqlite::Connection::open(&store).unwrap();
    let groups: i64 =
        database.query_row("SELECT count(*) FROM groups", [], |it| it.get(0)).unwrap();
    assert!(groups > 1, "{groups} groups");
    database
        .execute("UPDATE groups SET meta = x'00' WHERE place = (SELECT min(place) FROM groups)", [])
        .unwrap();
    drop(database);

    assert!(env.told(&["export", "s1"]).starts_with("exit 2"));
    let told = env.told(&["export", "s1", "--salvage", "--output", "saved"]);
    assert!(told.starts_with("exit 1") && told.contains("cannot be read"), "{told}");
    let saved = files_below(&env.path("saved"));
    let text: String = saved.values().map(|it| String::from_utf8_lossy(it)).collect();
    let last = original.lines().next_back().unwrap();
    assert!(text.ends_with(&format!("{last}\n")), "the end is there");
    assert!(text.lines().all(|line| original.contains(line)), "and nothing else");
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let env = TestEnv::new();
    let names = [
        ("../escaped.jsonl", None),
        ("/tmp/../../escaped.jsonl", None),
        ("a/../../../escaped.jsonl", None),
        ("..", None),
        ("", None),
        ("dup", None),
        ("x\u{1b}[2J\n.jsonl", None),
    ];
    hostile_store(&env.path("hostile.db"), "../../outside\u{1b}", &names);
    env.done(&["export", "..", "--output", "in/out", "--store", "hostile.db"]);
    env.done(&["export", "--output", "in/all", "--store", "hostile.db"]);
    env.done(&["export", "--format", "json", "--output", "in/all", "--store", "hostile.db"]);
    let names: Vec<_> = files_below(&env.path("in")).into_keys().collect();
    assert_snapshot!(names.join("\n"), @"
    all/..%2F..%2Foutside%1B.json
    all/..%2F..%2Foutside%1B/%
    all/..%2F..%2Foutside%1B/%2E%2E.2
    all/..%2F..%2Foutside%1B/%2E%2E/escaped.jsonl
    all/..%2F..%2Foutside%1B/a/%2E%2E/%2E%2E/%2E%2E/escaped.jsonl
    all/..%2F..%2Foutside%1B/dup
    all/..%2F..%2Foutside%1B/tmp/%2E%2E/%2E%2E/escaped.jsonl
    all/..%2F..%2Foutside%1B/x%1B[2J%0A.jsonl
    out/%
    out/%2E%2E.2
    out/%2E%2E/escaped.jsonl
    out/a/%2E%2E/%2E%2E/%2E%2E/escaped.jsonl
    out/dup
    out/tmp/%2E%2E/%2E%2E/escaped.jsonl
    out/x%1B[2J%0A.jsonl
    ");
    let outside: Vec<_> = files_below(&env.path("")).into_keys().collect();
    assert!(
        outside.iter().all(|it| it.starts_with("in/") || it.starts_with("hostile.db")),
        "{outside:?}"
    );
}

#[cfg(unix)]
#[test]
fn links_in_the_folder_are_not_followed() {
    let env = TestEnv::new();
    hostile_store(&env.path("hostile.db"), "s1", &[("link/a.jsonl", None), ("b.jsonl", None)]);
    fs::create_dir_all(env.path("elsewhere")).unwrap();
    fs::create_dir_all(env.path("out")).unwrap();
    std::os::unix::fs::symlink(env.path("elsewhere"), env.path("out/link")).unwrap();
    let told = env.told(&["export", "s1", "--output", "out", "--store", "hostile.db"]);
    assert!(told.starts_with("exit 2") && told.contains("is a link"), "{told}");
    assert!(files_below(&env.path("elsewhere")).is_empty());
}
