//! The first minute with the program: finding sessions, importing them, opening a large one.
//!
//! Every figure is of a process of its own, and programs that people know run beside it over the
//! same files: compare ratios.

mod home;
mod measure;
mod peers;
mod serve;
mod table;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use threadfold_fold::{HEAD_BYTES, SessionFile, detect, parse_transcript};

use crate::home::{Homes, first_session, session_id};
use crate::measure::{Cost, Reader, idle_wakeups, median, run};
use crate::table::{Row, print_head, print_ratio, print_row};

const MB: u64 = 1_000_000;
/// How long an idle server is observed.
const IDLE: Duration = Duration::from_secs(600);

/// What to generate.
struct Scale {
    sessions: usize,
    large: u64,
    with_peers: bool,
    /// Only the start of the server, and how long it is observed afterwards.
    serve: Option<Duration>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("--fold-files", paths)) = arguments.split_first().map(|(a, b)| (a.as_str(), b)) {
        return fold_files(paths);
    }
    let scale = scale(arguments.into_iter())?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first-minute");
    std::fs::create_dir_all(&folder)?;
    eprintln!("generating {} sessions, and one of {} MB", scale.sessions, scale.large / MB);
    let homes = Homes::generate(&folder, scale.sessions, scale.large)?;
    let work = tempfile::tempdir_in(&folder)?;
    let bench = Bench { folder: work.path().to_owned() };
    if let Some(idle) = scale.serve {
        return serve::measure(&bench, &homes.all, scale.sessions, idle);
    }
    print_head();
    bench.lists(&homes, &scale)?;
    bench.imports(&homes.all)?;
    bench.large(&homes.large, scale.large)?;
    if scale.with_peers {
        peers::measure_others(&folder, &homes.all)?;
    }
    Ok(())
}

fn scale(mut arguments: impl Iterator<Item = String>) -> io::Result<Scale> {
    let mut scale = Scale { sessions: 2_000, large: 1_000 * MB, with_peers: true, serve: None };
    let wanted = || {
        io::Error::other("wanted: --sessions N, --large MB, --no-peers, --start, --idle SECONDS")
    };
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|it| it.parse().ok()).ok_or_else(wanted);
        match argument.as_str() {
            // Passed by `cargo bench`.
            "--bench" => {}
            "--sessions" => scale.sessions = number()?,
            "--large" => scale.large = number()? as u64 * MB,
            "--start" => (scale.large, scale.serve) = (MB, Some(scale.serve.unwrap_or(IDLE))),
            "--idle" => scale.serve = Some(Duration::from_secs(number()? as u64)),
            "--no-peers" => scale.with_peers = false,
            _ => return Err(wanted()),
        }
    }
    Ok(scale)
}

/// The folder with the stores that are written.
struct Bench {
    folder: PathBuf,
}

impl Bench {
    /// Returns a command of the program that sees nothing but the sessions of `claude`.
    fn threadfold(&self, claude: &Path, store: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadfold"));
        command.env_clear();
        command.env("HOME", self.folder.join("home")).env("CLAUDE_CONFIG_DIR", claude);
        command.env("THREADFOLD_STORE", self.store(store));
        command
    }

    fn store(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.db"))
    }

    fn lists(&self, homes: &Homes, scale: &Scale) -> io::Result<()> {
        let ls = median(|| peers::ls(&homes.all), Reader::All)?;
        print_row(&Row::new("`ls -lR`", ls));
        let list = |claude: &Path| {
            let make = || {
                let mut command = self.threadfold(claude, "none");
                command.arg("list");
                command
            };
            median(make, Reader::All)
        };
        let all = list(&homes.all)?;
        print_row(&Row::new("`list`, nothing imported, all layouts", all));
        for (layout, claude) in &homes.by_layout {
            let title = format!("`list`, {} small sessions, {layout:?}", scale.sessions);
            print_row(&Row::new(&title, list(claude)?));
        }
        print_ratio("`list` / `ls -lR`, CPU", all.cpu.as_secs_f64() / ls.cpu.as_secs_f64());
        Ok(())
    }

