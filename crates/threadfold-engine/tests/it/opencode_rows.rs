//! Databases made from recordings: what is read is what the exports tell, and nothing is written.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use threadfold_convert::opencode;
use threadfold_fold::parity::{Verdict, compare};
use threadfold_convert::Agent;
use threadfold_fold::{SessionFile, parse_transcript};
use threadfold_core::ConversationState;

use threadfold_engine::{DatabaseError, LogRead as Read};

use super::{Database, Shelf};
use crate::error::CommandError;
use made::{Filled, fill, insert, recording, recordings};

mod made;

/// A database as OpenCode makes it, filled from a recording.
struct Made {
    folder: TempDir,
    session: String,
}

impl Made {
    fn path(&self) -> PathBuf {
        self.folder.path().join("opencode.db")
    }

    fn open(&self) -> Database {
        Database::open(&self.path()).map_err(words).unwrap()
    }

    fn records(&self) -> Vec<u8> {
        let mut lines = String::new();
        let read = self.open().read_session(&self.session, &mut |record| {
            lines.push_str(record);
            lines.push('\n');
            Ok::<_, DatabaseError>(())
        });
        read.map_err(words).unwrap();
        lines.into_bytes()
    }

    fn state(&self) -> ConversationState {
        told(&[("opencode.db".to_owned(), self.records())])
    }

    /// Returns the bytes of the database and of what lies beside it.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut files: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

fn words(error: impl Into<CommandError>) -> String {
    match error.into() {
        CommandError::Failed { error, hint } => format!("{error:#}; {hint}"),
        other => format!("{other:?}"),
    }
}

fn told(files: &[(String, Vec<u8>)]) -> ConversationState {
    let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    parse_transcript(opencode::AGENT, &files)
}

fn make(recording: &Path, filled: Filled) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let session = fill(&folder.path().join("opencode.db"), recording, filled);
    Made { folder, session }
}

fn export(recording: &Path) -> Option<ConversationState> {
    let files: Vec<_> = ["", ".child1", ".child2", ".child3"]
        .iter()
        .map(|child| format!("export{child}.json"))
        .filter_map(|name| Some((name.clone(), fs::read(recording.join(name)).ok()?)))
        .collect();
    (!files.is_empty()).then(|| told(&files))
}

#[test]
fn a_database_tells_what_the_export_tells() {
    let mut compared = [0, 0];
    for recording in recordings() {
        let name = recording.display();
        let Some(export) = export(&recording) else { continue };
        for (count, filled) in [Filled::All, Filled::RowsOnly].into_iter().enumerate() {
            let state = make(&recording, filled).state();
            let comparison = compare(opencode::AGENT, &export, &state);
            assert_eq!(comparison.differences, [], "{name}");
            assert_eq!(comparison.verdict(), Verdict::Equal, "{name}");
            if filled == Filled::RowsOnly {
                assert_eq!(state.hash(), export.hash(), "{name}");
            }
            compared[count] += 1;
        }
    }
    assert!(compared[0] >= 20, "{compared:?}");
}

#[test]
fn the_log_is_preferred_where_it_is_whole() {
    for (name, whole) in [("text", true), ("text@1.2.27", false), ("v2_text", true)] {
        let folder = recording(name);
        let made = make(&folder, Filled::All);
        let records = String::from_utf8(made.records()).unwrap();
        assert_eq!(records.contains("aggregate_id"), whole, "{name}");
        assert!(!made.state().blocks().is_empty(), "{name}");
    }
    // Of a session that is older than the log, the log has the end alone.
    let folder = recording("text");
    let made = make(&folder, Filled::All);
    let connection = Connection::open(made.path()).unwrap();
    connection.execute("DELETE FROM event WHERE seq < 3", []).unwrap();
    connection.execute("UPDATE event SET seq = seq - 3", []).unwrap();
    assert!(!String::from_utf8(made.records()).unwrap().contains("aggregate_id"));
}

