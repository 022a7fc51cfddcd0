//! Importing again costs what is new: an unchanged file is not read, and a grown one from its end.
#![cfg(target_os = "linux")]

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::claude::Transcript;
use crate::env::TestEnv;
use crate::reads::work;
use threadfold_testkit::opencode::database::{DatabaseContent, add, empty, recording};

const SESSION: &str = "5e551012-0000-4000-8000-000000000001";

fn main_file(env: &TestEnv) -> PathBuf {
    env.path(&format!("claude/projects/p/{SESSION}.jsonl"))
}

/// Returns a home with one session of some megabytes, which was written a while ago.
fn home() -> TestEnv {
    let env = TestEnv::new();
    let text = "words ".repeat(12_000);
    let transcript =
        (0..50).fold(Transcript::new(SESSION), |it, number| it.prompt(format!("{number} {text}")));
    env.write(&format!("claude/projects/p/{SESSION}.jsonl"), transcript.text());
    settle();
    env
}

/// Waits until files that changed just now cannot change again within the same tick of the clock.
/// There is nothing else to wait for: the clock itself decides.
pub(crate) fn settle() {
    thread::sleep(Duration::from_millis(80));
}

fn import<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["import", "--json", "--store", "store.db"], more].concat()
}

fn status(imported: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(imported.lines().next().unwrap()).unwrap();
    line["status"].as_str().unwrap().to_owned()
}

