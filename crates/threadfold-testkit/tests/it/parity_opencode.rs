//! Parity on the real program: OpenCode's bus is folded while it runs, its store after.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use threadfold_convert::opencode;
use threadfold_core::SessionId;
use threadfold_fold::parity::{SideState, Verdict, compare_sides, replay};
use threadfold_fold::{
    Fold, Record, RecordKind, SessionFile, Slices, SourceRole, SourceSpec, file_records,
};
use threadfold_testkit::{
    AgentHome, Availability, Events, OpenCode, ScriptedModel, Server, opencode_scripts,
    report_skipped,
};

/// After the last text of a turn OpenCode writes summaries, whose end is not signalled.
const SILENCE: Duration = Duration::from_millis(500);

/// Scripts whose exports are compared; each export starts the program and equals the API's answers.
const EXPORTED: [&str; 2] = ["subagent", "held_tool"];

/// Returns OpenCode, or reports that the test is skipped.
fn opencode() -> Option<OpenCode> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    match OpenCode::find(&target.join("agents")).unwrap() {
        Availability::Found(opencode) => Some(opencode),
        Availability::Unavailable(reason) => {
            report_skipped(target, "real OpenCode", &reason).unwrap();
            None
        }
    }
}

/// A stored format: its name, and its files by path.
type StoredFormat = (&'static str, Vec<(String, Vec<u8>)>);

/// The source number of the bus.
const BUS: u32 = 1;

/// A bus that is folded while it is received.
struct LiveBus {
    name: &'static str,
    fold: Fold,
    records: Vec<Record>,
    /// How many times the state was seen to grow.
    seen_growing: usize,
}

impl LiveBus {
    fn new(name: &'static str) -> Self {
        let fold = Fold::new(SessionId::from(""), Slices::default());
        let mut bus = Self { name, fold, records: Vec::new(), seen_growing: 0 };
        let spec = SourceSpec::new(opencode::AGENT, SourceRole::Stream, "bus");
        bus.push_record(Record::new(RecordKind::Source, BUS, 0, spec.to_json()));
        bus
    }

    fn push(&mut self, line: Vec<u8>) {
        let before = self.fold.conversation().clone();
        self.push_record(Record::new(RecordKind::Line, BUS, 0, line));
        self.seen_growing += usize::from(before != *self.fold.conversation());
    }

    fn finish(&mut self) {
        self.push_record(Record::new(RecordKind::End, BUS, 0, ""));
    }

    fn push_record(&mut self, record: Record) {
        let seq = self.fold.seq() + 1;
        let step = self.fold.push(&record.clone().at(seq));
        assert_eq!(step.oddities, [], "{}: {:?}", self.name, step.events);
        self.records.push(record);
    }
}

/// A run of a script in a folder of its own.
struct Run<'a> {
    server: &'a Server<'a>,
    folder: PathBuf,
    session: String,
    events: Events,
    bus: LiveBus,
}

impl<'a> Run<'a> {
    fn start(server: &'a Server<'a>, home: &AgentHome, name: &'static str) -> Self {
        let folder = home.project().join(name);
        fs::create_dir(&folder).unwrap();
        let mut bus = LiveBus::new(name);
        let mut events = server.events(&folder).unwrap();
        // Events reach only connected clients.
        bus.push(events.next().unwrap().unwrap());
        let session = server.create_session(&folder).unwrap();
        server.prompt(&folder, &session, &format!("[[play:{name}]] please run")).unwrap();
        Self { server, folder, session, events, bus }
    }

    fn wait_for(&mut self, what: impl Fn(&Value) -> bool) {
        for line in self.events.by_ref() {
            let line = line.unwrap();
            let data = line.strip_prefix(b"data:").unwrap_or(&line);
            let found = serde_json::from_slice(data).is_ok_and(|event| what(&event));
            self.bus.push(line);
            if found {
                return;
            }
        }
        panic!("{}: the bus ended", self.bus.name);
    }

    fn wait_for_idle(&mut self) {
        let session = self.session.clone();
        self.wait_for(|event| {
            event["type"] == "session.idle" && event["properties"]["sessionID"] == *session
        });
        self.listen_until_silence();
    }

    fn listen_until_silence(&mut self) {
        while let Some(line) = self.events.next_within(SILENCE) {
            self.bus.push(line);
        }
    }