#[test]
fn the_log_is_read_on_from_where_it_was_left() {
    let folder = recording("nested");
    let made = make(&folder, Filled::All);
    let all: Vec<Value> = fs::read_to_string(folder.join("db_event.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let connection = Connection::open(made.path()).unwrap();
    connection.execute("DELETE FROM event", []).unwrap();
    let family = made.open().family(&made.session).map_err(words).unwrap();
    assert_eq!(family.len(), 2);
    let (mut read, mut records) = (Read::new(), Vec::new());
    for chunk in all.chunks(7) {
        chunk.iter().for_each(|row| insert(&connection, "event", row));
        let database = made.open();
        let mut each = |record: &str| {
            let record: Value = serde_json::from_str(record).unwrap();
            records.push(record["id"].as_str().unwrap().to_owned());
            Ok::<_, DatabaseError>(())
        };
        database.read_log(&family, &mut read, &mut each).map_err(words).unwrap();
    }
    let mut ids: Vec<_> = all.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    records.sort();
    assert_eq!(records, ids);
}

#[test]
fn a_child_is_a_session_with_children_of_its_own() {
    let folder = recording("nested");
    let made = make(&folder, Filled::All);
    let database = made.open();
    let all = database.family(&made.session).map_err(words).unwrap();
    let below = database.family(&all[1]).map_err(words).unwrap();
    assert_eq!(below, all[1..]);
    assert!(database.family("ses_%").map_err(words).unwrap().is_empty());
}

#[test]
fn reading_while_another_writes_sees_what_is_committed_and_writes_nothing() {
    let folder = recording("subagent");
    let made = make(&folder, Filled::All);
    let expected = made.state().hash();
    let writer = Connection::open(made.path()).unwrap();
    writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    let rename = "UPDATE session SET title = title || '!'";
    writer.execute(rename, []).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    writer.execute("DELETE FROM event", []).unwrap();
    writer.execute("DELETE FROM part", []).unwrap();

    let before = made.files();
    assert_eq!(before.len(), 3, "the database, -wal and -shm");
    assert_eq!(made.state().hash(), expected);
    assert!(before == made.files(), "reading changed a file");

    // Who reads does not keep the writer from going on.
    let reader = made.open();
    reader.root_sessions().map_err(words).unwrap();
    writer.execute_batch("COMMIT").unwrap();
    writer.execute(rename, []).unwrap();
    assert!(made.state().blocks().is_empty());
    assert!(!reader.root_sessions().map_err(words).unwrap().is_empty());
}

#[test]
fn what_a_dead_writer_left_is_read_and_nothing_is_written() {
    let folder = recording("tools");
    let live = make(&folder, Filled::RowsOnly);
    let writer = Connection::open(live.path()).unwrap();
    writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    writer.execute("UPDATE session SET title = 'in the log alone'", []).unwrap();
    for beside in [&["", "-wal", "-shm"][..], &["", "-wal"]] {
        let left = Made { folder: tempfile::tempdir().unwrap(), session: live.session.clone() };
        for suffix in beside {
            let name = format!("opencode.db{suffix}");
            fs::copy(live.folder.path().join(&name), left.folder.path().join(&name)).unwrap();
        }
        let before = left.files();
        let records = String::from_utf8(left.records()).unwrap();
        assert!(records.contains("in the log alone"), "{beside:?}");
        assert!(before == left.files(), "reading changed a file of {beside:?}");
    }
}

#[test]
fn a_database_at_rest_is_read_and_nothing_is_made_beside_it() {
    let folder = recording("tools");
    let made = make(&folder, Filled::All);
    let before = made.files();
    assert_eq!(before.len(), 1);
    assert!(!made.state().blocks().is_empty());
    assert!(before == made.files());
}

#[cfg(unix)]
#[test]
fn a_folder_that_may_not_be_written_to_is_enough() {
    use std::os::unix::fs::PermissionsExt;
    let folder = recording("tools");
    let made = make(&folder, Filled::All);
    let allow = |mode| {
        fs::set_permissions(made.path(), fs::Permissions::from_mode(mode & 0o666)).unwrap();
        fs::set_permissions(made.folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o555);
    let state = made.state();
    allow(0o755);
    assert!(!state.blocks().is_empty());
}

#[test]
fn damage_anywhere_is_told_or_read_around_and_never_a_crash() {
    let folder = recording("text");
    let made = make(&folder, Filled::All);
    let whole = fs::read(made.path()).unwrap();
    let read = |bytes: &[u8]| {
        fs::write(made.path(), bytes).unwrap();
        let database = Database::open(&made.path()).map_err(words)?;
        database.read_session(&made.session, &mut |_| Ok::<_, DatabaseError>(())).map_err(words)
    };
    let mut told = 0;
    for place in (0..whole.len()).step_by(397) {
        let mut damaged = whole.clone();
        damaged[place..].iter_mut().take(48).for_each(|byte| *byte = !*byte);
        told += usize::from(read(&damaged).is_err());
        told += usize::from(read(&whole[..place]).is_err());
    }
    assert!(told > 20, "{told}");
    let place = made.path().display().to_string();
    let without_place = |told: Result<(), String>| told.unwrap_err().replace(&place, "<db>");
    insta::assert_snapshot!(without_place(read(b"")), @"`<db>` is not a SQLite database, or is encrypted: it does not begin as one: Error code 26: file is not a database; OpenCode's is `opencode.db` in `~/.local/share/opencode`");
    insta::assert_snapshot!(without_place(read(&[7; 8192])), @"`<db>` is not a SQLite database, or is encrypted: it does not begin as one: Error code 26: file is not a database; OpenCode's is `opencode.db` in `~/.local/share/opencode`");
    insta::assert_snapshot!(without_place(read(&whole[..whole.len() / 2])), @"`<db>` is damaged: database disk image is malformed: Error code 11: database disk image is malformed; `opencode export` may still read the session; `sqlite3 FILE .recover` saves what is left");
}

#[test]
fn a_locked_database_is_told() {
    let folder = recording("text");
    let made = make(&folder, Filled::All);
    let owner = Connection::open(made.path()).unwrap();
    owner.pragma_update(None, "journal_mode", "DELETE").unwrap();
    owner.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let told = Database::open(&made.path()).map(|_| ()).map_err(words).unwrap_err();
    let told = told.replace(&made.path().display().to_string(), "<db>");
    insta::assert_snapshot!(told, @"`<db>` is locked by another program: database is locked: Error code 5: database is locked; try again when it is done; nothing was changed");
}

#[test]
fn names_with_signs_of_addresses_are_names() {
    let folder = recording("text");
    let made = make(&folder, Filled::All);
    let odd = made.folder.path().join("a%20b?mode=rwc#c é.db");
    fs::rename(made.path(), &odd).unwrap();
    let database = Database::open(&odd).map_err(words).unwrap();
    assert_eq!(database.only_session().map_err(words).unwrap(), made.session);
}