fn append(env: &TestEnv, text: &str) {
    let mut file = OpenOptions::new().append(true).open(main_file(env)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Returns a line of the session, as a later version of the file has it.
fn line(words: &str) -> String {
    Transcript::new(SESSION).prompt(words).text().replace("main-0", "later")
}

#[test]
fn an_unchanged_file_is_not_read_and_nothing_is_written_unless_asked() {
    let env = home();
    let size = main_file(&env).metadata().unwrap().len();
    assert!(size > 3_000_000);
    let first = work(&env.command(&import(&[])));
    assert!(first.read >= size, "{}", first.read);
    let before = fs::read(env.path("store.db")).unwrap();

    let again = work(&env.command(&import(&[])));
    assert_eq!(status(&again.stdout), "unchanged");
    assert!(again.read < size / 8, "{} bytes were read of {size}", again.read);
    assert!(again.written < 4_096, "{} bytes were written", again.written);
    assert!(fs::read(env.path("store.db")).unwrap() == before, "the store was written to");

    let reread = work(&env.command(&import(&["--reread"])));
    assert_eq!(status(&reread.stdout), "unchanged");
    assert!(reread.read >= size, "{}", reread.read);
}

#[test]
fn a_file_that_only_grew_is_read_from_where_it_ended() {
    let env = home();
    env.done(&import(&[]));
    let size = main_file(&env).metadata().unwrap().len();
    // The last line is incomplete, and is completed later.
    for text in [line("more"), line("cut")[..40].to_owned(), line("cut")[40..].to_owned()] {
        append(&env, &text);
        settle();
        let grown = work(&env.command(&import(&[])));
        assert_eq!(status(&grown.stdout), "grown");
        // The stored records are read, but they are compressed.
        assert!(grown.read < size / 2, "{} bytes were read of {size}", grown.read);
    }
    env.done(&["export", SESSION, "--output", "out/", "--store", "store.db"]);
    let exported = fs::read(env.path(&format!("out/{SESSION}.jsonl"))).unwrap();
    assert!(exported == fs::read(main_file(&env)).unwrap(), "the export differs");
    assert_eq!(status(&env.done(&import(&["--reread"]))), "unchanged");
}

#[test]
fn a_file_that_grew_and_changed_before_its_old_end_is_read_completely() {
    let env = home();
    env.done(&import(&[]));
    let path = main_file(&env);
    let text = fs::read_to_string(&path).unwrap();
    let last = text.rfind("words").unwrap();
    let rewritten = format!("{}WORDS{}{}", &text[..last], &text[last + 5..], line("more"));
    // The same file, written from its beginning.
    OpenOptions::new().write(true).open(&path).unwrap().write_all(rewritten.as_bytes()).unwrap();
    let again = env.done(&import(&[]));
    assert!(again.contains(r#""newParts":1"#), "{again}");
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
    assert!(again.contains(r#""newParts":1"#), "{again}");
    assert_eq!(status(&again), "grown");
}

/// Makes the index believe that the file is as it was when it was imported.
fn forge_stamp(env: &TestEnv) {
    let index = env.path("store.db.files");
    let path = main_file(env);
    let now = std::os::unix::fs::MetadataExt::ctime(&path.metadata().unwrap()) * 1_000_000_000
        + std::os::unix::fs::MetadataExt::ctime_nsec(&path.metadata().unwrap());
    let text = fs::read_to_string(&index).unwrap();
    let json = text.lines().last().unwrap().split_once(' ').unwrap().1;
    let mut import: serde_json::Value = serde_json::from_str(json).unwrap();
    import["files"][0]["changed"] = now.into();
    let json = import.to_string();
    let sum = blake3::Hasher::new().update(b"1").update(json.as_bytes()).finalize().to_hex();
    fs::write(&index, format!("{} {json}\n", &sum[..16])).unwrap();
}

#[test]
fn a_file_whose_size_and_all_times_were_restored_is_found_by_doctor_and_by_reading_again() {
    let env = home();
    env.done(&import(&[]));
    assert!(env.run(&["doctor", "--store", "store.db"]).contains("no problems"));
    let path = main_file(&env);
    let (text, modified) =
        (fs::read_to_string(&path).unwrap(), path.metadata().unwrap().modified());
    fs::write(&path, text.replacen("words", "WORDS", 1)).unwrap();
    let times = FileTimes::new().set_modified(modified.unwrap());
    File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    forge_stamp(&env);
    assert_eq!(status(&env.done(&import(&[]))), "unchanged");
    let checked = env.run(&["doctor", "--store", "store.db"]);
    assert!(checked.starts_with("exit 1") && checked.contains("rewritten"), "{checked}");
    assert_eq!(status(&env.done(&import(&["--reread"]))), "grown");
    settle();
    assert_eq!(status(&env.done(&import(&[]))), "unchanged");
}

#[test]
fn a_subagent_that_was_added_is_read_and_its_session_is_not() {
    let env = home();
    env.done(&import(&[]));
    let subagent = Transcript::of_agent(SESSION, "a1").prompt("look");
    let path = format!("claude/projects/p/{SESSION}/subagents/agent-a1.jsonl");
    env.write(&path, subagent.text());
    settle();
    let size = main_file(&env).metadata().unwrap().len();
    let again = work(&env.command(&import(&[])));
    assert_eq!(status(&again.stdout), "grown");
    assert!(again.read < size / 2, "{} bytes were read of {size}", again.read);
}

#[test]
fn a_session_that_was_removed_is_imported_again() {
    let env = home();
    env.done(&import(&[]));
    env.done(&["rm", SESSION, "--yes", "--store", "store.db"]);
    assert_eq!(status(&env.done(&import(&[]))), "new");
}

#[test]
fn an_older_copy_of_the_store_gets_what_it_lacks() {
    let env = home();
    env.done(&import(&[]));
    fs::copy(env.path("store.db"), env.path("older.db")).unwrap();
    append(&env, &line("more"));
    settle();
    assert_eq!(status(&env.done(&import(&[]))), "grown");
    fs::copy(env.path("older.db"), env.path("store.db")).unwrap();
    assert_eq!(status(&env.done(&import(&[]))), "grown");
    // A copy elsewhere has no index, and is read once.
    fs::copy(env.path("store.db"), env.path("elsewhere.db")).unwrap();
    let import = ["import", "--json", "--store", "elsewhere.db"];
    let size = main_file(&env).metadata().unwrap().len();
    settle();
    for is_read in [true, false] {
        let again = work(&env.command(&import));
        assert_eq!(status(&again.stdout), "unchanged");
        assert_eq!(again.read > size, is_read, "{} bytes were read of {size}", again.read);
    }
}

#[test]
fn a_corrupt_index_is_ignored() {
    let env = home();
    env.done(&import(&[]));
    let text = fs::read_to_string(env.path("store.db.files")).unwrap();
    fs::write(env.path("store.db.files"), text.replace("\"size\":", "\"size\":1")).unwrap();
    let size = main_file(&env).metadata().unwrap().len();
    let again = work(&env.command(&import(&[])));
    assert!(again.read > size && status(&again.stdout) == "unchanged", "{}", again.stdout);
    assert!(work(&env.command(&import(&[]))).read < size / 8);
}

#[test]
fn a_file_of_another_format_is_read_although_it_is_unchanged() {
    let env = TestEnv::new();
    env.write("notes.jsonl", Transcript::new(SESSION).prompt("go").text());
    settle();
    let import = |more: &[&str]| {
        let command = [&["import", "--json", "--store", "store.db", "notes.jsonl"], more].concat();
        status(&env.done(&command))
    };
    assert_eq!(import(&[]), "new");
    assert_eq!(import(&["--from", "claude-stream"]), "grown");
    assert_eq!(import(&[]), "unchanged");
}

#[test]
fn rows_of_a_database_are_read_again_when_they_change() {
    let env = TestEnv::new();
    let folder = env.path(".local/share/opencode");
    fs::create_dir_all(&folder).unwrap();
    let database = empty(&folder.join("opencode.db"));
    // With the log of events, that is read instead of the rows.
    let session = add(&database, &recording("text"), DatabaseContent::RowsOnly);
    add(&database, &recording("tools"), DatabaseContent::RowsOnly);
    settle();
    let import = || work(&env.command(&["import", "--json", "--store", "store.db"])).stdout;
    let count = |imported: &str, status: &str| imported.matches(&format!("\"{status}\"")).count();
    assert_eq!(count(&import(), "new"), 2);
    let before = fs::read(env.path("store.db")).unwrap();
    assert_eq!(count(&import(), "unchanged"), 2);
    assert!(fs::read(env.path("store.db")).unwrap() == before, "the store was written to");
    let rename = "UPDATE session SET title = 'Another', time_updated = time_updated + 20000
                  WHERE id = ?1";
    database.execute(rename, [&session]).unwrap();
    settle();
    let renamed = import();
    assert_eq!((count(&renamed, "grown"), count(&renamed, "unchanged")), (1, 1), "{renamed}");
    assert_eq!(count(&import(), "unchanged"), 2);
    let listed = env.done(&["list", "--json", "--store", "store.db"]);
    assert!(listed.contains("\"title\":\"Another\""), "{listed}");
}
