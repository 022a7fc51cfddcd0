//! `threadfold import`: lossless, idempotent, and one bad session does not stop the others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use crate::claude::{Transcript, keep_notes_session};
use crate::env::TestEnv;

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data").join(name)
}

/// Returns what is below a folder: names and contents.
pub(crate) fn files_below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_recording_of_claude_code_is_exported_unchanged() {
    let env = TestEnv::new();
    let mut cases: Vec<_> =
        fs::read_dir(data("claude")).unwrap().map(|it| it.unwrap().path()).collect();
    cases.retain(|it| it.join("transcript").exists());
    assert!(cases.len() > 70);
    for case in cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let (store, out) = (format!("{name}.db"), format!("{name}.out"));
        let transcript = case.join("transcript");
        env.done(&["import", text(&transcript), "--store", &store]);
        env.done(&["export", "--output", &out, "--store", &store]);
        // Sessions lie in folders of their own there, and in those of their projects here.
        let out = files_below(&env.path(&out)).into_iter();
        let out: BTreeMap<_, _> =
            out.map(|(name, it)| (name.split_once('/').unwrap().1.to_owned(), it)).collect();
        let kept = files_below(&transcript).into_iter();
        let kept: BTreeMap<_, _> =
            kept.map(|(name, it)| (name.split_once('/').unwrap().1.to_owned(), it)).collect();
        assert_eq!(out.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>(), "{name}");
        assert!(out == kept, "{name}: the files are not the same");
    }
}

#[test]
fn every_hostile_file_is_exported_unchanged() {
    let env = TestEnv::new();
    let hostile = files_below(&data("hostile")).into_keys().map(|name| (data("hostile"), name));
    let crashes = files_below(&data("crashes")).into_keys().map(|name| (data("crashes"), name));
    for (number, (folder, name)) in hostile.chain(crashes).enumerate() {
        let path = folder.join(&name);
        let bytes = fs::read(&path).unwrap();
        for format in ["claude-transcript", "claude-stream", "opencode-events", "events"] {
            let store = format!("{number}-{format}.db");
            env.done(&["import", text(&path), "--from", format, "--store", &store]);
            let id = env.done(&["list", "--json", "--store", &store]);
            let id: serde_json::Value = serde_json::from_str(&id).unwrap();
            let export = ["export", id["id"].as_str().unwrap(), "--store", &store];
            let out = env.command(&export).output().unwrap();
            assert!(out.status.success() && out.stdout == bytes, "{name} as {format}");
            let viewed = env.run(&["view", id["id"].as_str().unwrap(), "--store", &store]);
            assert!(viewed.starts_with("exit 0"), "{name} as {format}: {viewed}");
        }
    }
}

