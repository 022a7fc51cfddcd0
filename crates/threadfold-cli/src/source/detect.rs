//! Finding out what an input is, by how it begins.

use std::io::{self, Read};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use threadfold_convert::lines::lines;

use super::Format;

/// How much of an input is looked at to find out what it is.
const HEAD: usize = 1 << 20;
/// How many lines are looked at.
const LINES: usize = 20;
/// How many wrappers an event may stand in.
const WRAPPERS: usize = 2;
/// How every SQLite file begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Reads until a whole line is there that says something.
pub(super) fn read_head(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let count = match reader.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        head.extend_from_slice(&chunk[..count]);
        if count == 0 || head.len() >= HEAD || is_enough(&head) {
            return Ok(head);
        }
    }
}

/// Says whether a whole record is there, or so many lines that none will come.
fn is_enough(head: &[u8]) -> bool {
    let whole = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let is_record = |line: &[u8]| serde_json::from_slice::<IgnoredAny>(data(line)).is_ok();
    let mut count = 0;
    head.starts_with(SQLITE)
        || lines(&head[..whole]).take(LINES).inspect(|_| count += 1).any(|it| is_record(it.bytes))
        || count == LINES
}

/// What tells formats apart.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Option<serde_json::Value>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    context: Option<IgnoredAny>,
    #[serde(rename = "sessionId")]
    file_session: Option<IgnoredAny>,
    session_id: Option<IgnoredAny>,

    properties: Option<IgnoredAny>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    part: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    #[serde(rename = "syncEvent")]
    sync_event: Option<IgnoredAny>,
    table: Option<IgnoredAny>,
    row: Option<IgnoredAny>,
    aggregate_id: Option<IgnoredAny>,
    info: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
    parts: Option<IgnoredAny>,
    #[serde(rename = "sessionID")]
    opencode_session: Option<IgnoredAny>,
    #[serde(rename = "projectID")]
    project: Option<IgnoredAny>,
    #[serde(rename = "messageID")]
    message: Option<IgnoredAny>,
    role: Option<IgnoredAny>,
}

impl Marks<'_> {
    fn kind(&self) -> &str {
        self.kind.as_ref().and_then(serde_json::Value::as_str).unwrap_or("")
    }

    /// Says whether it is an event of ours; other agents have a payload as well.
    fn is_event(&self) -> bool {
        let kind = self.kind();
        let is_whole = self.context.is_some() || matches!(kind, "log" | "error");
        kind.contains(':') || (self.payload.is_some() && is_whole)
    }

    /// Returns which form of OpenCode's this is, if it is one.
    fn of_opencode(&self) -> Option<Format> {
        self.of_opencode_within(WRAPPERS)
    }

    fn of_opencode_within(&self, wrappers: usize) -> Option<Format> {
        if self.table.is_some() && self.row.is_some()
            || self.aggregate_id.is_some() && self.data.is_some()
            || self.info.is_some() && (self.messages.is_some() || self.parts.is_some())
            || self.opencode_session.is_some() && (self.role.is_some() || self.message.is_some())
            || self.project.is_some() && self.kind().is_empty()
        {
            return Some(Format::OpencodeExport);
        }
        let is_about_something = self.properties.is_some() || self.data.is_some();
        let is_of_run = match self.kind() {
            "step_start" | "step_finish" | "text" | "reasoning" | "tool_use" => self.part.is_some(),
            "error" => self.error.is_some(),
            _ => false,
        };
        if self.sync_event.is_some()
            || self.kind().contains('.') && is_about_something
            || is_of_run && self.opencode_session.is_some()
        {
            return Some(Format::OpencodeEvents);
        }
        // The global bus and recorders put an event into a wrapper.
        let unnamed = self.data.filter(|_| self.kind().is_empty());
        let inner = self.payload.or(self.event).or(unnamed)?;
        let inner: Marks<'_> = serde_json::from_str(inner.get()).ok()?;
        inner.of_opencode_within(wrappers.checked_sub(1)?).map(|_| Format::OpencodeEvents)
    }
}

/// Finds out what an input is; one that does not tell is taken for events.
pub(super) fn detect(head: &[u8]) -> Format {
    recognize(head).unwrap_or(Format::Events)
}

