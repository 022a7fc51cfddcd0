//! Missing, foreign, newer and read-only stores.

use std::fs;

use insta::assert_snapshot;
use rusqlite::Connection;

use crate::claude::Transcript;
use crate::env::TestEnv;

fn kept() -> TestEnv {
    let env = TestEnv::new();
    Transcript::new("s1").prompt("Hello").says("Hi").keep(&env, "p");
    env.done(&["import"]);
    env.done(&["backup", "s.db"]);
    env
}

#[test]
fn it_is_in_the_data_folder() {
    let env = kept();
    assert!(env.path(".local/share/threadfold/store.db").exists());
    let data = env.path("data");
    let output = env.command(&["import", "s1"]).env("XDG_DATA_HOME", &data).output().unwrap();
    assert!(output.status.success());
    assert!(data.join("threadfold/store.db").exists());
}

#[test]
fn a_missing_store_is_reported_with_a_hint() {
    let env = TestEnv::new();
    assert_snapshot!(env.told(&["log", "s1"]), @"
    exit 2
    --- stdout
    --- stderr
    error: there is no store at `<home>/.local/share/threadfold/store.db`
    hint: `threadfold import` and `threadfold run` create it; `--store` or `THREADFOLD_STORE` choose another one
    ");
    for command in [
        &["export", "s1"][..],
        &["restore", "s1"],
        &["rm", "s1"],
        &["reindex"],
        &["doctor"],
        &["gc"],
        &["backup", "x"],
    ] {
        let told = env.told(command);
        assert!(told.starts_with("exit 2") && told.contains("there is no store"), "{told}");
    }
    assert!(!env.path(".local").exists(), "reading makes nothing");
}

#[test]
fn a_store_of_a_newer_program_is_not_changed() {
    let env = kept();
    Connection::open(env.path("s.db")).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let before = fs::read(env.path("s.db")).unwrap();
    assert_snapshot!(env.told(&["log", "s1", "--store", "s.db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `s.db` has version 99, but this program supports only up to version 4
    hint: use a newer threadfold, or choose another store with `--store` or `THREADFOLD_STORE`
    ");
    for command in
        [&["import"][..], &["reindex"], &["doctor", "--repair"], &["gc"], &["rm", "s1", "-y"]]
    {
        let told = env.told(&[command, &["--store", "s.db"]].concat());
        assert!(told.starts_with("exit 2") && told.contains("version 99"), "{told}");
    }
    assert!(fs::read(env.path("s.db")).unwrap() == before);
    let listed = env.told(&["list", "--store", "s.db"]);
    assert!(listed.starts_with("exit 2"), "{listed}");
}

#[test]
fn a_file_that_is_not_a_store_is_not_changed() {
    let env = kept();
    env.write("notes.txt", "my notes");
    Connection::open(env.path("other.db")).unwrap().execute_batch("CREATE TABLE t (id)").unwrap();
    assert_snapshot!(env.told(&["import", "--store", "notes.txt"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `notes.txt` is not a Threadfold store: it is not an SQLite database
    hint: `--store` or `THREADFOLD_STORE` choose the store; of a damaged one, `threadfold export --salvage --output FOLDER` writes what can still be read
    ");
    assert_snapshot!(env.told(&["doctor", "--store", "other.db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `other.db` is not a Threadfold store: it is an SQLite database of another program
    hint: `--store` or `THREADFOLD_STORE` choose the store; of a damaged one, `threadfold export --salvage --output FOLDER` writes what can still be read
    ");
    assert_eq!(fs::read_to_string(env.path("notes.txt")).unwrap(), "my notes");
}

#[test]
fn what_is_no_file_is_not_a_store() {
    let env = kept();
    fs::create_dir(env.path("folder")).unwrap();
    for (place, what) in [
        ("/dev/null", "it is a device, a pipe or a socket, not a file"),
        ("folder", "it is a folder"),
    ] {
        let told = env.told(&["import", "--store", place]);
        let expected = format!("error: `{place}` is not a Threadfold store: {what}\n");
        assert!(told.contains("exit 2") && told.contains(&expected), "{told}");
    }
}

#[test]
fn a_corrupt_store_does_not_hide_the_agents_sessions() {
    let env = kept();
    env.write(".local/share/threadfold/store.db", "broken");
    let listed = env.told(&["list"]);
    assert_snapshot!(listed, @"
    exit 0
    --- stdout
    id  when        project  title  blocks
    ──  ──────────  ───────  ─────  ──────
    s1  2025-03-01  p        Hello       2
    --- stderr
    continuing without the store: `<home>/.local/share/threadfold/store.db` is not a Threadfold store: it is not an SQLite database
    hint: `--store` or `THREADFOLD_STORE` choose the store; of a damaged one, `threadfold export --salvage --output FOLDER` writes what can still be read
    ");
    assert!(env.told(&["view", "s1"]).starts_with("exit 0"));
}

#[cfg(unix)]
#[test]
fn a_read_only_store_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let env = kept();
    fs::create_dir(env.path("ro")).unwrap();
    fs::rename(env.path("s.db"), env.path("ro/s.db")).unwrap();
    let set = |mode: u32, path: &str| {
        fs::set_permissions(env.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o400, "ro/s.db");
    set(0o500, "ro");
    let viewed = env.told(&["view", "s1", "--at", "2", "--store", "ro/s.db"]);
    let exported = env.told(&["export", "s1", "--store", "ro/s.db"]);
    let is_root = fs::write(env.path("ro/probe"), "").is_ok();
    let written = env.told(&["reindex", "--store", "ro/s.db"]);
    set(0o700, "ro");
    assert!(viewed.starts_with("exit 0") && exported.starts_with("exit 0"), "{viewed} {exported}");
    assert!(is_root || written.starts_with("exit 2"), "{written}");
}

#[test]
fn a_named_store_that_does_not_exist_hides_no_session() {
    let env = TestEnv::new();
    Transcript::new("s1").prompt("Hello").says("Hi").keep(&env, "p");
    let run = |arguments: &[&str], store: &str| {
        let mut command = env.command(arguments);
        crate::env::seen(&command.env("THREADFOLD_STORE", store).output().unwrap())
    };
    for arguments in [&["list"][..], &["view", "s1"]] {
        let told = run(arguments, "none.db");
        assert!(told.starts_with("exit 0") && told.contains("Hello"), "{told}");
        assert!(told.contains("there is no store at `none.db` yet"), "{told}");
        let told = run(arguments, "");
        assert!(told.starts_with("exit 0") && told.contains("Hello"), "{told}");
    }
    assert!(!env.path("none.db").exists(), "reading makes nothing");
}

#[test]
fn a_store_can_be_a_url_with_a_scheme_that_is_supported() {
    let env = kept();
    assert!(env.told(&["log", "s1", "--store", "sqlite://s.db"]).starts_with("exit 0"));
    assert_snapshot!(env.told(&["log", "s1", "--store", "mysql://host/sessions"]), @"
    exit 2
    --- stdout
    --- stderr
    error: stores with the URL scheme `mysql://` are not supported
    hint: give the path of a file, or a URL with a supported scheme: `sqlite://PATH` or `postgres://USER@HOST/DATABASE`
    ");
    assert!(!env.path("mysql:").exists());
}