#[test]
fn import_takes_all_sessions_of_all_agents_and_is_idempotent() {
    let env = TestEnv::new();
    keep_notes_session(&env);
    Transcript::new("other").prompt("Hello").says("Hi").keep(&env, "p");
    assert_snapshot!(env.told(&["import"]), @"
    exit 0
    --- stdout
    5e551011-aaaa-4000-8000-000000000001  new: 21 records, 9 KB
    other  new: 2 records, 521 B
    --- stderr
    2 sessions: 2 new or updated, 0 unchanged, 0 failed
    ");
    assert_snapshot!(env.told(&["import"]), @"
    exit 0
    --- stdout
    5e551011-aaaa-4000-8000-000000000001  unchanged
    other  unchanged
    --- stderr
    2 sessions: 0 new or updated, 2 unchanged, 0 failed
    ");
    assert_snapshot!(env.told(&["import", "other"]), @"
    exit 0
    --- stdout
    other  unchanged
    --- stderr
    ");
    assert_snapshot!(env.told(&["import", "5e55", "--json"]), @r#"
    exit 0
    --- stdout
    {"id":"5e551011-aaaa-4000-8000-000000000001","agent":"claude","path":"<home>/claude/projects/-home-somebody-notes/5e551011-aaaa-4000-8000-000000000001.jsonl","status":"unchanged","records":0,"bytes":0,"newParts":0}
    --- stderr
    "#);
}

#[test]
fn a_truncated_line_is_stored_and_replaced_by_the_complete_one() {
    let env = TestEnv::new();
    let whole = Transcript::new("s1").prompt("Hello").says("Hi").says("Bye").text();
    let torn = whole.len() - 40;
    env.write("claude/projects/p/s1.jsonl", &whole[..torn]);
    env.done(&["import"]);
    assert_eq!(env.done(&["export", "s1"]), whole[..torn]);
    assert_eq!(env.done(&["import", "s1"]), "s1  unchanged\n");
    env.write("claude/projects/p/s1.jsonl", &whole);
    assert_snapshot!(env.done(&["import", "s1"]), @"s1  grown: 1 record, 334 B");
    assert_eq!(env.done(&["export", "s1"]), whole);
    let kept = env.done(&["export", "s1", "--format", "json"]);
    assert_eq!(kept.matches("\"type\":\"assistant_text\"").count(), 2, "{kept}");
    assert!(!kept.contains("unknown"), "the torn line is gone: {kept}");
}

#[test]
fn a_rewritten_file_is_stored_beside_its_earlier_content() {
    let env = TestEnv::new();
    let first = Transcript::new("s1").prompt("Hello").says("Hi").text();
    let second = Transcript::new("s1").prompt("Something else").text();
    env.write("claude/projects/p/s1.jsonl", &first);
    env.done(&["import"]);
    env.write("claude/projects/p/s1.jsonl", &second);
    assert_snapshot!(env.done(&["import"]), @"s1  grown: 1 record, 182 B; a file was rewritten, and both versions are kept");
    assert_snapshot!(env.told(&["export", "s1", "--output", "out/"]), @"
    exit 0
    --- stdout
    --- stderr
    wrote `out/s1.jsonl.~1~`
    wrote `out/s1.jsonl`
    ");
    let files = files_below(&env.path("out"));
    assert_eq!(files["s1.jsonl"], second.as_bytes());
    assert_eq!(files["s1.jsonl.~1~"], first.as_bytes());
    let alone = env.run(&["export", "s1"]);
    assert!(alone.contains("rewritten 1 time;") && alone.contains("Something else"), "{alone}");
}

#[test]
fn an_unreadable_session_does_not_stop_the_others() {
    let env = TestEnv::new();
    Transcript::new("good").prompt("Hello").keep(&env, "p");
    fs::create_dir(env.path("claude/projects/p/bad.jsonl")).unwrap();
    env.write("notes.txt", "nothing of ours\n");
    assert_snapshot!(env.told(&["import"]), @"
    exit 2
    --- stdout
    good  new: 1 record, 177 B
    --- stderr
    skipped `<home>/claude/projects/p/bad.jsonl`: it is not a regular file
    2 sessions: 1 new or updated, 0 unchanged, 1 failed
    error: 1 session could not be imported
    hint: see the messages above; import again to retry only what is missing
    ");
    assert_snapshot!(env.told(&["import", "notes.txt", "missing.jsonl", "good"]), @"
    exit 2
    --- stdout
    other-a76b96e030b5  new: 1 record, 16 B
    good  unchanged
    --- stderr
    skipped `missing.jsonl`: No such file or directory (os error 2)
    `notes.txt` is in an unknown format: it is stored line by line
    3 sessions: 1 new or updated, 1 unchanged, 1 failed
    error: 1 session could not be imported
    hint: see the messages above; import again to retry only what is missing
    ");
    assert_snapshot!(env.told(&["import", "notes.txt"]), @"
    exit 0
    --- stdout
    other-a76b96e030b5  unchanged
    --- stderr
    `notes.txt` is in an unknown format: it is stored line by line
    ");
    assert_eq!(
        env.done(&["list", "--json"]).matches("\"store\"").count(),
        1,
        "the notes, and nothing of what is missing"
    );
    assert_snapshot!(env.told(&["import", "-"]), @"
    exit 2
    --- stdout
    --- stderr
    error: standard input cannot be imported
    hint: write it to a file and give that, or use `threadfold watch -`
    ");
}

#[test]
fn a_stream_and_a_transcript_of_one_session_are_one_session() {
    let env = TestEnv::new();
    let case = data("claude/text");
    let (stream, transcript) = (case.join("stream.jsonl"), case.join("transcript"));
    env.done(&["import", text(&stream)]);
    env.done(&["import", text(&transcript)]);
    let listed = env.done(&["list", "--json"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let id = "d7d94b1d-ba7f-52be-94f2-dd56d1b3389b";
    assert!(listed.contains(id), "{listed}");
    let merged = env.done(&["export", id, "--format", "events"]);
    env.write("merged.jsonl", merged);
    let kept = env.done(&["view", id, "--json"]);
    assert_eq!(env.done(&["view", "merged.jsonl", "--json"]), kept);
}

#[test]
fn a_file_of_events_is_stored_even_without_a_final_newline() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/first-session.jsonl");
    let events = fs::read_to_string(example).unwrap();
    let env = TestEnv::with_events(events.trim_end());
    assert_snapshot!(env.told(&["import", "events.jsonl"]), @"
    exit 0
    --- stdout
    first  new: 18 records, 6 KB
    --- stderr
    ");
    assert_eq!(env.done(&["export", "first"]), events.trim_end());
    assert_eq!(
        env.done(&["view", "first", "--json"]),
        env.done(&["view", "events.jsonl", "--json"])
    );
}

#[test]
fn a_session_in_one_document_is_stored_as_one_document() {
    let env = TestEnv::new();
    let main = Transcript::new("s1").prompt("Hello").says("Hi").text();
    let packed = serde_json::json!({"main": main, "subagents": []}).to_string();
    env.write("packed.json", &packed);
    env.done(&["import", "packed.json"]);
    assert_eq!(env.done(&["export", "s1"]), packed);
    assert_eq!(env.done(&["view", "s1", "--json"]), env.done(&["view", "packed.json", "--json"]));
}

#[cfg(target_os = "linux")]
#[test]
fn the_holder_of_a_locked_session_is_reported() {
    use std::time::Duration;
    use threadfold_core::SessionId;
    use threadfold_fold::LogId;
    use threadfold_sqlite::SqliteStore;
    use threadfold_store::{LeaseStore, LogStore};

    let env = TestEnv::new();
    Transcript::new("s1").prompt("Hello").keep(&env, "p");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(env.path("held.db")).unwrap();
        let session = SessionId::from("s1");
        store.create(&session, LogId::from("l")).await.unwrap();
        let holder = threadfold_engine::holder("threadfold watch");
        let hour = Duration::from_secs(3600);
        store.acquire(&session, &holder, hour).await.unwrap();
        let told = env.told(&["import", "s1", "--store", "held.db"]);
        let process = format!("process {}", std::process::id());
        assert!(
            told.contains("error: session `s1` is being written by threadfold watch"),
            "{told}"
        );
        assert!(told.contains(&process) && told.contains("hint: wait"), "{told}");
        assert!(told.starts_with("exit 2"), "{told}");
    });
}
