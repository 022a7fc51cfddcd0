//! A session has the same state for every input path.
//!
//! Every fixture is folded through each input path that supports it: by a bare name, by `./`, by its absolute
//! path, from another folder, from standard input; imported as a file and as a folder; watched as a
//! file, as a folder and from standard input; and exported as events and folded again. All have one
//! hash, or all refuse it for the same reason.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use threadfold_testkit::opencode::database::{self, DatabaseContent};

use crate::env::{TestEnv, seen};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data")
}

/// Returns the files below a folder for which this holds, in order.
pub(crate) fn files(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => pending.push(path),
                false if is_wanted(&path) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// A fixture, alone in a folder.
pub(crate) struct Fixture {
    pub(crate) env: TestEnv,
    /// The path of the session below `alone`.
    name: String,
    /// It is one file, which a pipe can carry.
    is_one_file: bool,
    /// The session's id, if its folder contains others.
    session: Option<String>,
    /// The events that were folded last, and what became of them: most stores export the same ones.
    folded_events: RefCell<Option<(String, Outcome)>>,
}

/// What became of a session on one way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Hash(String),
    Refused(String),
}

impl Fixture {
    pub(crate) fn of_file(path: &Path) -> Self {
        let env = TestEnv::new();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        env.write(&format!("alone/{name}"), fs::read(path).unwrap());
        Self { env, name, is_one_file: true, session: None, folded_events: RefCell::default() }
    }

    /// Returns a fixture of all files of a folder, of which `name` leads to the session.
    fn of_folder(folder: &Path, name: &str) -> Self {
        let env = TestEnv::new();
        for path in files(folder, |_| true) {
            let below = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            env.write(&format!("alone/{below}"), fs::read(&path).unwrap());
        }
        Self {
            env,
            name: name.to_owned(),
            is_one_file: false,
            session: None,
            folded_events: RefCell::default(),
        }
    }

    /// Returns the fixture as one session among others of its folder.
    fn among_others(mut self) -> Self {
        let folded = self.env.done(&["import", &self.path(), "--store", "id.db"]);
        self.session = Some(folded.split_whitespace().next().unwrap().to_owned());
        self
    }

    fn path(&self) -> String {
        self.env.path("alone").join(&self.name).display().to_string()
    }

    /// Folds the session by each way of naming it.
    fn folded(&self) -> Vec<(&'static str, Outcome)> {
        let inside = self.env.path("alone");
        let fold = |folder: &Path, name: &str| {
            let mut command = self.env.command(&["fold", "--hash", name]);
            outcome(command.current_dir(folder))
        };
        let mut found = vec![
            ("fold NAME", fold(&inside, &self.name)),
            ("fold ./NAME", fold(&inside, &format!("./{}", self.name))),
            ("fold /PATH", fold(&inside, &self.path())),
            ("fold from another folder", fold(&self.env.path(""), &format!("alone/{}", self.name))),
        ];
        if self.is_one_file {
            let mut command = self.env.command(&["fold", "--hash", "-"]);
            let input = File::open(self.path()).unwrap();
            found.push(("fold -", outcome(command.stdin(input))));
        }
        found
    }

    fn imported(&self) -> Vec<(&'static str, Outcome)> {
        let import = |store: &str, what: &str| {
            let output = self.env.command(&["import", "--store", store, what]).output().unwrap();
            match output.status.success() {
                true => self.stored(store),
                false => Outcome::Refused(reason(&String::from_utf8_lossy(&output.stderr))),
            }
        };
        let folder = self.env.path("alone").display().to_string();
        vec![
            ("import FILE", import("file.db", &self.path())),
            ("import FOLDER", import("folder.db", &folder)),
        ]
    }

    fn watched(&self) -> Vec<(&'static str, Outcome)> {
        let mut found =
            vec![("watch FILE", self.watch_file()), ("watch FOLDER", self.watch_folder())];
        if self.is_one_file {
            let mut command = self.env.command(&["watch", "-", "--json", "--store", "stdin.db"]);
            let input = File::open(self.path()).unwrap();
            let output = command.stdin(input).output().unwrap();
            assert!(output.status.success(), "{}: {}", self.name, seen(&output));
            found.push(("watch -", self.stored("stdin.db")));
        }
        found
    }

