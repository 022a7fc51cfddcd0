//! OpenCode's row of the table of agents.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{OpencodeConverter, WRAPPERS, layout, sse_payload};
use crate::agent::{AgentModule, OrderedFile, SessionFile};
use crate::bundle::{self, BundleStart};
use crate::lines::lines;
use crate::{Agent, FeedKind, Format, Shape, memory};

/// OpenCode.
pub const AGENT: Agent = Agent::new(&AgentModule {
    name: "opencode",
    other_names: &[],
    title: "OpenCode",
    formats: FORMATS,
    recognize_record,
    recognize_opening,
    converter: |session| match session {
        Some(session) => Box::new(OpencodeConverter::of_session(own_id(session.as_str()))),
        None => Box::new(OpencodeConverter::default()),
    },
    resume: |memory| Ok(Box::new(memory::read::<OpencodeConverter>(memory)?)),
    unpack: bundle::unpack,
    is_session_name,
    part_name: |_| None,
    title_marks: &["title"],
    has_one_main_file: false,
    reading_order,
});

fn is_session_name(stem: &str) -> bool {
    stem.starts_with("ses_")
}

/// Returns a session's id as its records have it: a store adds a number where a session of another
/// agent has the id.
fn own_id(stored: &str) -> &str {
    let is_number = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    match stored.rsplit_once('-') {
        Some((id, number)) if is_session_name(id) && is_number(number) => id,
        _ => stored,
    }
}

const FORMATS: &[Format] = &[
    Format {
        name: "opencode-events",
        help: "Events of OpenCode's bus (`/event`, `/global/event`), as server-sent events or JSON",
        shape: Shape::Stream,
    },
    Format {
        name: "opencode-export",
        help: "Output of `opencode export`, or messages of OpenCode's API",
        shape: Shape::Export,
    },
    Format {
        name: "opencode-db",
        help: "OpenCode's database (SQLite), opened read-only, even while OpenCode runs",
        shape: Shape::Database,
    },
    Format {
        name: "opencode-storage",
        help: "OpenCode's `storage` folder (versions up to 1.1)",
        shape: Shape::Folder,
    },
];

const EVENTS: &Format = &FORMATS[0];
const EXPORT: &Format = &FORMATS[1];
const DATABASE: &Format = &FORMATS[2];

/// The fields that distinguish OpenCode's records from those of other agents.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Option<serde_json::Value>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
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
    #[serde(rename = "_table")]
    table_column: Option<IgnoredAny>,
    row: Option<IgnoredAny>,
    aggregate_id: Option<IgnoredAny>,
    info: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
    parts: Option<IgnoredAny>,
    #[serde(rename = "sessionID")]
    session: Option<IgnoredAny>,
    #[serde(rename = "projectID")]
    project: Option<IgnoredAny>,
    #[serde(rename = "messageID")]
    message: Option<IgnoredAny>,
    role: Option<IgnoredAny>,
    id: Option<serde_json::Value>,
    time: Option<IgnoredAny>,
    cursor: Option<IgnoredAny>,
}

impl Marks<'_> {
    fn kind(&self) -> &str {
        self.kind.as_ref().and_then(serde_json::Value::as_str).unwrap_or("")
    }

    fn is_stored(&self) -> bool {
        self.table.is_some() && self.row.is_some()
            || self.table_column.is_some()
            || self.aggregate_id.is_some() && self.data.is_some()
            || self.info.is_some() && (self.messages.is_some() || self.parts.is_some())
            || self.session.is_some() && (self.role.is_some() || self.message.is_some())
            || self.project.is_some() && self.kind().is_empty()
            || self.is_message()
    }

    /// Returns whether this is a message of version 2.
    fn is_message(&self) -> bool {
        let id = self.id.as_ref().and_then(serde_json::Value::as_str).unwrap_or("");
        id.starts_with("msg_") && self.time.is_some() && !self.kind().is_empty()
    }

    /// Returns whether this is an answer of the API of version 2: an export, a session, or a list
    /// of messages.
    fn is_answer(&self) -> bool {
        let Some(inner) = self.data.filter(|_| self.kind().is_empty()) else { return false };
        if inner.get().starts_with('[') {
            return self.cursor.is_some();
        }
        let inner = serde_json::from_str::<Marks<'_>>(inner.get());
        inner.is_ok_and(|inner| {
            inner.kind().is_empty() && (inner.messages.is_some() || inner.project.is_some())
        })
    }

    fn is_event(&self) -> bool {
        let has_content = self.properties.is_some() || self.data.is_some();
        let is_of_run = match self.kind() {
            "step_start" | "step_finish" | "text" | "reasoning" | "tool_use" => self.part.is_some(),
            "error" => self.error.is_some(),
            _ => false,
        };
        self.sync_event.is_some()
            || self.kind().contains('.') && has_content
            || is_of_run && self.session.is_some()
    }

    fn format(&self, wrappers: usize) -> Option<&'static Format> {
        if self.is_stored() || self.is_answer() {
            return Some(EXPORT);
        }
        if self.is_event() {
            return Some(EVENTS);
        }
        // The global bus and recorders wrap events.
        let unnamed = self.data.filter(|_| self.kind().is_empty());
        let inner = self.payload.or(self.event).or(unnamed)?;
        let inner: Marks<'_> = serde_json::from_str(inner.get()).ok()?;
        inner.format(wrappers.checked_sub(1)?).map(|_| EVENTS)
    }
}

