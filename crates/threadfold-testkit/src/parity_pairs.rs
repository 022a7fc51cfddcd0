//! Recorded pairs: the stream and the files of one run, compared as they are and after a change.

pub mod identity;
pub mod mutate;
pub mod mutation_count;
pub mod permute;
pub mod place_rules;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use threadfold_convert::{Agent, claude, codex, opencode};
use threadfold_core::SessionId;
use threadfold_fold::parity::{Comparison, Replay, SideState, compare_sides, replay};
use threadfold_fold::{Record, SessionFile, file_records, stream_records};

/// The number of the source that a stream is.
const STREAM: u32 = 1;

/// The stream and the files of one run.
#[derive(Clone, Debug)]
pub struct RecordedPair {
    /// The name of its folder.
    pub name: String,
    /// The agent that ran.
    pub agent: Agent,
    /// The session, if the stream may hold several.
    pub session: SessionId,
    /// The stream.
    pub stream: Vec<u8>,
    /// The files, by path.
    pub files: Vec<(String, Vec<u8>)>,
}

impl RecordedPair {
    /// Returns the records of the stream.
    pub fn stream_records(&self) -> Vec<Record> {
        stream_records(self.agent, STREAM, &self.stream)
    }

    /// Returns the records of the files, for a log that has the stream as well.
    pub fn file_records(&self) -> Vec<Record> {
        let files: Vec<_> =
            self.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
        file_records(self.agent, STREAM + 1, &files)
    }

    /// Folds the stream.
    pub fn stream_side(&self) -> SideState {
        let (stream, files) = (self.stream_records(), self.file_records());
        SideState::fold_stream(self.agent, &self.session, &stream, &files)
    }

    /// Folds the files.
    pub fn file_side(&self) -> SideState {
        SideState::fold(self.agent, &self.session, &self.file_records())
    }

    /// Compares both sides.
    pub fn compare(&self) -> Comparison {
        compare_sides(self.agent, &self.stream_side(), &self.file_side())
    }

    /// Pushes both sides in many interleavings.
    pub fn replay(&self) -> Replay {
        replay(&self.session, &self.stream_records(), &self.file_records())
    }
}

/// Reads the pairs in the folders below `root`, by name.
///
/// A pair of Claude Code is `stream.jsonl` beside a folder `transcript`. One of OpenCode is
/// `events.sse.jsonl` beside `export*.json`; without an export it is a pair with the log of events,
/// and one with the rows of a database of version 1 if they have the messages. One of
/// Codex is `stream*.jsonl` or `appserver*.jsonl`, one for each process, beside a folder `rollout`.
pub fn read_pairs(root: &Path) -> io::Result<Vec<RecordedPair>> {
    read(root, Forms::First)
}

/// Reads the pairs like [`read_pairs`], with one more for each other form in which a run is stored:
/// the log of events, and the rows of a database of either version.
pub fn read_pairs_of_all_forms(root: &Path) -> io::Result<Vec<RecordedPair>> {
    read(root, Forms::All)
}

/// Which stored forms of a run are read.
#[derive(Clone, Copy, PartialEq)]
enum Forms {
    /// The export, or what there is without one.
    First,
    /// All.
    All,
}

fn read(root: &Path, forms: Forms) -> io::Result<Vec<RecordedPair>> {
    let mut pairs = Vec::new();
    read_below(root, forms, &mut pairs)?;
    pairs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pairs)
}

fn read_below(folder: &Path, forms: Forms, pairs: &mut Vec<RecordedPair>) -> io::Result<()> {
    let found = read_pairs_of(folder, forms)?;
    if !found.is_empty() {
        pairs.extend(found);
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_below(&path, forms, pairs)?;
        }
    }
    Ok(())
}