    fn watch_file(&self) -> Outcome {
        let mut watch = self.start(&["watch", &self.path(), "--json", "--store", "watched.db"]);
        // The first frame comes when all that is there is stored.
        first_line(watch.stdout.take().unwrap());
        interrupt(watch);
        self.stored("watched.db")
    }

    fn watch_folder(&self) -> Outcome {
        let folder = self.env.path("watched");
        fs::create_dir_all(&folder).unwrap();
        let place = folder.display().to_string();
        let mut watch = self.start(&["watch", &place, "--json", "--store", "came.db"]);
        first_line(watch.stderr.take().unwrap());
        copy_all(&self.env.path("alone"), &self.env.path("coming"));
        fs::rename(self.env.path("coming"), folder.join("new")).unwrap();
        // The first frame of a session comes when all that is there is stored.
        let wanted = self.session.as_ref().map(|id| format!("\"sessionId\":\"{id}\""));
        first_line_with(watch.stdout.take().unwrap(), wanted.as_deref().unwrap_or(""));
        interrupt(watch);
        self.stored("came.db")
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.env.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Returns the state of the only session of a store, by its events.
    fn stored(&self, store: &str) -> Outcome {
        let listed = self.env.done(&["list", "--json", "--store", store]);
        let rows: Vec<serde_json::Value> =
            listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut ids = rows.iter().map(|row| row["id"].as_str().unwrap());
        let id = match &self.session {
            Some(session) => ids.find(|id| id == session).unwrap_or_else(|| panic!("{listed}")),
            None => {
                assert_eq!(rows.len(), 1, "{}: one session, and {listed}", self.name);
                ids.next().unwrap()
            }
        };
        let events = self.env.done(&["export", id, "--format", "events", "--store", store]);
        let mut folded = self.folded_events.borrow_mut();
        if let Some((before, outcome)) = &*folded
            && *before == events
        {
            return outcome.clone();
        }
        self.env.write("exported.jsonl", &events);
        let mut command = self.env.command(&["fold", "--hash", "-", "--from", "events"]);
        let outcome = outcome(command.stdin(File::open(self.env.path("exported.jsonl")).unwrap()));
        *folded = Some((events, outcome.clone()));
        outcome
    }

    /// Demands one outcome of all ways, and returns whether it is a state.
    pub(crate) fn check(&self) -> bool {
        let mut found = self.folded();
        found.extend(self.imported());
        let first = found[0].1.clone();
        if matches!(first, Outcome::Hash(_)) {
            found.extend(self.watched());
        }
        for (way, outcome) in &found {
            assert_eq!(*outcome, first, "{}: {way} differs: {found:#?}", self.name);
        }
        matches!(first, Outcome::Hash(_))
    }
}

fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    match output.status.success() {
        true => Outcome::Hash(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Outcome::Refused(reason(&String::from_utf8_lossy(&output.stderr))),
    }
}

/// Returns why something was refused, without the name that it was given by.
fn reason(stderr: &str) -> String {
    let error = stderr.lines().find_map(|line| line.split_once("` ")).map(|(_, reason)| reason);
    error.unwrap_or(stderr).to_owned()
}

fn first_line(stream: impl std::io::Read) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

fn first_line_with(stream: impl std::io::Read, text: &str) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(text)), "no line with {text}");
}

fn interrupt(mut child: Child) {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
}

fn copy_all(from: &Path, to: &Path) {
    for path in files(from, |_| true) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&path, target).unwrap();
    }
}

/// Checks each file by itself, and returns how many were accepted.
fn check_files(paths: &[PathBuf]) -> usize {
    paths.iter().filter(|path| Fixture::of_file(path).check()).count()
}