    /// Returns what is kept of the session and its children, in each form.
    fn stored(&self) -> Vec<StoredFormat> {
        let mut sessions = vec![self.session.clone()];
        sessions.extend(self.server.descendants(&self.folder, &self.session).unwrap());
        let (mut exports, mut answers) = (Vec::new(), Vec::new());
        for (number, session) in sessions.iter().enumerate() {
            if EXPORTED.contains(&self.bus.name) {
                let export = self.server.export(&self.folder, session).unwrap();
                exports.push((format!("{number}.export.json"), export));
            }
            let told = self.server.session(&self.folder, session).unwrap();
            answers.push((format!("{number}.a.session.json"), told));
            let told = self.server.messages(&self.folder, session).unwrap();
            answers.push((format!("{number}.b.messages.json"), told));
        }
        // The server still runs, and still writes.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let database = Connection::open_with_flags(self.server.database(), flags).unwrap();
        let rows = [("session", "id"), ("message", "session_id"), ("part", "session_id")]
            .map(|(table, owner)| dump(&database, table, owner, &sessions))
            .concat();
        let log = dump(&database, "event", "aggregate_id", &sessions);
        vec![
            ("exports", exports),
            ("answers", answers),
            ("rows", vec![("rows.jsonl".to_owned(), rows)]),
            ("log", vec![("log.jsonl".to_owned(), log)]),
        ]
    }

    /// Checks that bus and store fold to one state, however they are interleaved.
    fn assert_equal(mut self) {
        let kept = self.stored();
        // Events sent while the store was read are in it.
        while let Some(line) = self.events.next_within(Duration::ZERO) {
            self.bus.push(line);
        }
        self.bus.finish();
        let LiveBus { name, records, seen_growing, .. } = &self.bus;
        for (form, files) in kept.iter().filter(|(_, files)| !files.is_empty()) {
            let files: Vec<_> =
                files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
            let session = SessionId::from(self.session.as_str());
            let stored = file_records(opencode::AGENT, BUS + 1, &files);
            let sides = [records, &stored].map(|it| SideState::fold(opencode::AGENT, &session, it));
            let comparison = compare_sides(opencode::AGENT, &sides[0], &sides[1]);
            assert_eq!(comparison.differences, [], "{name} {form}");
            assert_eq!(comparison.verdict(), Verdict::Equal, "{name}: {:?}", comparison.lacking);
            assert!(comparison.blocks > 0, "{name} {form}");
            // A request that is refused at once leaves nothing to grow.
            assert!(*name == "error400" || *seen_growing > comparison.blocks, "{name} {form}");
            let replayed = replay(&session, records, &stored);
            assert!(replayed.holds(), "{name} {form}: {replayed:?}");
        }
    }
}

/// Returns the rows of a table that belong to sessions, a line for each, in the order of their
/// making.
fn dump(database: &Connection, table: &str, owner: &str, sessions: &[String]) -> Vec<u8> {
    let mut dumped = String::new();
    for session in sessions {
        let order = if table == "event" { "seq" } else { "id" };
        let query = format!("SELECT * FROM {table} WHERE {owner} = ?1 ORDER BY {order}");
        let mut statement = database.prepare(&query).unwrap();
        let columns: Vec<String> = statement.column_names().iter().map(|it| (*it).into()).collect();
        let mut rows = statement.query([session]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let fields: Vec<_> = columns
                .iter()
                .enumerate()
                .map(|(index, column)| {
                    format!("\"{column}\":{}", json(column, row.get_ref(index).unwrap()))
                })
                .collect();
            let fields = format!("{{{}}}", fields.join(","));
            dumped += &match table {
                "event" => fields,
                _ => format!("{{\"table\":\"{table}\",\"row\":{fields}}}"),
            };
            dumped.push('\n');
        }
    }
    dumped.into_bytes()
}

fn json(column: &str, value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            let text = std::str::from_utf8(text).unwrap();
            if column == "data" { text.to_owned() } else { Value::from(text).to_string() }
        }
    }
}

#[test]
fn the_bus_and_the_store_of_a_real_run_are_equal() {
    let Some(opencode) = opencode() else { return };
    let model = ScriptedModel::builder().require_tools().scripts(opencode_scripts());
    let model = model.start().unwrap();
    let home = AgentHome::new().unwrap();
    let server = opencode.serve(&home, &model.base_url()).unwrap();
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
        run.wait_for_idle();
        run.assert_equal();
    }

    for (name, begun) in [("held_text", "message.part.delta"), ("held_tool", "running")] {
        let mut run = Run::start(&server, &home, name);
        run.wait_for(|event| {
            let output = &event["properties"]["part"]["state"]["metadata"]["output"];
            event["type"] == begun || (begun == "running" && output == "begun\n")
        });
        server.abort(&run.folder, &run.session).unwrap();
        run.wait_for_idle();
        run.assert_equal();
    }
    model.release("held");

    let scripts: BTreeSet<_> =
        model.requests().into_iter().filter_map(|it| Some(it.played?.script)).collect();
    assert!(scripts.contains("child") && scripts.contains("outer"), "{scripts:?}");
}
