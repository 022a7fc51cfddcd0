//! Parity on the real program: OpenCode 2's events are folded while it runs, its store after.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use threadfold_convert::opencode;
use threadfold_core::SessionId;
use threadfold_fold::parity::{SideState, Verdict, compare_sides, replay};
use threadfold_fold::{SessionFile, file_records, stream_records};
use threadfold_testkit::{
    AgentHome, Availability, Events, NewerServer, OpenCode, ScriptedModel, opencode_newer_scripts,
    report_skipped,
};

/// The title is written beside the turn, and its end is not signalled.
const SILENCE: Duration = Duration::from_millis(500);

/// The source number of the stream.
const STREAM: u32 = 1;

/// Returns OpenCode 2, or reports that the test is skipped.
fn opencode() -> Option<OpenCode> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    match OpenCode::find_version(&target.join("agents"), OpenCode::NEWER_VERSION).unwrap() {
        Availability::Found(opencode) => Some(opencode),
        Availability::Unavailable(reason) => {
            report_skipped(target, "real OpenCode 2", &reason).unwrap();
            None
        }
    }
}

/// A stored format: its name, and its files by path.
type StoredFormat = (&'static str, Vec<(String, Vec<u8>)>);

/// A run of a script.
struct Run<'a> {
    name: &'static str,
    server: &'a NewerServer<'a>,
    session: String,
    events: Events,
    stream: Vec<u8>,
}

impl<'a> Run<'a> {
    fn start(server: &'a NewerServer<'a>, home: &AgentHome, name: &'static str) -> Self {
        let folder: PathBuf = home.project().join(name);
        fs::create_dir(&folder).unwrap();
        let mut events = server.events().unwrap();
        // Events reach only connected clients.
        let first = events.next().unwrap().unwrap();
        let session = server.create_session(&folder).unwrap();
        server.prompt(&session, &format!("[[play:{name}]] please run")).unwrap();
        let mut run = Self { name, server, session, events, stream: Vec::new() };
        run.push(&first);
        run
    }

    fn push(&mut self, line: &[u8]) {
        self.stream.extend_from_slice(line);
        self.stream.push(b'\n');
    }

    fn wait_for(&mut self, what: impl Fn(&Value) -> bool) {
        while let Some(line) = self.events.next() {
            let line = line.unwrap();
            let data = line.strip_prefix(b"data:").unwrap_or(&line);
            let found = serde_json::from_slice(data).is_ok_and(|event| what(&event));
            self.push(&line);
            if found {
                return;
            }
        }
        panic!("{}: the stream ended", self.name);
    }

    fn wait_for_end(&mut self) {
        let session = self.session.clone();
        self.wait_for(|event| {
            let kind = event["type"].as_str().unwrap_or("");
            let is_end = ["succeeded", "failed", "interrupted"]
                .iter()
                .any(|outcome| kind == format!("session.execution.{outcome}"));
            is_end && event["data"]["sessionID"] == *session
        });
        while let Some(line) = self.events.next_within(SILENCE) {
            self.push(&line);
        }
    }

    /// Returns what is kept of the session and its children, in each form.
    fn stored(&self) -> Vec<StoredFormat> {
        let mut sessions = vec![self.session.clone()];
        sessions.extend(self.server.descendants(&self.session).unwrap());
        let (mut exports, mut answers) = (Vec::new(), Vec::new());
        for (number, session) in sessions.iter().enumerate() {
            exports.push((format!("{number}.json"), self.server.export(session).unwrap()));
            answers.push((format!("{number}.a.json"), self.server.session(session).unwrap()));
            answers.push((format!("{number}.b.json"), self.server.messages(session).unwrap()));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let database = Connection::open_with_flags(self.server.database(), flags).unwrap();
        let rows = [("session_v2", "id", "id"), ("session_message", "session_id", "seq")]
            .map(|(table, owner, order)| dump(&database, (table, owner, order), &sessions))
            .concat();
        vec![
            ("exports", exports),
            ("answers", answers),
            ("rows", vec![("rows.jsonl".to_owned(), rows)]),
        ]
    }

    /// Checks that events and store fold to one state, however they are interleaved.
    fn assert_equal(self) {
        let session = SessionId::from(self.session.as_str());
        let streamed = stream_records(opencode::AGENT, STREAM, &self.stream);
        for (form, files) in self.stored() {
            let name = self.name;
            let files: Vec<_> =
                files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
            let stored = file_records(opencode::AGENT, STREAM + 1, &files);
            let sides =
                [&streamed, &stored].map(|it| SideState::fold(opencode::AGENT, &session, it));
            let comparison = compare_sides(opencode::AGENT, &sides[0], &sides[1]);
            assert_eq!(comparison.differences, [], "{name} {form}");
            assert_eq!(comparison.verdict(), Verdict::Equal, "{name}: {:?}", comparison.lacking);
            assert!(comparison.blocks > 0, "{name} {form}");
            let replayed = replay(&session, &streamed, &stored);
            assert!(replayed.holds(), "{name} {form}: {replayed:?}");
        }
    }
}

/// Returns the rows of a table that belong to sessions, a line for each.
fn dump(
    database: &Connection,
    (table, owner, order): (&str, &str, &str),
    sessions: &[String],
) -> Vec<u8> {
    let mut dumped = String::new();
    for session in sessions {
        let query = format!("SELECT * FROM {table} WHERE {owner} = ?1 ORDER BY {order}");
        let mut statement = database.prepare(&query).unwrap();
        let columns: Vec<String> = statement.column_names().iter().map(|it| (*it).into()).collect();
        let mut rows = statement.query([session]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let field = |(index, column): (usize, &String)| {
                let value = match row.get_ref(index).unwrap() {
                    ValueRef::Null => "null".to_owned(),
                    ValueRef::Integer(number) => number.to_string(),
                    ValueRef::Real(number) => number.to_string(),
                    ValueRef::Text(text) | ValueRef::Blob(text) => {
                        let text = std::str::from_utf8(text).unwrap();
                        let is_json = ["data", "model", "revert"].contains(&column.as_str());
                        if is_json { text.to_owned() } else { Value::from(text).to_string() }
                    }
                };
                format!("\"{column}\":{value}")
            };
            let fields: Vec<_> = columns.iter().enumerate().map(field).collect();
            dumped += &format!("{{\"table\":\"{table}\",\"row\":{{{}}}}}\n", fields.join(","));
        }
    }
    dumped.into_bytes()
}

#[test]
fn the_events_and_the_store_of_a_real_run_of_version_2_are_equal() {
    let Some(opencode) = opencode() else { return };
    let model = ScriptedModel::builder().require_tools().scripts(opencode_newer_scripts());
    let model = model.start().unwrap();
    let home = AgentHome::new().unwrap();
    let server = opencode.serve_newer(&home, &model.base_url()).unwrap();
    for name in [
        "text",
        "thinking",
        "tools",
        "parallel",
        "subagent",
        "subagents_parallel",
        "nested",
        "error_retry",
        "error400",
        "drop_midstream",
        "drop_after_tool",
        "maxtokens",
    ] {
        let mut run = Run::start(&server, &home, name);
        run.wait_for_end();
        run.assert_equal();
    }
    for (name, begun) in
        [("held_text", "session.text.delta"), ("held_tool", "session.tool.progress")]
    {
        let mut run = Run::start(&server, &home, name);
        run.wait_for(|event| event["type"] == begun);
        server.interrupt(&run.session).unwrap();
        run.wait_for_end();
        run.assert_equal();
    }
    model.release("held");
}