#[test]
fn hostile_files_have_one_state_for_every_input_path() {
    let paths = files(&data().join("hostile"), |_| true);
    let refused: Vec<_> = paths.iter().filter(|path| !Fixture::of_file(path).check()).collect();
    assert_eq!(refused, [] as [&PathBuf; 0]);
}

#[test]
fn files_that_once_crashed_a_converter_have_one_state_for_every_input_path() {
    let paths = files(&data().join("crashes"), |_| true);
    assert!(check_files(&paths) >= 2);
}

/// Returns every third recording, from a place on, so that tests run side by side.
fn share(paths: Vec<PathBuf>, nth: usize) -> Vec<PathBuf> {
    paths.into_iter().skip(nth).step_by(3).collect()
}

fn streams(nth: usize) {
    let is_stream = |path: &Path| path.file_name().is_some_and(|it| it == "stream.jsonl");
    let paths = share(files(&data().join("claude"), is_stream), nth);
    assert!(paths.len() > 20, "{}", paths.len());
    assert_eq!(check_files(&paths), paths.len());
}

#[test]
fn recorded_streams_have_one_state_for_every_input_path_1() {
    streams(0);
}

#[test]
fn recorded_streams_have_one_state_for_every_input_path_2() {
    streams(1);
}

#[test]
fn recorded_streams_have_one_state_for_every_input_path_3() {
    streams(2);
}

fn transcripts(nth: usize) {
    let cases = fs::read_dir(data().join("claude")).unwrap().map(|it| it.unwrap().path());
    let mut folders: Vec<_> =
        cases.map(|it| it.join("transcript")).filter(|it| it.is_dir()).collect();
    folders.sort();
    let folders = share(folders, nth);
    assert!(folders.len() > 20, "{}", folders.len());
    for folder in &folders {
        let is_main = |path: &Path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_below = path.components().any(|it| it.as_os_str() == "subagents");
            name.ends_with(".jsonl") && !name.starts_with("agent-") && !is_below
        };
        let mains = files(folder, is_main);
        assert!(!mains.is_empty(), "{}", folder.display());
        for main in &mains {
            let name = main.file_name().unwrap().to_string_lossy().into_owned();
            let fixture = Fixture::of_folder(main.parent().unwrap(), &name);
            // A resume may have left two sessions in one folder.
            let fixture = if mains.len() > 1 { fixture.among_others() } else { fixture };
            assert!(fixture.check(), "{}", main.display());
        }
    }
}

#[test]
fn recorded_transcripts_have_one_state_for_every_input_path_1() {
    transcripts(0);
}

#[test]
fn recorded_transcripts_have_one_state_for_every_input_path_2() {
    transcripts(1);
}

#[test]
fn recorded_transcripts_have_one_state_for_every_input_path_3() {
    transcripts(2);
}

fn codex_streams(nth: usize) {
    let is_stream = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name.starts_with("stream") || name.starts_with("appserver")) && name.ends_with(".jsonl")
    };
    let paths = share(files(&data().join("codex"), is_stream), nth);
    assert!(paths.len() > 30, "{}", paths.len());
    assert_eq!(check_files(&paths), paths.len());
}

#[test]
fn streams_of_codex_have_one_state_for_every_input_path_1() {
    codex_streams(0);
}

#[test]
fn streams_of_codex_have_one_state_for_every_input_path_2() {
    codex_streams(1);
}

#[test]
fn streams_of_codex_have_one_state_for_every_input_path_3() {
    codex_streams(2);
}

/// Checks every session of a third of the recordings. A fork is a session of its own, and so is a
/// review whose file names no parent.
fn codex_rollouts(nth: usize) {
    let cases = fs::read_dir(data().join("codex")).unwrap().map(|it| it.unwrap().path());
    let mut folders: Vec<_> = cases.map(|it| it.join("rollout")).filter(|it| it.is_dir()).collect();
    folders.sort();
    let folders = share(folders, nth);
    assert!(folders.len() > 30, "{}", folders.len());
    for folder in &folders {
        let env = TestEnv::new();
        let place = folder.display().to_string();
        env.done(&["import", &place, "--store", "all.db"]);
        let listed = env.done(&["list", "--json", "--store", "all.db"]);
        let ids: Vec<String> = listed
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        assert!(!ids.is_empty(), "{place}");
        for id in &ids {
            let is_main = |path: &Path| path.to_string_lossy().contains(id.as_str());
            let main = files(folder, is_main).remove(0);
            let name = main.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            let mut fixture = Fixture::of_folder(folder, &name);
            if ids.len() > 1 {
                fixture.session = Some(id.clone());
            }
            assert!(fixture.check(), "{id} of {place}");
        }
    }
}

