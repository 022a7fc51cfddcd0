//! OpenCode databases, read once: they fold to the state of the exports, and nothing is written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use threadfold_convert::opencode;
use threadfold_core::{ConversationState, SessionId};
use threadfold_engine::{
    Budget, DatabaseError, DatabaseProblem, EngineError, FoundSession, InputError, InputOptions,
    open_one, read_found, records_of,
};
use threadfold_fold::parity::{Verdict, compare};
use threadfold_fold::{RecordKind, SessionFile, detection_named, parse_transcript, with_causes};
use threadfold_store::{Limit, MemoryStore, Store};
use threadfold_testkit::opencode::database::{
    DatabaseContent, fill, insert, recording, recordings,
};

use crate::recordings::open;

fn budget() -> Budget {
    Budget { bytes: 16 << 20, folder: std::env::temp_dir() }
}

/// A database as OpenCode makes it, filled from a recording.
struct TestDatabase {
    folder: TempDir,
    session: String,
}

impl TestDatabase {
    fn path(&self) -> PathBuf {
        self.folder.path().join("opencode.db")
    }

    fn found(&self) -> FoundSession {
        found(&self.path(), &self.session).unwrap()
    }

    async fn records(&self) -> String {
        lines_of(&self.found()).await
    }

    async fn state(&self) -> ConversationState {
        read_found(&self.found(), budget(), |_| {}).await.unwrap().settled()
    }

    /// Returns the bytes of the database and of what lies beside it.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut files: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

/// Opens a session of a database, whatever the file looks like.
fn found(path: &Path, session: &str) -> Result<FoundSession, InputError> {
    let format = detection_named("opencode-db");
    open_one(path, &InputOptions { format, session: Some(session), any: false })
}

/// Returns all lines that are read of a session.
async fn lines_of(found: &FoundSession) -> String {
    let records = records_of(&found.id, std::slice::from_ref(found)).await.unwrap();
    let lines = records.into_iter().filter(|it| it.kind == RecordKind::Line);
    lines.map(|it| String::from_utf8(it.bytes.to_vec()).unwrap()).collect()
}

/// Returns the ids of the sessions of which there are rows, in the order of the rows.
async fn sessions_of(found: &FoundSession) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for line in lines_of(found).await.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let id = record["row"]["id"].as_str().filter(|_| record["table"] == "session");
        ids.extend(id.map(str::to_owned).filter(|id| !ids.contains(id)));
    }
    ids
}

/// Returns what is wrong with a database, and the whole message without its path.
fn problem(path: &Path, error: &EngineError) -> (DatabaseProblem, String) {
    let EngineError::Database(DatabaseError::Unreadable { problem, .. }) = error else {
        panic!("{error:?}")
    };
    (*problem, with_causes(error).replace(&path.display().to_string(), "<db>"))
}

fn engine_error(error: InputError) -> EngineError {
    match error {
        InputError::Engine(error) => error,
        other => panic!("{other:?}"),
    }
}

fn parsed(files: &[(String, Vec<u8>)]) -> ConversationState {
    let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    parse_transcript(opencode::AGENT, &files)
}

fn make(recording: &Path, filled: DatabaseContent) -> TestDatabase {
    let folder = tempfile::tempdir().unwrap();
    let session = fill(&folder.path().join("opencode.db"), recording, filled);
    TestDatabase { folder, session }
}

fn export(recording: &Path) -> Option<ConversationState> {
    let files: Vec<_> = ["", ".child1", ".child2", ".child3"]
        .iter()
        .map(|child| format!("export{child}.json"))
        .filter_map(|name| Some((name.clone(), fs::read(recording.join(name)).ok()?)))
        .collect();
    (!files.is_empty()).then(|| parsed(&files))
}

#[tokio::test]
async fn a_database_folds_to_the_state_of_its_export() {
    let mut compared = [0, 0];
    for recording in recordings() {
        let name = recording.display();
        let Some(export) = export(&recording) else { continue };
        for (count, filled) in
            [DatabaseContent::All, DatabaseContent::RowsOnly].into_iter().enumerate()
        {
            let state = make(&recording, filled).state().await;
            let comparison = compare(opencode::AGENT, &export, &state);
            assert_eq!(comparison.differences, [], "{name}");
            assert_eq!(comparison.verdict(), Verdict::Equal, "{name}");
            if filled == DatabaseContent::RowsOnly {
                assert_eq!(state.hash(), export.hash(), "{name}");
            }
            compared[count] += 1;
        }
    }
    assert!(compared[0] >= 20, "{compared:?}");
}

