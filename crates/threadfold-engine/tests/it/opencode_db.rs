//! OpenCode's database, followed while OpenCode writes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::Value;
use threadfold_convert::opencode;
use threadfold_core::{SessionId, StateHash};
use threadfold_engine::{Follow, FoundSession, InputOptions, Session, open_one, records_of};
use threadfold_fold::{RecordKind, SessionFile, parse_transcript};
use threadfold_store::{MemoryStore, Store};
use threadfold_testkit::opencode::database::{
    DatabaseContent, add_newer_tables, empty, insert, recording, recordings,
};

use crate::recordings::{Dice, open, settled_hash};

/// Something that OpenCode writes at once.
type Write = Vec<(&'static str, String, Value)>;

/// Returns what OpenCode wrote of a recording, one commit after another, and the session.
fn writes(folder: &Path, filled: DatabaseContent) -> (Vec<Write>, String) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let rows: Vec<Value> = read("db_rows.jsonl").lines().map(parse).collect();
    let root = rows[0]["row"]["id"].as_str().unwrap().to_owned();
    let insert = |it: &Value| ("insert", it["table"].as_str().unwrap().into(), it["row"].clone());
    if filled == DatabaseContent::RowsOnly {
        let mut writes: Vec<Write> = Vec::new();
        for record in &rows {
            // A text is kept empty when it begins, and whole when it ends.
            let mut begun = record.clone();
            if record["row"]["data"]["type"] == "text" {
                begun["row"]["data"]["text"] = "".into();
                begun["row"]["time_updated"] = record["row"]["time_created"].clone();
                writes.push(vec![insert(&begun)]);
                writes.push(vec![("update", "part".into(), record["row"].clone())]);
            } else {
                writes.push(vec![insert(record)]);
            }
        }
        return (writes, root);
    }
    let mut begun = BTreeSet::new();
    let events = read("db_event.jsonl");
    let writes = events.lines().map(parse).map(|event| {
        let session = event["aggregate_id"].as_str().unwrap().to_owned();
        let mut write: Write = Vec::new();
        // The rows of a session come with the first event of its log.
        if begun.insert(session.clone()) {
            let is_own = |it: &&Value| {
                [&it["row"]["session_id"], &it["row"]["id"]].iter().any(|id| **id == session)
            };
            write.extend(rows.iter().filter(is_own).map(insert));
        }
        write.push(("insert", "event".into(), event));
        write
    });
    let writes = writes.collect();
    (writes, root)
}

fn perform(connection: &Connection, write: &Write) {
    connection.execute_batch("BEGIN").unwrap();
    for (what, table, row) in write {
        if *what == "update" {
            let id = row["id"].as_str().unwrap();
            connection.execute(&format!("DELETE FROM {table} WHERE id = ?1"), [id]).unwrap();
        }
        insert(connection, table, row);
    }
    connection.execute_batch("COMMIT").unwrap();
}

fn found(path: &Path, session: &str) -> FoundSession {
    open_one(path, &InputOptions { session: Some(session), ..InputOptions::default() }).unwrap()
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// Follows a database while it is written, stopped now and then; returns how much was taken.
async fn follow(
    store: &Arc<dyn Store>,
    (path, session): (&Path, &str),
    writes: &[Write],
    dice: &mut Dice,
) -> u64 {
    let connection = empty(path);
    if writes.iter().flatten().any(|(_, table, _)| table == "session_v2") {
        add_newer_tables(&connection);
    }
    let id = SessionId::from(session);
    let mut taken = 0;
    let mut following: Option<(Session, Box<dyn Follow>)> = None;
    for (number, write) in writes.iter().enumerate() {
        perform(&connection, write);
        if dice.below(3) > 0 && number + 1 < writes.len() {
            continue;
        }
        if dice.below(4) == 0
            && let Some((session, _)) = following.take()
        {
            session.close().await.unwrap();
        }
        let (session, follower) = match &mut following {
            Some(following) => following,
            none => none.insert((open(store, &id).await, found(path, session).content.follower())),
        };
        taken += follower.poll(session, &mut |_| {}).await.unwrap().records;
    }
    let (mut last, mut follower) = following.unwrap();
    assert_eq!(follower.poll(&mut last, &mut |_| {}).await.unwrap().records, 0);
    let mut again = found(path, session).content.follower();
    let intake = again.poll(&mut last, &mut |_| {}).await.unwrap();
    assert_eq!(intake.records, 0, "what is in the log is not new");
    last.close().await.unwrap();
    taken
}

/// Returns the hash of the state that the database gives without a store.
async fn read_at_once(path: &Path, session: &str) -> StateHash {
    let found = found(path, session);
    let records = records_of(&found.id, std::slice::from_ref(&found)).await.unwrap();
    let lines = records.iter().filter(|it| it.kind == RecordKind::Line);
    let bytes: Vec<u8> = lines.flat_map(|it| it.bytes.to_vec()).collect();
    parse_transcript(opencode::AGENT, &[SessionFile { path: "rows", bytes: &bytes }]).hash()
}

async fn check(recording: &Path, filled: DatabaseContent, seed: u64) {
    let name = recording.display();
    let (writes, session) = writes(recording, filled);
    if writes.is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let followed = store();
    let taken = follow(&followed, (&path, &session), &writes, &mut Dice::new(seed)).await;

    let imported = store();
    let id = SessionId::from(session.as_str());
    let mut whole = open(&imported, &id).await;
    let intake = found(&path, &session).read_into(&mut whole, &mut |_| {}).await.unwrap();
    let at_once = intake.records;
    whole.close().await.unwrap();
    let hashes = (settled_hash(&followed, &id).await, settled_hash(&imported, &id).await);
    assert_eq!(hashes.0, hashes.1, "{name}");
    assert_eq!(hashes.1, read_at_once(&path, &session).await, "{name}");
    match filled {
        // Nothing of a log is taken twice.
        DatabaseContent::All if recording.join("db_event.jsonl").exists() => {
            assert_eq!(taken, at_once, "{name}");
        }
        // Rows are taken again when they changed, and sessions with each look.
        _ => assert!(taken >= at_once, "{name}"),
    }
}

#[tokio::test]
async fn a_log_followed_over_restarts_equals_an_import() {
    for (seed, recording) in recordings().iter().enumerate() {
        check(recording, DatabaseContent::All, seed as u64 + 1).await;
    }
}

#[tokio::test]
async fn rows_followed_over_restarts_equal_an_import() {
    for (seed, recording) in recordings().iter().enumerate() {
        check(recording, DatabaseContent::RowsOnly, seed as u64 + 1).await;
    }
}

#[tokio::test]
async fn only_new_rows_are_read() {
    let (writes, session) = writes(&recording("tools"), DatabaseContent::All);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let connection = empty(&path);
    let store = store();
    let mut kept = open(&store, &SessionId::from(session.as_str())).await;
    let mut follower: Option<Box<dyn Follow>> = None;
    for write in &writes {
        perform(&connection, write);
        let follower = follower.get_or_insert_with(|| found(&path, &session).content.follower());
        let taken = follower.poll(&mut kept, &mut |_| {}).await.unwrap();
        assert_eq!((taken.records, taken.new_parts), (1, 0));
    }
    kept.close().await.unwrap();
}
