//! A session has the same state for every input path.
//!
//! Every fixture is folded through each input path that supports it: by a bare name, by `./`, by its absolute
//! path, from another folder, from standard input; imported as a file and as a folder; watched as a
//! file, as a folder and from standard input; and exported as events and folded again. All have one
//! hash, or all refuse it for the same reason.

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
fn files(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
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
struct Fixture {
    env: TestEnv,
    /// The path of the session below `alone`.
    name: String,
    /// It is one file, which a pipe can carry.
    is_one_file: bool,
}

/// What became of a session on one way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Hash(String),
    Refused(String),
}

impl Fixture {
    fn of_file(path: &Path) -> Self {
        let env = TestEnv::new();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        env.write(&format!("alone/{name}"), fs::read(path).unwrap());
        Self { env, name, is_one_file: true }
    }

    /// Returns a fixture of all files of a folder, of which `name` leads to the session.
    fn of_folder(folder: &Path, name: &str) -> Self {
        let env = TestEnv::new();
        for path in files(folder, |_| true) {
            let below = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            env.write(&format!("alone/{below}"), fs::read(&path).unwrap());
        }
        Self { env, name: name.to_owned(), is_one_file: false }
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
        first_line(watch.stdout.take().unwrap());
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
        assert_eq!(rows.len(), 1, "{}: one session, and {listed}", self.name);
        let id = rows[0]["id"].as_str().unwrap();
        let events = self.env.done(&["export", id, "--format", "events", "--store", store]);
        self.env.write("exported.jsonl", &events);
        let mut command = self.env.command(&["fold", "--hash", "-", "--from", "events"]);
        outcome(command.stdin(File::open(self.env.path("exported.jsonl")).unwrap()))
    }

    /// Demands one outcome of all ways, and returns whether it is a state.
    fn check(&self) -> bool {
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

#[test]
fn recorded_transcripts_have_one_state_for_every_input_path() {
    let cases = fs::read_dir(data().join("claude")).unwrap().map(|it| it.unwrap().path());
    let mut folders: Vec<_> =
        cases.map(|it| it.join("transcript")).filter(|it| it.is_dir()).collect();
    folders.sort();
    let mut checked = 0;
    for folder in &folders {
        let is_main = |path: &Path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_below = path.components().any(|it| it.as_os_str() == "subagents");
            name.ends_with(".jsonl") && !name.starts_with("agent-") && !is_below
        };
        let mains = files(folder, is_main);
        // A resume may have left two sessions in one folder.
        if let [main] = mains.as_slice() {
            let name = main.file_name().unwrap().to_string_lossy().into_owned();
            let fixture = Fixture::of_folder(main.parent().unwrap(), &name);
            assert!(fixture.check(), "{}", folder.display());
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked} of {}", folders.len());
}

#[test]
fn recordings_of_codex_have_one_state_for_every_input_path() {
    let is_stream = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name == "stream.jsonl" || name == "appserver.jsonl"
    };
    let paths = share(files(&data().join("codex"), is_stream), 0);
    assert!(paths.len() > 15, "{}", paths.len());
    assert_eq!(check_files(&paths), paths.len());
    let mut checked = 0;
    for path in share(files(&data().join("codex"), is_stream), 1) {
        let is_rollout = |path: &Path| path.extension().is_some_and(|it| it == "jsonl");
        let rollouts = files(&path.with_file_name("rollout"), is_rollout);
        // Forks are sessions of their own, and so are reviews of versions that name no parent.
        let is_own = |path: &PathBuf| {
            let text = fs::read_to_string(path).unwrap();
            let is_review = text.contains(r#""subagent":"review""#);
            text.contains("forked_from_id") || (is_review && !text.contains("parent_thread_id"))
        };
        if rollouts.iter().any(is_own) {
            continue;
        }
        let main = &rollouts[0];
        let name = main.file_name().unwrap().to_string_lossy().into_owned();
        let fixture = Fixture::of_folder(main.parent().unwrap(), &name);
        assert!(fixture.check(), "{}", path.display());
        checked += 1;
    }
    assert!(checked > 15, "{checked}");
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
