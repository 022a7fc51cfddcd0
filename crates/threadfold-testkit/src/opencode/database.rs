//! Creates databases in OpenCode's format, filled from recordings.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

/// Which tables are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseContent {
    /// Sessions, messages, parts, and the log of events.
    All,
    /// Sessions, messages and parts; the log stays empty.
    RowsOnly,
}

/// Creates a database without sessions at `path`.
///
/// # Panics
///
/// If the database cannot be written.
pub fn empty(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a database can be created");
    connection.execute_batch(include_str!("schema.sql")).expect("the schema is in order");
    connection
}

/// Creates a database at `path`, fills it from a recording, and returns the id of its root session.
///
/// # Panics
///
/// If the database cannot be written, or the recording cannot be read.
pub fn fill(path: &Path, recording: &Path, filled: DatabaseContent) -> String {
    add(&empty(path), recording, filled)
}

/// Adds a recorded session with its children, and returns its id.
///
/// # Panics
///
/// If the database cannot be written, or the recording has no session.
pub fn add(connection: &Connection, recording: &Path, filled: DatabaseContent) -> String {
    if is_newer(recording) {
        add_newer_tables(connection);
    }
    let lines = |name: &str| fs::read_to_string(recording.join(name)).unwrap_or_default();
    let mut session = None;
    connection.execute_batch("BEGIN").expect("it can be written");
    for line in lines("db_rows.jsonl").lines() {
        let record: Value = serde_json::from_str(line).expect("a recorded row is JSON");
        let table = record["table"].as_str().expect("a recorded row names its table");
        insert(connection, table, &record["row"]);
        session = session.or(record["row"]["id"].as_str().map(str::to_owned));
    }
    if filled == DatabaseContent::All {
        for line in lines("db_event.jsonl").lines() {
            let event = serde_json::from_str(line).expect("a recorded event is JSON");
            insert(connection, "event", &event);
        }
    }
    connection.execute_batch("COMMIT").expect("it can be written");
    session.expect("a recording has a session")
}

/// The tables of version 2, as far as they are read.
const NEWER: &str = include_str!("schema_v2.sql");

/// Adds the tables of version 2, unless they exist.
///
/// # Panics
///
/// If the database cannot be written.
pub fn add_newer_tables(connection: &Connection) {
    connection.execute_batch(NEWER).expect("the schema of version 2 is in order");
}

/// Returns whether a recording is one of version 2.
pub fn is_newer(recording: &Path) -> bool {
    recording.to_string_lossy().contains("@2.")
}

/// Inserts a row; one of a table that the schema lacks is skipped.
///
/// # Panics
///
/// If the row is not an object, or does not fit the table.
pub fn insert(connection: &Connection, table: &str, row: &Value) {
    let exists: bool = connection
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .expect("tables can be listed");
    if !exists {
        return;
    }
    let row = row.as_object().expect("a row is an object");
    let columns: Vec<_> = row.iter().filter(|it| it.0 != "_rowid").collect();
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
    let values = rusqlite::params_from_iter(values);
    connection.execute(&text, values).expect("the row fits the table");
}

/// Creates a database at `path` as it was at one stage of the recorded update from version 1 to 2.
///
/// # Panics
///
/// If there is no such stage, or the database cannot be written.
pub fn fill_stage(path: &Path, stage: &str) {
    let folder = recording("").with_file_name("opencode_migration");
    let schema = if stage.starts_with('1') { "1_v1.sql" } else { "2_v2.sql" };
    let schema = fs::read_to_string(folder.join(schema)).expect("the schema was recorded");
    let rows = fs::read_to_string(folder.join(format!("{stage}.jsonl")));
    let connection = Connection::open(path).expect("a database can be created");
    // The rows are in the order of their tables' names.
    let schema = format!("PRAGMA foreign_keys = OFF; {schema}; BEGIN");
    connection.execute_batch(&schema).expect("the schema is in order");
    for line in rows.expect("the stage was recorded").lines() {
        let record: Value = serde_json::from_str(line).expect("a recorded row is JSON");
        let table = record["table"].as_str().expect("a recorded row names its table");
        insert(&connection, table, &record["row"]);
    }
    connection.execute_batch("COMMIT").expect("it can be written");
}

/// Returns the folder of a recording.
pub fn recording(name: &str) -> PathBuf {
    let convert = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert");
    convert.join("tests/data/opencode").join(name)
}

/// Returns the folders of the recordings that have database rows, sorted.
///
/// # Panics
///
/// If the recordings cannot be listed.
pub fn recordings() -> Vec<PathBuf> {
    let entries = fs::read_dir(recording("")).expect("recordings can be listed");
    let mut folders: Vec<_> =
        entries.map(|it| it.expect("a folder can be listed").path()).collect();
    folders.retain(|it| it.join("db_rows.jsonl").exists());
    folders.sort();
    folders
}