fn recognize_record(line: &[u8]) -> Option<&'static Format> {
    let marks: Marks<'_> = serde_json::from_slice(sse_payload(line)).ok()?;
    marks.format(WRAPPERS)
}

fn recognize_opening(head: &[u8]) -> Option<&'static Format> {
    if head.starts_with(b"SQLite format 3\0") {
        return Some(DATABASE);
    }
    if opens_as_export(head) {
        return Some(EXPORT);
    }
    // Other files have lines that begin with `data:` too, but no object follows there.
    let is_sse = |line: &[u8]| {
        let data = line.strip_prefix(b"data:");
        data.is_some_and(|data| data.trim_ascii_start().starts_with(b"{"))
    };
    if lines(head).take(crate::RECOGNIZED_LINES).any(|line| is_sse(line.bytes)) {
        return Some(EVENTS);
    }
    match bundle::opening(head)? {
        BundleStart::List(first) => recognize_record(first.as_bytes()),
        // Other agents' sessions were stored in this form, too: the main transcript decides.
        BundleStart::Object => {
            let main = bundle::main_opening(head)?;
            let first = main.trim_start().lines().next().unwrap_or("");
            let is_export =
                opens_as_export(main.as_bytes()) || recognize_record(first.as_bytes()).is_some();
            is_export.then_some(EXPORT)
        }
    }
}

/// Returns whether an input opens like an export, or like a list of the API's messages.
fn opens_as_export(head: &[u8]) -> bool {
    let text = bundle::opening_text(head);
    let inside = text.strip_prefix('[').map_or(text.as_str(), str::trim_start);
    let Some(fields) = inside.strip_prefix('{').map(str::trim_start) else { return false };
    let opens = |fields: &str| {
        ["\"info\"", "\"parts\"", "\"messages\""].iter().any(|it| fields.starts_with(it))
    };
    // The API of version 2 wraps its answers, and its lists contain messages.
    let answer = fields.strip_prefix("\"data\"").map(str::trim_start);
    let answer = answer.and_then(|it| it.strip_prefix(':')).map(str::trim_start);
    let wrapped = answer.and_then(|it| it.strip_prefix('{')).map(str::trim_start);
    opens(fields)
        || wrapped.is_some_and(opens)
        || answer.is_some_and(opens_as_messages)
        || opens_as_messages(&text)
}

/// Returns whether a text opens like a list of messages of version 2.
fn opens_as_messages(text: &str) -> bool {
    let mut rest = text;
    for next in ["[", "{", "\"id\"", ":", "\"msg_"] {
        let Some(after) = rest.trim_start().strip_prefix(next) else { return false };
        rest = after;
    }
    true
}

/// Returns the files in the order of [`layout::in_order`].
fn reading_order(files: &[SessionFile<'_>]) -> Vec<OrderedFile> {
    let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
    let file = |path: &str| {
        let index = paths.iter().position(|it| *it == path)?;
        let found = OrderedFile::new(index, FeedKind::Main, path);
        Some(OrderedFile { name: layout::name_in_storage(path).unwrap_or(found.name), ..found })
    };
    layout::in_order(&paths).into_iter().filter_map(file).collect()
}
