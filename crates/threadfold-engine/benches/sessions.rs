//! Cost of importing a session, opening it, and seeking to any record.
//!
//! `--quick` leaves out the largest sessions.

use std::env;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_convert::claude;
use threadfold_core::SessionId;
use threadfold_engine::agents::claude::claude_files;
use threadfold_engine::{Budget, Options, Session, holder, load, read_files};
use threadfold_fold::{SessionFile, Slices, parse_transcript};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{DerivedStore, Store};
use threadfold_testkit::big_session::write_transcript;

type AnyError = Box<dyn std::error::Error>;

const MB: u64 = 1_000_000;
/// As the program imports: state beyond this is spilled.
const BUDGET: usize = 16 << 20;
/// After how many records the program writes a snapshot.
const EVERY: u64 = 16_384;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let measured = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--import-once", file, store] => import_once(Path::new(file), Path::new(store)),
        _ => measure(arguments.iter().any(|it| it == "--quick")),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(is_quick: bool) -> Result<(), AnyError> {
    let folder = tempfile::tempdir()?;
    let sizes: &[u64] = if is_quick { &[20] } else { &[20, 100] };
    println!("importing a session\n");
    println!("| session | records | import | fold alone | import / fold | kept / original |");
    println!("|---|---|---|---|---|---|");
    for size in sizes {
        let file = session_file(folder.path(), *size)?;
        let store = folder.path().join(format!("{size}.db"));
        let began = Instant::now();
        let records = import(&file, &store)?;
        let importing = began.elapsed();
        let folding = fold_alone(&file)?;
        println!(
            "| {size} MB | {records} | {:.0} MB/s | {:.0} MB/s | {:.2} | {:.2} |",
            speed(*size, importing),
            speed(*size, folding),
            folding.as_secs_f64() / importing.as_secs_f64(),
            kept(&store) as f64 / fs::metadata(&file)?.len() as f64,
        );
    }

    println!("\nopening a session, and going to any record of it\n");
    println!(
        "| records | open | go to a record, mean of 20 | most records read after a snapshot | bar |"
    );
    println!("|---|---|---|---|---|");
    let counts: &[u64] = if is_quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000] };
    for count in counts {
        let store = folder.path().join(format!("open-{count}.db"));
        let file = lines_file(folder.path(), *count)?;
        import(&file, &store)?;
        let (open, seek, most) = open_and_seek(&store, &file)?;
        println!(
            "| {count} | {:.1} ms | {:.1} ms | {most} | {EVERY} |",
            millis(open),
            millis(seek)
        );
    }

    println!("\nmemory of importing a session, at its peak\n");
    println!("| session | peak | bar | snapshots | import |");
    println!("|---|---|---|---|---|");
    let sizes: &[u64] = if is_quick { &[20] } else { &[20, 100, 500] };
    for size in sizes {
        let file = session_file(folder.path(), *size)?;
        let store = folder.path().join(format!("memory-{size}.db"));
        let began = Instant::now();
        let child = Command::new(env::current_exe()?)
            .arg("--import-once")
            .args([&file, &store])
            .output()?;
        if !child.status.success() {
            return Err(String::from_utf8_lossy(&child.stderr).into());
        }
        let took = began.elapsed();
        let peak: u64 = String::from_utf8(child.stdout)?.trim().parse()?;
        let snapshots = count_snapshots(&store, &file)?;
        let (peak, speed) = (peak / 1_000, speed(*size, took));
        println!("| {size} MB | {peak} MB | 256 MB | {snapshots} | {speed:.0} MB/s |");
        fs::remove_file(&file)?;
    }
    Ok(())
}

/// Imports in a process of its own, and prints the most memory that it had, in kilobytes.
fn import_once(file: &Path, store: &Path) -> Result<(), AnyError> {
    import(file, store)?;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{}", peak.and_then(|it| it.split_whitespace().next()).unwrap_or("0"));
    Ok(())
}

fn import(file: &Path, store: &Path) -> Result<u64, AnyError> {
    let folder = store.parent().ok_or("a store is in a folder")?.to_owned();
    let budget = Some(Budget { bytes: BUDGET, folder });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(store)?);
    runtime.block_on(async {
        let options = Options { budget, ..Options::new(holder("a benchmark")) };
        let mut session = Session::open(store, &id_of(file), options).await?;
        read_files(&mut session, &claude_files(file)?).await?;
        let records = session.cursor().seq;
        let warnings = session.close().await?;
        if warnings.is_empty() { Ok(records) } else { Err(warnings.join("; ").into()) }
    })
}

fn count_snapshots(store: &Path, file: &Path) -> Result<usize, AnyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = SqliteStore::open(store)?;
    Ok(runtime.block_on(store.snapshots(&id_of(file)))?.len())
}

fn fold_alone(file: &Path) -> Result<Duration, AnyError> {
    let bytes = fs::read(file)?;
    let began = Instant::now();
    let files = [SessionFile { path: "session.jsonl", bytes: &bytes }];
    let state = parse_transcript(claude::AGENT, &files);
    let took = began.elapsed();
    assert!(!state.blocks().is_empty());
    Ok(took)
}

fn open_and_seek(store: &Path, file: &Path) -> Result<(Duration, Duration, u64), AnyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let id = id_of(file);
    let began = Instant::now();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(store)?);
    runtime.block_on(async {
        let loaded = load(&store, &id, u64::MAX, Slices::default()).await?;
        let opening = began.elapsed();
        let head = loaded.head.seq;
        drop(loaded);
        let (mut seeking, mut most) = (Duration::ZERO, 0);
        for step in 1..=20 {
            let began = Instant::now();
            let at = load(&store, &id, head * step / 20, Slices::default()).await?;
            seeking += began.elapsed();
            most = most.max(at.records);
        }
        Ok((opening, seeking / 20, most))
    })
}

fn session_file(folder: &Path, megabytes: u64) -> Result<PathBuf, AnyError> {
    let file = folder.join(format!("session-{megabytes}.jsonl"));
    if !file.exists() {
        let mut out = BufWriter::new(File::create(&file)?);
        write_transcript(megabytes * MB, &mut out)?;
        out.flush()?;
    }
    Ok(file)
}

/// Writes a session of so many lines, however long they are.
fn lines_file(folder: &Path, lines: u64) -> Result<PathBuf, AnyError> {
    let mut all = Vec::new();
    // Lines have some 3 kB; more is enough.
    write_transcript(lines * 5_000, &mut all)?;
    let wanted = memchr::memchr_iter(b'\n', &all).nth(usize::try_from(lines - 1)?);
    let end = wanted.ok_or("the session is too short")?;
    let file = folder.join(format!("lines-{lines}.jsonl"));
    fs::write(&file, &all[..=end])?;
    Ok(file)
}

fn id_of(file: &Path) -> SessionId {
    SessionId::from(file.file_stem().unwrap_or_default().to_string_lossy().into_owned())
}

fn kept(store: &Path) -> u64 {
    let log = PathBuf::from(format!("{}-wal", store.display()));
    [store, &log].iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum()
}

fn speed(megabytes: u64, took: Duration) -> f64 {
    megabytes as f64 / took.as_secs_f64()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