#[tokio::test]
async fn the_log_is_preferred_where_it_is_complete() {
    for (name, whole) in [("text", true), ("text@1.2.27", false), ("v2_text", true)] {
        let folder = recording(name);
        let made = make(&folder, DatabaseContent::All);
        let records = made.records().await;
        assert_eq!(records.contains("aggregate_id"), whole, "{name}");
        assert!(!made.state().await.blocks().is_empty(), "{name}");
    }
    // Of a session that is older than the log, the log has the end alone.
    let folder = recording("text");
    let made = make(&folder, DatabaseContent::All);
    let connection = Connection::open(made.path()).unwrap();
    connection.execute("DELETE FROM event WHERE seq < 3", []).unwrap();
    connection.execute("UPDATE event SET seq = seq - 3", []).unwrap();
    assert!(!made.records().await.contains("aggregate_id"));
}

#[tokio::test]
async fn the_log_is_read_from_the_last_position() {
    let folder = recording("nested");
    let made = make(&folder, DatabaseContent::All);
    let all: Vec<Value> = fs::read_to_string(folder.join("db_event.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let connection = Connection::open(made.path()).unwrap();
    // Without rows of messages, the log alone is read.
    connection.execute_batch("DELETE FROM event; DROP TABLE part; DROP TABLE message").unwrap();
    let sessions = sessions_in(&connection);
    assert_eq!(sessions, 2);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let id = SessionId::from(made.session.as_str());
    let mut session = open(&store, &id).await;
    let mut follower = made.found().content.follower();
    let mut read = 0;
    for chunk in all.chunks(7) {
        chunk.iter().for_each(|row| insert(&connection, "event", row));
        read += follower.poll(&mut session, &mut |_| {}).await.unwrap().records;
    }
    assert_eq!(read, all.len() as u64);
    let records = store.read(&id, 0, Limit::default()).await.unwrap();
    let lines = records.iter().filter(|it| it.kind == RecordKind::Line);
    let mut records: Vec<String> = lines
        .map(|it| serde_json::from_slice::<Value>(&it.bytes).unwrap())
        .map(|it| it["id"].as_str().unwrap().to_owned())
        .collect();
    let mut ids: Vec<_> = all.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    records.sort();
    assert_eq!(records, ids);
}

fn sessions_in(connection: &Connection) -> u64 {
    connection.query_row("SELECT count(*) FROM session", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_child_is_a_session_with_children_of_its_own() {
    let folder = recording("nested");
    let made = make(&folder, DatabaseContent::RowsOnly);
    let all = sessions_of(&made.found()).await;
    assert_eq!((all.len(), &all[0]), (2, &made.session));
    let below = sessions_of(&found(&made.path(), &all[1]).unwrap()).await;
    assert_eq!(below, all[1..]);
    let missing = found(&made.path(), "ses_%").err().unwrap();
    assert!(matches!(missing, InputError::Missing { .. }), "{missing:?}");
}

#[tokio::test]
async fn reading_while_another_writes_sees_what_is_committed_and_writes_nothing() {
    let folder = recording("subagent");
    let made = make(&folder, DatabaseContent::All);
    let expected = made.state().await.hash();
    let writer = Connection::open(made.path()).unwrap();
    writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    let rename = "UPDATE session SET title = title || '!'";
    writer.execute(rename, []).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    writer.execute("DELETE FROM event", []).unwrap();
    writer.execute("DELETE FROM part", []).unwrap();

    let before = made.files();
    assert_eq!(before.len(), 3, "the database, -wal and -shm");
    assert_eq!(made.state().await.hash(), expected);
    assert!(before == made.files(), "reading changed a file");

    // Readers do not block the writer.
    let (path, session) = (made.path(), made.session.clone());
    let is_done = Arc::new(AtomicBool::new(false));
    let is_over = is_done.clone();
    let reading = thread::spawn(move || {
        let mut reads = 0;
        while !is_over.load(Ordering::Relaxed) || reads == 0 {
            found(&path, &session).unwrap();
            reads += 1;
        }
    });
    writer.busy_timeout(std::time::Duration::ZERO).unwrap();
    writer.execute_batch("COMMIT").unwrap();
    for _ in 0..100 {
        writer.execute(rename, []).unwrap();
    }
    is_done.store(true, Ordering::Relaxed);
    reading.join().unwrap();
    assert!(made.state().await.blocks().is_empty());
}

#[tokio::test]
async fn the_wal_of_a_dead_writer_is_read_and_nothing_is_written() {
    let folder = recording("tools");
    let live = make(&folder, DatabaseContent::RowsOnly);
    let writer = Connection::open(live.path()).unwrap();
    writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    writer.execute("UPDATE session SET title = 'in the log alone'", []).unwrap();
    for beside in [&["", "-wal", "-shm"][..], &["", "-wal"]] {
        let left =
            TestDatabase { folder: tempfile::tempdir().unwrap(), session: live.session.clone() };
        for suffix in beside {
            let name = format!("opencode.db{suffix}");
            fs::copy(live.folder.path().join(&name), left.folder.path().join(&name)).unwrap();
        }
        let before = left.files();
        let records = left.records().await;
        assert!(records.contains("in the log alone"), "{beside:?}");
        assert!(before == left.files(), "reading changed a file of {beside:?}");
    }
}

#[tokio::test]
async fn reading_an_idle_database_creates_no_file() {
    let folder = recording("tools");
    let made = make(&folder, DatabaseContent::All);
    let before = made.files();
    assert_eq!(before.len(), 1);
    assert!(!made.state().await.blocks().is_empty());
    assert!(before == made.files());
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_folder_is_sufficient() {
    use std::os::unix::fs::PermissionsExt;
    let folder = recording("tools");
    let made = make(&folder, DatabaseContent::All);
    let allow = |mode| {
        fs::set_permissions(made.path(), fs::Permissions::from_mode(mode & 0o666)).unwrap();
        fs::set_permissions(made.folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o555);
    let state = made.state().await;
    allow(0o755);
    assert!(!state.blocks().is_empty());
}

#[tokio::test]
async fn damage_anywhere_is_reported_or_read_around_and_never_a_crash() {
    let folder = recording("text");
    let made = make(&folder, DatabaseContent::All);
    let whole = fs::read(made.path()).unwrap();
    let read = async |bytes: &[u8]| {
        fs::write(made.path(), bytes).unwrap();
        let found = found(&made.path(), &made.session).map_err(|error| match error {
            InputError::Missing { .. } => None,
            other => Some(engine_error(other)),
        })?;
        read_found(&found, budget(), |_| {}).await.map(drop).map_err(Some)
    };
    let mut failures = 0;
    for place in (0..whole.len()).step_by(397) {
        let mut damaged = whole.clone();
        damaged[place..].iter_mut().take(48).for_each(|byte| *byte = !*byte);
        failures += usize::from(read(&damaged).await.is_err());
        failures += usize::from(read(&whole[..place]).await.is_err());
    }
    assert!(failures > 20, "{failures}");
    let reported = async |bytes: &[u8]| {
        let error = read(bytes).await.unwrap_err().unwrap();
        problem(&made.path(), &error)
    };
    let not_a_database = "`<db>` is not a SQLite database, or is encrypted: its header is not that of a SQLite database: Error code 26: file is not a database";
    for bytes in [&b""[..], &[7; 8192]] {
        let reported = reported(bytes).await;
        assert_eq!(reported, (DatabaseProblem::NotADatabase, not_a_database.to_owned()));
    }
    let corrupt = "`<db>` is corrupt: database disk image is malformed: Error code 11: database disk image is malformed";
    let reported = reported(&whole[..whole.len() / 2]).await;
    assert_eq!(reported, (DatabaseProblem::Corrupt, corrupt.to_owned()));
}

#[tokio::test]
async fn a_locked_database_is_reported() {
    let folder = recording("text");
    let made = make(&folder, DatabaseContent::All);
    let owner = Connection::open(made.path()).unwrap();
    owner.pragma_update(None, "journal_mode", "DELETE").unwrap();
    owner.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = engine_error(found(&made.path(), &made.session).err().unwrap());
    let locked =
        "`<db>` is locked by another program: database is locked: Error code 5: database is locked";
    assert_eq!(problem(&made.path(), &error), (DatabaseProblem::Locked, locked.to_owned()));
}

#[tokio::test]
async fn names_with_url_characters_are_names() {
    let folder = recording("text");
    let made = make(&folder, DatabaseContent::All);
    let odd = made.folder.path().join("a%20b?mode=rwc#c é.db");
    fs::rename(made.path(), &odd).unwrap();
    let found = open_one(&odd, &InputOptions::default()).unwrap();
    assert_eq!(found.id.as_str(), made.session);
    assert!(!read_found(&found, budget(), |_| {}).await.unwrap().settled().blocks().is_empty());
}