fn read_pairs_of(folder: &Path, forms: Forms) -> io::Result<Vec<RecordedPair>> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let pair = |agent, name: &str, stream, files| RecordedPair {
        name: name.to_owned(),
        agent,
        session: SessionId::from(""),
        stream,
        files,
    };
    let (lines, transcript) = (folder.join("stream.jsonl"), folder.join("transcript"));
    if lines.is_file() && transcript.is_dir() {
        let mut files = Vec::new();
        walk(&transcript, &mut files)?;
        files.sort();
        let stream = fs::read(lines)?;
        // A fork has files of its own; a stream may also leave its session and begin another one.
        let sessions = sessions_of(&stream);
        let is_beside =
            |path: &str| sessions.iter().any(|it| path.contains(it)) || path.contains("/agent-");
        let first = sessions.first().cloned().unwrap_or_default();
        let is_named = |path: &str| path.contains(&format!("{first}.jsonl"));
        if files.iter().any(|(path, _)| is_named(path)) {
            files.retain(|(path, _)| is_beside(path));
        }
        // The files of a session come before those of the session that a command began after it.
        files.sort_by_key(|(path, _)| sessions.iter().position(|it| path.contains(it)));
        return Ok(vec![pair(claude::AGENT, &name, stream, files)]);
    }
    let rollout = folder.join("rollout");
    if rollout.is_dir() {
        let mut files = Vec::new();
        walk(&rollout, &mut files)?;
        files.sort();
        return Ok(vec![pair(codex::AGENT, &name, processes(folder)?, files)]);
    }
    let events = folder.join("events.sse.jsonl");
    if !events.is_file() {
        return Ok(Vec::new());
    }
    // A server that crashed and was started again has a stream before and one after.
    let earlier = folder.join("events.sse.before_crash.jsonl");
    let mut stream = if earlier.is_file() { fs::read(earlier)? } else { Vec::new() };
    stream.extend(fs::read(events)?);
    let mut pairs = Vec::new();
    let files = exports(folder)?;
    if let Some((_, first)) = files.first() {
        // A fork is a session of its own beside the one that it copied.
        let session = SessionId::from(session_of(first));
        let pair = pair(opencode::AGENT, &name, stream.clone(), files);
        pairs.push(RecordedPair { session, ..pair });
        if forms == Forms::First {
            return Ok(pairs);
        }
    }
    let later = folder.join("events_after_restart.sse.jsonl");
    if later.is_file() {
        stream.extend(fs::read(later)?);
    }
    // Version 2 answers with a list of messages that names no session.
    let history = folder.join("messages.json");
    if let (true, Some(first)) = (history.is_file(), pairs.first()) {
        let name = format!("{name} with its history");
        let files = vec![("messages.json".to_owned(), fs::read(history)?)];
        pairs.push(RecordedPair { name, files, ..first.clone() });
    }
    for (form, file) in [("log", "db_event.jsonl"), ("rows", "db_rows.jsonl")] {
        let path = folder.join(file);
        let bytes = if path.is_file() { fs::read(path)? } else { continue };
        let stored = if form == "log" { bytes } else { rows_read(&bytes, forms) };
        // Version 2 leaves its log empty; the newer protocol of version 1 has its messages there
        // alone.
        if form == "log" && !stored.is_empty() || has_messages(&stored) {
            let session =
                pairs.first().map_or_else(|| SessionId::from(""), |it| it.session.clone());
            let name = format!("{name} with its {form}");
            let files = vec![(file.to_owned(), stored)];
            let pair = pair(opencode::AGENT, &name, stream.clone(), files);
            pairs.push(RecordedPair { session, ..pair });
        }
    }
    Ok(pairs)
}

/// The tables that a preview of version 2 wrote into databases of version 1, which are not read there.
const NEWER_TABLES: [&str; 2] = ["session_message", "session_inbox"];

/// Returns the rows that are read of a database, in the form `{"table", "row"}`; a recorder may have
/// the name of the table among the columns.
fn rows_read(rows: &[u8], forms: Forms) -> Vec<u8> {
    let lines = rows.split(|byte| *byte == b'\n');
    let mut rows: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    for row in &mut rows {
        if let Some(table) = row.as_object_mut().and_then(|columns| columns.remove("_table")) {
            *row = json!({"table": table, "row": row.take()});
        }
    }
    let is_newer = forms == Forms::All && rows.iter().any(|row| row["table"] == "session_v2");
    rows.retain(|row| is_newer || !NEWER_TABLES.iter().any(|table| row["table"] == *table));
    rows.iter().flat_map(|row| format!("{row}\n").into_bytes()).collect()
}

/// Returns whether the rows of a database have messages, of either version.
fn has_messages(rows: &[u8]) -> bool {
    let mut rows = rows.split(|byte| *byte == b'\n');
    rows.any(|row| {
        let row = serde_json::from_slice::<Value>(row);
        row.is_ok_and(|row| row["table"] == "message" || row["table"] == "session_message")
    })
}

/// Returns the session of an export; nothing if it names none.
fn session_of(export: &[u8]) -> String {
    let export: Value = serde_json::from_slice(export).unwrap_or_default();
    let info = if export["data"].is_object() { &export["data"]["info"] } else { &export["info"] };
    info["id"].as_str().unwrap_or("").to_owned()
}

/// Returns the streams of all processes of a run, one after the other.
fn processes(folder: &Path) -> io::Result<Vec<u8>> {
    let mut streams: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        streams.extend(Some(path).filter(|it| it.extension().is_some_and(|it| it == "jsonl")));
    }
    // `stream.jsonl` is the first process, `stream.2.jsonl` the second; those of another view follow.
    streams.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name.starts_with("appserver"), name.matches('.').count(), name)
    });
    let mut all = Vec::new();
    for path in streams {
        all.extend(fs::read(path)?);
    }
    Ok(all)
}

/// Returns the sessions that a stream names, in their order.
fn sessions_of(stream: &[u8]) -> Vec<String> {
    let lines = stream.split(|byte| *byte == b'\n');
    let records = lines.filter_map(|it| serde_json::from_slice::<Value>(it).ok());
    let mut sessions: Vec<String> = Vec::new();
    for record in records {
        if let Some(session) = record["session_id"].as_str().filter(|it| !it.is_empty())
            && !sessions.iter().any(|known| known == session)
        {
            sessions.push(session.to_owned());
        }
    }
    sessions
}

/// Reads the exports of a session and of its children.
fn exports(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file.starts_with("export.") && file.ends_with(".json") {
            files.push((file, fs::read(&path)?));
        }
    }
    // The main session comes before its children: `export.json`, `export.child1.json`.
    files.sort_by_key(|(file, _)| (file.matches('.').count(), file.clone()));
    Ok(files)
}

fn walk(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else if [".jsonl", ".meta.json"].iter().any(|it| path.to_string_lossy().ends_with(it)) {
            files.push((path.to_string_lossy().into_owned(), fs::read(&path)?));
        }
    }
    Ok(())
}