/// Finds out what an input is; nothing if it does not tell.
pub(super) fn recognize(head: &[u8]) -> Option<Format> {
    if is_sqlite(head) {
        return Some(Format::OpencodeDb);
    }
    for line in lines(head).take(LINES) {
        let Ok(marks) = serde_json::from_slice::<Marks<'_>>(data(line.bytes)) else { continue };
        if let Some(format) = marks.of_opencode() {
            return Some(format);
        }
        let kind = marks.kind();
        if marks.is_event() {
            return Some(Format::Events);
        }
        if matches!(kind, "stream_event" | "result" | "control_response" | "control_request") {
            return Some(Format::ClaudeStream);
        }
        // Others name a session so, and keep all its messages in one object.
        if marks.file_session.is_some() && marks.messages.is_none() {
            return Some(Format::ClaudeTranscript);
        }
        if marks.session_id.is_some() {
            return Some(Format::ClaudeStream);
        }
        if ["user", "assistant", "summary", "file-history-snapshot"].contains(&kind) {
            return Some(Format::ClaudeTranscript);
        }
    }
    match packing(head) {
        _ if opens_like_an_export(head) => Some(Format::OpencodeExport),
        _ if lines(head).take(LINES).any(|line| line.bytes.starts_with(b"data:")) => {
            Some(Format::OpencodeEvents)
        }
        Some('[') => first_of_list(head),
        Some(_) => Some(Format::ClaudeTranscript),
        None => None,
    }
}

/// Finds out what a list is by its first record; one that cannot be read is taken for a stream.
fn first_of_list(head: &[u8]) -> Option<Format> {
    let start = head.iter().position(|byte| *byte == b'[')? + 1;
    let mut records = serde_json::Deserializer::from_slice(&head[start..]).into_iter();
    let Some(Ok(marks)) = records.next() else { return Some(Format::ClaudeStream) };
    let marks: Marks<'_> = marks;
    let is_claude = marks.session_id.is_some() || marks.file_session.is_some();
    marks.of_opencode().or(is_claude.then_some(Format::ClaudeStream))
}

/// Says whether an input holds records, whoever wrote them.
pub(super) fn holds_records(head: &[u8]) -> bool {
    let is_object = |line: &[u8]| {
        line.trim_ascii_start().starts_with(b"{")
            && serde_json::from_slice::<IgnoredAny>(line).is_ok()
    };
    packing(head).is_some() || lines(head).take(LINES).any(|line| is_object(line.bytes))
}

/// Says whether an input ends before its first record does.
pub(super) fn is_before_first(head: &[u8]) -> bool {
    let is_record_begun = || {
        let read = serde_json::from_slice::<IgnoredAny>(data(head));
        head.trim_ascii_start().starts_with(b"{") && read.is_err_and(|error| error.is_eof())
    };
    let is_cut = head.len() < HEAD && !head.contains(&b'\n');
    head.trim_ascii().is_empty() || (is_cut && recognize(head).is_none() && is_record_begun())
}

/// Says whether an input is a database.
pub(super) fn is_sqlite(head: &[u8]) -> bool {
    head.starts_with(SQLITE)
}

/// Returns how the input opens if it may be a session in one piece: a list of records, or an
/// object that holds all transcripts.
pub(super) fn packing(head: &[u8]) -> Option<char> {
    let text = opening(head);
    let (first, wanted) = match text.chars().next()? {
        '[' => ('[', "{"),
        '{' => ('{', "\"main\""),
        _ => return None,
    };
    text[1..].trim_start().starts_with(wanted).then_some(first)
}

/// Says whether an input opens as an export of OpenCode does, or a list of its API's messages.
fn opens_like_an_export(head: &[u8]) -> bool {
    let text = opening(head);
    let inside = text.strip_prefix('[').map_or(text.as_str(), str::trim_start);
    let Some(fields) = inside.strip_prefix('{') else { return false };
    ["\"info\"", "\"parts\"", "\"messages\""].iter().any(|it| fields.trim_start().starts_with(it))
}

fn opening(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(&head[..head.len().min(4096)]);
    text.trim_start_matches('\u{feff}').trim_start().to_owned()
}

/// Returns the data of a line of server-sent events; any other line as it is.
fn data(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"data:").unwrap_or(line)
}
