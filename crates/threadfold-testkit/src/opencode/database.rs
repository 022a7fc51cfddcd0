//! Databases as OpenCode makes them, filled from recordings.

#![allow(dead_code, reason = "the tests of the module and of the program each use a part")]

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

/// Which tables are filled.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Filled {
    All,
    RowsOnly,
}

/// Makes a database, and returns the session that is in it with its children.
pub(crate) fn fill(path: &Path, recording: &Path, filled: Filled) -> String {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(include_str!("schema.sql")).unwrap();
    add(&connection, recording, filled)
}

/// Adds a session with its children, and returns its name.
pub(crate) fn add(connection: &Connection, recording: &Path, filled: Filled) -> String {
    let lines = |name: &str| fs::read_to_string(recording.join(name)).unwrap_or_default();
    let mut session = None;
    connection.execute_batch("BEGIN").unwrap();
    for line in lines("db_rows.jsonl").lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        insert(connection, record["table"].as_str().unwrap(), &record["row"]);
        session = session.or(record["row"]["id"].as_str().map(str::to_owned));
    }
    if filled == Filled::All {
        for line in lines("db_event.jsonl").lines() {
            insert(connection, "event", &serde_json::from_str(line).unwrap());
        }
    }
    connection.execute_batch("COMMIT").unwrap();
    session.unwrap()
}

/// Adds a row; a table that is not read is passed over.
pub(crate) fn insert(connection: &Connection, table: &str, row: &Value) {
    let exists: bool = connection
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .unwrap();
    if !exists {
        return;
    }
    let columns: Vec<_> = row.as_object().unwrap().iter().filter(|it| it.0 != "_rowid").collect();
    let names: Vec<_> = columns.iter().map(|it| format!("\"{}\"", it.0)).collect();
    let marks = vec!["?"; names.len()].join(",");
    let text = format!("INSERT INTO {table} ({}) VALUES ({marks})", names.join(","));
    let values = columns.iter().map(|(_, value)| match value {
        Value::Null => rusqlite::types::Value::Null,
        Value::String(text) => text.clone().into(),
        Value::Number(number) if number.is_i64() => number.as_i64().into(),
        Value::Number(number) => number.as_f64().into(),
        other => other.to_string().into(),
    });
    connection.execute(&text, rusqlite::params_from_iter(values)).unwrap();
}

/// Returns where a recording is.
pub(crate) fn recording(name: &str) -> PathBuf {
    let convert = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert");
    convert.join("tests/data/opencode").join(name)
}

/// Returns the recordings that have a database.
pub(crate) fn recordings() -> Vec<PathBuf> {
    let entries = fs::read_dir(recording("")).unwrap();
    let mut folders: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
    folders.retain(|it| it.join("db_rows.jsonl").exists());
    folders.sort();
    folders
}