    fn imports(&self, claude: &Path) -> io::Result<()> {
        let files = peers::files(claude)?;
        let bytes: u64 = files.iter().map(|it| it.1).sum();
        let cat = run(&mut peers::cat(&files), Reader::All)?;
        print_row(&Row::new("`cat` of all", cat).over(bytes));
        let (zstd, packed) = peers::zstd(&files, &self.folder)?;
        print_row(&Row::new("`zstd -3` of each file", zstd).over(bytes));
        let fold = run(&mut peers::fold(&files)?, Reader::All)?;
        print_row(&Row::new("fold of each file, no store", fold).over(bytes));
        let import = || {
            let mut command = self.threadfold(claude, "all");
            command.arg("import");
            command
        };
        let first = run(&mut import(), Reader::All)?;
        print_row(&Row::new("`import` of all", first).over(bytes));
        let before = size_of_store(&self.store("all"))?;
        let again = median(import, Reader::All)?;
        print_row(&Row::new("`import` again, nothing new", again));
        let after = size_of_store(&self.store("all"))?;
        let list = || {
            let mut command = self.threadfold(claude, "all");
            command.arg("list");
            command
        };
        print_row(&Row::new("`list` after import", median(list, Reader::All)?));
        let mut watch = self.threadfold(claude, "watch");
        let woken = idle_wakeups(watch.arg("watch").arg(claude.join("projects")))?;
        print_ratio("`watch` of all, idle: wakeups in a second", woken);
        let backup = self.folder.join("backup.db");
        let mut command = self.threadfold(claude, "all");
        let cost = run(command.arg("backup").arg(&backup), Reader::All)?;
        print_row(&Row::new("`backup`", cost).over(before));
        let copy = self.folder.join("copy.db");
        let mut command = Command::new("cp");
        let cost = run(command.arg(&backup).arg(copy), Reader::All)?;
        print_row(&Row::new("`cp` of the backup", cost).over(before));
        let peers = zstd.cpu + fold.cpu;
        print_ratio("`import` / (`zstd -3` + fold), CPU", ratio(first.cpu, peers));
        print_ratio("store / originals", before as f64 / bytes as f64);
        print_ratio("store / `zstd -3`", before as f64 / packed as f64);
        print_ratio("written / store", first.written as f64 / before as f64);
        print_ratio("bytes that the second import added to the store", (after - before) as f64);
        Ok(())
    }

    fn large(&self, claude: &Path, bytes: u64) -> io::Result<()> {
        let path = first_session(claude);
        let id = session_id(0);
        let head = || {
            let mut command = Command::new("head");
            command.args(["-n", "50"]).arg(&path);
            command
        };
        print_row(&Row::new("large: `head` of the file", median(head, Reader::All)?));
        let view = |arguments: &[&str]| {
            let mut command = self.threadfold(claude, "large");
            command.args(["view", "--no-pager", "--width", "100"]).args(arguments);
            command
        };
        let file = path.to_string_lossy().into_owned();
        let cost = run(&mut view(&[&file]), Reader::Screen)?;
        print_row(&Row::new("large: first screen from the file", cost));
        let mut import = self.threadfold(claude, "large");
        let first = run(import.arg("import"), Reader::All)?;
        print_row(&Row::new("large: `import`", first).over(bytes));
        let stored = size_of_store(&self.store("large"))?;
        let again = self.median_of(claude, &["import"])?;
        print_row(&Row::new("large: `import` again", again));
        // The file is as new as the store, so the store is read.
        let screen = median(|| view(&[&id]), Reader::Screen)?;
        print_row(&Row::new("large: first screen from the store", screen));
        let all = run(&mut view(&[&id]), Reader::All)?;
        print_row(&Row::new("large: all screens from the store", all).over(bytes));
        let seq = (stored_records(&self.threadfold(claude, "large"), &id)? / 2).to_string();
        let middle = median(|| view(&[&id, "--at", &seq]), Reader::Screen)?;
        print_row(&Row::new("large: `view --at` its middle", middle));
        for command in ["doctor", "reindex"] {
            let cost = run(self.threadfold(claude, "large").arg(command), Reader::All)?;
            print_row(&Row::new(&format!("large: `{command}`"), cost).over(bytes));
        }
        print_ratio("large: written / store", first.written as f64 / stored as f64);
        print_ratio("large: store / original", stored as f64 / bytes as f64);
        Ok(())
    }

    fn median_of(&self, claude: &Path, arguments: &[&str]) -> io::Result<Cost> {
        let make = || {
            let mut command = self.threadfold(claude, "large");
            command.args(arguments);
            command
        };
        median(make, Reader::All)
    }
}

/// Folds every file on its own, as the plainest reader would.
fn fold_files(paths: &[String]) -> io::Result<()> {
    for path in paths {
        let bytes = std::fs::read(path)?;
        let file = SessionFile { path, bytes: &bytes };
        let found = detect(&bytes[..bytes.len().min(HEAD_BYTES)]).and_then(|it| it.agent);
        let agent = found.ok_or_else(|| io::Error::other(format!("{path} is of no agent")))?;
        let state = parse_transcript(agent, &[file]);
        assert!(state.blocks().len() + state.subagents().len() > 0, "{path} has no block");
    }
    Ok(())
}

fn ratio(one: std::time::Duration, other: std::time::Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

/// Returns the number of records of a stored session.
fn stored_records(list: &Command, id: &str) -> io::Result<u64> {
    let mut command = Command::new(list.get_program());
    for (name, value) in list.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    // Of a session that is on disk as well, the list counts no records.
    command.env("CLAUDE_CONFIG_DIR", env!("CARGO_TARGET_TMPDIR"));
    let output = command.args(["list", "--json"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|it| it.contains(id)).unwrap_or_default();
    let session: serde_json::Value = serde_json::from_str(line)?;
    session["records"].as_u64().ok_or_else(|| io::Error::other(format!("no `records`: {line}")))
}

/// Returns the size of a store with its write-ahead log.
fn size_of_store(path: &Path) -> io::Result<u64> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Ok(path.metadata()?.len() + Path::new(&log).metadata().map_or(0, |it| it.len()))
}