#[test]
fn rollouts_of_codex_have_one_state_for_every_input_path_1() {
    codex_rollouts(0);
}

#[test]
fn rollouts_of_codex_have_one_state_for_every_input_path_2() {
    codex_rollouts(1);
}

#[test]
fn rollouts_of_codex_have_one_state_for_every_input_path_3() {
    codex_rollouts(2);
}

fn opencode_files(nth: usize) {
    let is_form = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name == "export.json" || name.ends_with(".sse.jsonl") || name.starts_with("db_")
    };
    let paths = share(files(&data().join("opencode"), is_form), nth);
    assert!(paths.len() > 30, "{}", paths.len());
    assert_eq!(check_files(&paths), paths.len());
}

#[test]
fn bus_recordings_and_exports_have_one_state_for_every_input_path_1() {
    opencode_files(0);
}

#[test]
fn bus_recordings_and_exports_have_one_state_for_every_input_path_2() {
    opencode_files(1);
}

#[test]
fn bus_recordings_and_exports_have_one_state_for_every_input_path_3() {
    opencode_files(2);
}

#[test]
fn forms_of_opencode_2_have_one_state_for_every_input_path() {
    let paths = files(&data().join("opencode_newer"), |_| true);
    assert!(paths.len() >= 10, "{}", paths.len());
    assert_eq!(check_files(&paths), paths.len());
}

/// The rows of each stage as a file of lines, and every session of its database.
fn migrated(stage: &str) {
    assert!(check_files(&[data().join(format!("opencode_migration/{stage}.jsonl"))]) == 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    database::fill_stage(&path, stage);
    let fixture = Fixture::of_folder(folder.path(), "opencode.db");
    let import = |store: &str, what: &str| {
        fixture.env.done(&["import", what, "--store", store]);
        hashes_of(&fixture.env, store)
    };
    let stored = import("file.db", &fixture.path());
    assert!(stored.len() >= 5, "{stage}: {stored:?}");
    assert_eq!(import("folder.db", &fixture.env.path("alone").display().to_string()), stored);
    for (id, hash) in &stored {
        let folded = fixture.env.done(&["fold", "--hash", &fixture.path(), "--session", id]);
        assert_eq!(folded.trim(), hash, "{id} of {stage}");
    }
}

/// Returns the hash of every session of a store, by its exported events.
fn hashes_of(env: &TestEnv, store: &str) -> BTreeMap<String, String> {
    let listed = env.done(&["list", "--json", "--store", store]);
    let rows = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let hash = |row: serde_json::Value| {
        let id = row["id"].as_str().unwrap().to_owned();
        let events = env.done(&["export", &id, "--format", "events", "--store", store]);
        env.write("exported.jsonl", &events);
        let hash = env.done(&["fold", "--hash", "exported.jsonl", "--from", "events"]);
        (id, hash.trim().to_owned())
    };
    rows.map(hash).collect()
}

#[test]
fn sessions_before_a_migration_have_one_state_for_every_input_path() {
    migrated("1_v1");
}

#[test]
fn sessions_after_a_migration_have_one_state_for_every_input_path() {
    migrated("2_v2_started");
    migrated("3_v2_used");
}

#[test]
fn sessions_of_both_versions_have_one_state_for_every_input_path() {
    migrated("4_v1_again");
    migrated("5_v1_continued");
    migrated("6_v2_again");
}

#[test]
fn database_sessions_have_one_state_for_every_input_path() {
    for recording in database::recordings() {
        let folder = tempfile::tempdir().unwrap();
        database::fill(&folder.path().join("opencode.db"), &recording, DatabaseContent::All);
        let fixture = Fixture::of_folder(folder.path(), "opencode.db");
        assert!(fixture.check(), "{}", recording.display());
    }
}

#[test]
fn events_with_bad_lines_have_one_state_for_every_input_path() {
    let env = TestEnv::new();
    let events = concat!(
        r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"assistant_text","content":"Hi","status":"complete"}},"context":{"sessionId":"s1"}}"#,
        "\nno event\n",
        r#"{"type":"user"}"#,
        "\n",
        r#"{"type":"session:idle","payload":{},"context":{}}"#,
        "\n{\"type\":\"block:up",
    );
    env.write("events.jsonl", events);
    let fixture = Fixture::of_file(&env.path("events.jsonl"));
    assert!(fixture.check());
    let shown = fixture.env.run(&["fold", "alone/events.jsonl"]);
    assert!(
        shown.contains("no event")
            && shown.contains("2 lines could not be parsed and are kept as blocks"),
        "{shown}"
    );
}

