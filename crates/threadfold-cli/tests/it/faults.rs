//! Fault injection: each file-changing call fails once; acknowledged writes exist, failures are
//! reported, and the store stays readable.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with a session in it, and a layer below the program that can fail.
struct Fragile {
    folder: TempDir,
    layer: PathBuf,
}

const SESSION: &str = "5e551011-0000-4000-8000-000000000001";

impl Fragile {
    /// Nothing where there is no C compiler, or no such layer.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let layer = folder.path().join("failing_calls.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/failing_calls.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).args([&layer, &source]);
        if !cfg!(target_os = "linux") || !compiler.status().is_ok_and(|it| it.success()) {
            eprintln!("skipped: no layer that fails can be built here");
            return None;
        }
        let lines: String = (0..40)
            .map(|number| {
                let text = "word ".repeat(number * 40);
                format!(
                    r#"{{"type":"user","uuid":"u{number}","sessionId":"{SESSION}","message":{{"role":"user","content":"{text}{number}"}}}}"#
                ) + "\n"
            })
            .collect();
        fs::write(folder.path().join(format!("{SESSION}.jsonl")), lines).unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        Some(Self { folder, layer })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn transcript(&self) -> PathBuf {
        self.path(&format!("{SESSION}.jsonl"))
    }

    /// Runs the program over sound ground.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadfold"));
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("HOME", self.path("home")).env("THREADFOLD_STORE", self.path("store.db"));
        command.output().unwrap()
    }

    /// Runs the program over a layer whose call of this number fails; returns how many there were.
    fn run_failing(&self, arguments: &[&str], at: usize) -> (Output, usize) {
        let count = self.path("count");
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadfold"));
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("HOME", self.path("home")).env("THREADFOLD_STORE", self.path("store.db"));
        command.env("LD_PRELOAD", &self.layer).env("THREADFOLD_COUNTS_INTO", &count);
        command.env("THREADFOLD_FAILS_AT", at.to_string());
        let output = command.output().unwrap();
        let count = fs::read_to_string(&count).unwrap().parse().unwrap();
        (output, count)
    }

    fn forget_store(&self) {
        for ending in ["", "-wal", "-shm"] {
            // Not all are there.
            fs::remove_file(self.path(&format!("store.db{ending}"))).ok();
        }
    }

    /// Returns whether the store exports the session's file unchanged.
    fn is_whole(&self) -> bool {
        let out = self.run(&["export", SESSION, "--format", "original"]);
        out.status.success() && out.stdout == fs::read(self.transcript()).unwrap()
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command with every call failing once. `check` gets whether the command reported success.
fn fail_everywhere(
    fragile: &Fragile,
    arguments: &[&str],
    prepare: impl Fn(),
    check: impl Fn(usize, bool),
) {
    prepare();
    let (sound, calls) = fragile.run_failing(arguments, 0);
    assert!(sound.status.success(), "{}", told(&sound));
    check(0, true);
    assert!(calls > 3, "{calls} calls change files");
    let mut refused = 0;
    for at in 1..=calls {
        prepare();
        let (output, _) = fragile.run_failing(arguments, at);
        let is_done = output.status.success();
        if !is_done {
            refused += 1;
            let said = told(&output);
            assert_eq!(output.status.code(), Some(2), "call {at}: {said}");
            assert!(said.contains("error: ") && said.contains("hint: "), "call {at}: {said}");
        }
        check(at, is_done);
    }
    assert!(refused > 0, "no failure was noticed");
}

#[test]
fn an_import_is_acknowledged_only_if_it_is_stored() {
    let Some(fragile) = Fragile::new() else { return };
    let file = format!("{SESSION}.jsonl");
    fail_everywhere(
        &fragile,
        &["import", &file],
        || fragile.forget_store(),
        |at, is_done| {
            assert!(
                !is_done || fragile.is_whole(),
                "call {at}: it was acknowledged and is not there"
            );
            let again = fragile.run(&["import", &file]);
            assert!(again.status.success(), "call {at}: {}", told(&again));
            assert!(fragile.is_whole(), "call {at}: it cannot be imported again");
            let doctor = fragile.run(&["doctor"]);
            assert!(doctor.status.success(), "call {at}: {}", told(&doctor));
        },
    );
}

#[test]
fn a_restored_file_is_complete_or_absent() {
    let Some(fragile) = Fragile::new() else { return };
    let file = format!("{SESSION}.jsonl");
    assert!(fragile.run(&["import", &file]).status.success());
    let restored = fragile.path("restored");
    fail_everywhere(
        &fragile,
        &["restore", SESSION, "--to", "restored"],
        || drop(fs::remove_dir_all(&restored)),
        |at, is_done| {
            let found = fs::read(restored.join(&file)).ok();
            let original = fs::read(fragile.transcript()).unwrap();
            assert!(found.as_ref().is_none_or(|it| *it == original), "call {at}: it is half there");
            assert!(!is_done || found.is_some(), "call {at}: it was acknowledged");
            assert!(fragile.is_whole(), "call {at}");
        },
    );
}

#[test]
fn a_backup_is_complete_or_absent() {
    let Some(fragile) = Fragile::new() else { return };
    assert!(fragile.run(&["import", &format!("{SESSION}.jsonl")]).status.success());
    let backup = fragile.path("backup.db");
    fail_everywhere(
        &fragile,
        &["backup", "backup.db"],
        || drop(fs::remove_file(&backup)),
        |at, is_done| {
            assert!(!is_done || backup.exists(), "call {at}: it was acknowledged");
            if backup.exists() {
                let place = ["--store", "backup.db"];
                let out = fragile
                    .run(&[&["export", SESSION, "--format", "original"], &place[..]].concat());
                assert!(out.stdout == fs::read(fragile.transcript()).unwrap(), "call {at}");
            }
        },
    );
}

/// Imports a folder of short sessions, and returns how often the disk was waited for.
fn syncs_of_import(fragile: &Fragile, count: usize) -> u64 {
    fragile.forget_store();
    let folder = fragile.path("many");
    // Not there at first.
    fs::remove_dir_all(&folder).ok();
    fs::create_dir(&folder).unwrap();
    for number in 0..count {
        let id = format!("5e551011-0000-4000-8000-{number:012}");
        let line = format!(
            r#"{{"type":"user","uuid":"u{number}","sessionId":"{id}","message":{{"role":"user","content":"hi"}}}}"#
        );
        fs::write(folder.join(format!("{id}.jsonl")), line + "\n").unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadfold"));
    command.args(["import", "many"]).current_dir(fragile.folder.path()).env_clear();
    command.env("HOME", fragile.path("home")).env("THREADFOLD_STORE", fragile.path("store.db"));
    command.env("LD_PRELOAD", &fragile.layer);
    command.env("THREADFOLD_SYNCS_INTO", fragile.path("syncs"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown.lines().filter(|it| it.contains("new: ")).count(), count, "{shown}");
    fs::read_to_string(fragile.path("syncs")).unwrap().parse().unwrap()
}

#[test]
fn thousands_of_short_sessions_do_not_wait_for_the_disk_one_by_one() {
    let Some(fragile) = Fragile::new() else { return };
    let (few, many) = (syncs_of_import(&fragile, 60), syncs_of_import(&fragile, 600));
    // One by one, each takes at least four; how many share one depends on how busy the machine is.
    assert!(many <= 2 * 600, "{many} syncs for 600 sessions, {few} for 60");
}
