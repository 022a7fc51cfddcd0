//! A process that imports and follows, killed at random moments.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use threadfold_core::SessionId;
use threadfold_engine::load;
use threadfold_fold::RecordKind;
use threadfold_fold::Slices;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Limit, LogStore, Store};

const KILLS: usize = 200;
/// How many lines the session has in the end.
const LINES: usize = 10_000;
const SESSION: &str = "5e551011-0000-4000-8000-000000000000";

/// How often the process is killed.
fn kills() -> usize {
    std::env::var("THREADFOLD_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(KILLS)
}

fn line(number: usize) -> String {
    let parent = match number {
        0 => "null".to_owned(),
        number => format!("\"u{}\"", number - 1),
    };
    let (kind, content) = match number % 2 {
        0 => ("user", format!("\"question {number}, ünïcode\"")),
        _ => ("assistant", format!(r#"[{{"type":"text","text":"answer {number} ✓"}}]"#)),
    };
    let message = match number % 2 {
        0 => String::new(),
        _ => format!(r#""id":"msg_{number}","#),
    };
    format!(
        r#"{{"type":"{kind}","uuid":"u{number}","parentUuid":{parent},"sessionId":"{SESSION}","message":{{{message}"role":"{kind}","content":{content}}}}}"#
    )
}

/// Writes the session's file a piece at a time, as another program would, cut anywhere.
fn write_slowly(path: PathBuf, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut text = String::new();
        for number in 0..LINES {
            text.push_str(&line(number));
            text.push('\n');
            if number % 7 == 3 {
                let cut = text.len() - text.len() / 3;
                let cut = (0..=cut).rev().find(|it| text.is_char_boundary(*it)).unwrap();
                file.write_all(&text.as_bytes()[..cut]).unwrap();
                text.drain(..cut);
                if !stop.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(10));
                }
            }
        }
        file.write_all(text.as_bytes()).unwrap();
    })
}

fn threadfold(store: &Path, home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadfold"));
    command.env_clear().env("HOME", home).env("THREADFOLD_STORE", store);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts to follow, and records the last acknowledged record: none up to it may be lost.
fn follow(store: &Path, home: &Path, file: &Path) -> (Child, Arc<Mutex<u64>>, JoinHandle<()>) {
    let mut child = threadfold(store, home)
        .args(["watch", "--json"])
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = Arc::new(Mutex::new(0));
    let (out, noted) = (BufReader::new(child.stdout.take().unwrap()), told.clone());
    let reading = thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let after = line.split_once(r#""cursor":""#).map(|(_, rest)| rest).unwrap_or_default();
            let cursor = after.split('"').next().unwrap_or_default();
            if let Some(seq) = cursor.rsplit('.').next().and_then(|it| it.parse().ok()) {
                let mut noted = noted.lock().unwrap();
                *noted = u64::max(*noted, seq);
            }
        }
    });
    (child, told, reading)
}

/// Checks that all records are complete and equal the file's bytes at their positions.
async fn check(store: &SqliteStore, session: &SessionId, file: &Path) -> u64 {
    let Some(head) = store.head(session).await.unwrap() else { return 0 };
    let bytes = fs::read(file).unwrap();
    let mut after = 0;
    let mut end = 0;
    while after < head.seq {
        let records = store.read(session, after, Limit::default()).await.unwrap();
        for record in records {
            assert_eq!(record.seq, after + 1, "records are numbered without a gap");
            after = record.seq;
            let from = usize::try_from(record.position).unwrap();
            match record.kind {
                RecordKind::Line => {
                    assert_eq!(record.position, end, "lines follow each other");
                    assert!(record.bytes.ends_with(b"\n"), "a line is whole");
                    assert_eq!(record.bytes, bytes[from..from + record.bytes.len()]);
                    end += record.bytes.len() as u64;
                }
                RecordKind::Partial => assert!(bytes[from..].starts_with(&record.bytes)),
                // What a follower observed is of no source.
                RecordKind::Source | RecordKind::Observation => {}
                other => panic!("a record of kind {other:?}"),
            }
        }
    }
    head.seq
}

#[test]
fn killing_import_or_watch_loses_no_acknowledged_record() {
    let folder = tempfile::tempdir().unwrap();
    let (home, store) = (folder.path().join("home"), folder.path().join("store.db"));
    fs::create_dir(&home).unwrap();
    let file = folder.path().join(format!("{SESSION}.jsonl"));
    File::create(&file).unwrap();
    let session = SessionId::from(SESSION);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writing = write_slowly(file.clone(), stop.clone());
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut dice = |limit: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    };
    let mut acknowledged = 0;
    let mut killed_at_work = 0;
    for kill in 0..kills() {
        let patience = Duration::from_millis(10 + dice(70));
        if dice(3) == 0 {
            let mut importing = threadfold(&store, &home);
            let mut child =
                importing.arg("import").arg(&file).stdout(Stdio::null()).spawn().unwrap();
            thread::sleep(patience);
            killed_at_work += usize::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            let (mut child, told, reading) = follow(&store, &home, &file);
            // It is killed only after it acknowledged something.
            let end = Instant::now() + Duration::from_secs(20);
            while *told.lock().unwrap() == 0 && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(patience);
            killed_at_work += usize::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
            reading.join().unwrap();
            acknowledged = u64::max(acknowledged, *told.lock().unwrap());
        }
        if store.exists() && kill % 10 == 9 {
            let opened = SqliteStore::open(&store).unwrap();
            let head = runtime.block_on(check(&opened, &session, &file));
            assert!(head >= acknowledged, "{head} records of {acknowledged} are left");
        }
    }
    stop.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    assert!(killed_at_work > kills() / 2, "{killed_at_work} were killed at work");
    assert!(acknowledged > 0);

    let hash_of = |store: &Path| {
        assert!(threadfold(store, &home).arg("import").arg(&file).status().unwrap().success());
        let opened = Arc::new(SqliteStore::open(store).unwrap());
        runtime.block_on(async {
            check(&opened, &session, &file).await;
            let shared: Arc<dyn Store> = opened;
            let loaded = load(&shared, &session, u64::MAX, Slices::default()).await.unwrap();
            assert_eq!(loaded.fold.sources().count(), 1, "it is one file, and one part of it");
            loaded.fold.settled().hash()
        })
    };
    let fresh = folder.path().join("fresh.db");
    assert_eq!(hash_of(&store), hash_of(&fresh));
}