#[test]
fn a_session_has_one_id_for_every_input_path() {
    let folder = data().join("claude/tools/transcript");
    let name = files(&folder, |path| path.extension().is_some_and(|it| it == "jsonl"));
    let ways: [&[&str]; 4] = [
        &["import", "project/copy-of-mine.jsonl"],
        &["import", "project"],
        &["watch", "project/copy-of-mine.jsonl", "--json"],
        &["watch", "project", "--json"],
    ];
    for first in 0..ways.len() {
        let env = TestEnv::new();
        for round in 0..ways.len() {
            let arguments = ways[(first + round) % ways.len()];
            let arguments = [arguments, &["--store", "s.db"]].concat();
            if arguments[0] == "import" {
                env.write("project/copy-of-mine.jsonl", fs::read(&name[0]).unwrap());
                env.done(&arguments);
                continue;
            }
            let is_folder = arguments[1] == "project";
            fs::create_dir_all(env.path("project")).unwrap();
            if !is_folder {
                env.write("project/copy-of-mine.jsonl", fs::read(&name[0]).unwrap());
            } else if round == 0 {
                fs::remove_file(env.path("project/copy-of-mine.jsonl")).ok();
            }
            let mut command = env.command(&arguments);
            let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            if is_folder {
                first_line(watch.stderr.take().unwrap());
                env.write("project/copy-of-mine.jsonl", fs::read(&name[0]).unwrap());
                if round > 0 {
                    let path = env.path("project/copy-of-mine.jsonl");
                    let mut bytes = fs::read(&path).unwrap();
                    bytes.extend_from_slice(b"{\"type\":\"summary\"}\n");
                    fs::write(path, bytes).unwrap();
                }
            }
            first_line(watch.stdout.take().unwrap());
            interrupt(watch);
        }
        let listed = env.done(&["list", "--json", "--store", "s.db"]);
        assert_eq!(listed.lines().count(), 1, "beginning with {:?}: {listed}", ways[first]);
    }
}

#[test]
fn two_files_without_an_id_and_with_the_same_start_stay_separate() {
    let env = TestEnv::new();
    env.write("a.jsonl", "{\"x\":1}\n{\"y\":1}\n");
    env.write("b.jsonl", "{\"x\":1}\n{\"y\":2}\n");
    env.done(&["import", "a.jsonl", "--store", "s.db"]);
    env.done(&["import", "b.jsonl", "--store", "s.db"]);
    env.done(&["import", "a.jsonl", "b.jsonl", "--store", "s.db"]);
    let listed = env.done(&["list", "--json", "--store", "s.db"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    env.write("a.jsonl", "{\"x\":1}\n{\"y\":1}\n{\"z\":1}\n");
    let imported = env.done(&["import", "a.jsonl", "--store", "s.db"]);
    assert!(imported.contains("grown"), "{imported}");
}
