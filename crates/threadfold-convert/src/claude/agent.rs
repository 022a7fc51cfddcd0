//! Claude Code's row of the table of agents.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ClaudeConverter;
use super::layout::{self, belongs_to, is_session_name};
use crate::agent::{AgentModule, OrderedFile, SessionFile};
use crate::bundle::{self, unpack};
use crate::lines::lines;
use crate::{Agent, FeedKind, Format, Shape, memory};

/// Claude Code and the Claude Agent SDK.
pub const AGENT: Agent = Agent::new(&AgentModule {
    name: "claude",
    other_names: &["claude-sdk", "claude-code"],
    title: "Claude Code",
    formats: FORMATS,
    recognize_record,
    recognize_opening,
    converter: |_| Box::new(ClaudeConverter::default()),
    resume: |memory| Ok(Box::new(memory::read::<ClaudeConverter>(memory)?)),
    unpack,
    is_session_name,
    part_name: layout::subagent_of_line,
    title_marks: &["-title\""],
    has_one_main_file: true,
    reading_order,
});

const FORMATS: &[Format] = &[
    Format {
        name: "claude-stream",
        help: "Stream of Claude Code or the Agent SDK (`--output-format stream-json`)",
        shape: Shape::Stream,
    },
    Format {
        name: "claude-transcript",
        help: "Session file of Claude Code (JSONL)",
        shape: Shape::Transcript,
    },
];

const STREAM: &Format = &FORMATS[0];
const TRANSCRIPT: &Format = &FORMATS[1];

/// The fields that distinguish Claude Code's records from those of other agents.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Marks {
    #[serde(rename = "type")]
    kind: Option<serde_json::Value>,
    #[serde(rename = "sessionId")]
    file_session: Option<IgnoredAny>,
    session_id: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
}

impl Marks {
    fn format(&self) -> Option<&'static Format> {
        let kind = self.kind.as_ref().and_then(serde_json::Value::as_str).unwrap_or("");
        if matches!(kind, "stream_event" | "result" | "control_response" | "control_request") {
            return Some(STREAM);
        }
        // Other agents use `sessionId` too, in one object with all messages.
        if self.file_session.is_some() && self.messages.is_none() {
            return Some(TRANSCRIPT);
        }
        if self.session_id.is_some() {
            return Some(STREAM);
        }
        let is_line = ["user", "assistant", "summary", "file-history-snapshot"].contains(&kind);
        is_line.then_some(TRANSCRIPT)
    }
}

fn recognize_record(line: &[u8]) -> Option<&'static Format> {
    serde_json::from_slice::<Marks>(line).ok()?.format()
}

/// Recognizes a bundle: a list of records, or an object that holds all transcripts.
fn recognize_opening(head: &[u8]) -> Option<&'static Format> {
    match bundle::opening(head)? {
        bundle::BundleStart::Object => Some(TRANSCRIPT),
        bundle::BundleStart::List(first) => match serde_json::from_str::<Marks>(first) {
            Ok(marks) => {
                (marks.session_id.is_some() || marks.file_session.is_some()).then_some(STREAM)
            }
            // The first record is truncated or corrupt, and no other agent writes such lists.
            Err(_) => Some(STREAM),
        },
    }
}

/// Returns the metadata files first, then the main file, then the subagents' files. Sessions are in
/// the order of their files, because a command may begin a session that goes on with another one.
///
/// Metadata links subagents to calls by id; read first, no link depends on the prompt.
fn reading_order(files: &[SessionFile<'_>]) -> Vec<OrderedFile> {
    let paths: Vec<String> = files.iter().map(|file| file.path.replace('\\', "/")).collect();
    let find = |path: &str| paths.iter().position(|it| it == path);
    let file = |index: usize, kind| OrderedFile::new(index, kind, &paths[index]);
    let mut ordered = Vec::new();
    let mut found = layout::sessions(&paths);
    found.sort_by_key(|session| find(&session.main));
    for session in &found {
        // The folder of 2.0 holds the subagents of all its sessions, and only their lines name one.
        let is_own = |bytes: &[u8]| {
            lines(bytes).next().is_none_or(|first| belongs_to(first.bytes, &session.session))
        };
        let is_mine = |path: &str| {
            find(path).is_some_and(|index| found.len() == 1 || is_own(files[index].bytes))
        };
        let mine = || session.subagents.iter().filter(|it| is_mine(&it.path));
        for subagent in mine() {
            let meta = subagent.meta.as_deref().and_then(find);
            ordered.extend(meta.map(|it| file(it, FeedKind::SubagentMeta(subagent.agent.clone()))));
        }
        ordered.extend(find(&session.main).map(|it| file(it, FeedKind::Main)));
        for subagent in mine() {
            let found = find(&subagent.path);
            ordered.extend(found.map(|it| file(it, FeedKind::Subagent(subagent.agent.clone()))));
        }
    }
    // Nothing looks like a session: files that somebody renamed are read as they are.
    if found.is_empty() {
        ordered.extend((0..files.len()).map(|index| file(index, FeedKind::Main)));
    }
    ordered
}
