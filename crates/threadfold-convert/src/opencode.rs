//! OpenCode: the events of its bus, and its stored sessions.
//!
//! Stream and store contain the same objects with the same ids, so one set of rules serves both.
//! Version 2 has other events, tables and ids; its rules are in `v2`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_core::{Context, ConversationId, Json, SessionEvent, SessionId};

use crate::corrupt_lines::{self, Salvage, unknown_block};
use crate::ending::Ending;
use crate::record::{Feed, FeedKind, FeedLine, TooLong};
use crate::recover;
use crate::{Converter, EndProgress};

mod agent;
mod deltas;
mod emitter;
mod facts;
mod files;
mod known_gaps;
mod layout;
mod live;
mod memory;
mod messages;
mod next;
mod order;
mod parts;
mod queries;
mod rows;
mod run;
mod tasks;
mod texts;
mod time;
mod tools;
mod transcript;
mod v2;
mod wire;

pub use agent::AGENT;
pub(crate) use known_gaps::TABLE as PARITY;
pub use live::is_known_event;

use emitter::{Emitter, LAST, key};
use memory::Memory;
use wire::Event;

/// Converts the stream and the stored objects of one session of OpenCode and its child sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OpencodeConverter {
    memory: Memory,
    /// The index in `out` of the current record's first event: unknown blocks are numbered from it.
    #[serde(skip)]
    begin: usize,
    /// The conversations that still have to end with the feed.
    #[serde(skip)]
    ending: Ending<ConversationId>,
}

impl OpencodeConverter {
    /// Returns a converter for this session; other sessions on the same bus are ignored.
    ///
    /// The default converter takes the first session that it reads.
    fn of_session(session: &str) -> Self {
        let mut converter = Self::default();
        converter.memory.root = Some(session.into());
        converter
    }

    fn emitter<'a>(&'a mut self, feed: &'a Feed, out: &'a mut Vec<SessionEvent>) -> Emitter<'a> {
        Emitter { memory: &mut self.memory, source: &feed.source, is_stream: feed.is_stream(), out }
    }

    /// Converts one JSON object. Returns whether the text is one.
    fn convert_object(
        &mut self,
        record: &FeedLine<'_>,
        text: &str,
        out: &mut Vec<SessionEvent>,
    ) -> bool {
        if let Some(row) = rows::with_table(text) {
            return self.convert_object(record, &row, out);
        }
        if record.feed.is_stream() && deltas::convert(&mut self.emitter(record.feed, out), text) {
            return true;
        }
        let Ok(read) = serde_json::from_str::<Event<'_>>(text) else { return false };
        let mut emitter = self.emitter(record.feed, out);
        // A bundle names the sessions of its subagents, even where no record names their parent.
        if let FeedKind::Subagent(child) = &record.feed.kind
            && let Some(root) = emitter.memory.root.clone().filter(|root| **root != *child.as_str())
        {
            emitter.memory.parents.entry(child.as_str().into()).or_insert(root);
        }
        let is_known = convert_event(&mut emitter, &read, WRAPPERS)
            || run::convert(&mut emitter, read.kind.as_deref(), text)
            || v2::convert_stored(&mut emitter, text)
            || transcript::convert(&mut emitter, text);
        if !is_known {
            let content =
                serde_json::from_str::<&RawValue>(text).map_or(Json::string(text), Json::from);
            self.emit_unknown(record, content, out);
        }
        true
    }
}

impl Salvage for OpencodeConverter {
    fn convert(&mut self, record: &FeedLine<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool {
        if !text.starts_with('[') {
            return self.convert_object(record, text, out);
        }
        let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(text) else { return false };
        if list.iter().any(|it| !it.get().starts_with('{')) {
            return false;
        }
        for it in list {
            if !self.convert_object(record, it.get(), out) {
                self.emit_unknown(record, Json::from(it), out);
            }
        }
        true
    }

    fn report_loss(&mut self, record: &FeedLine<'_>, what: &str, out: &mut Vec<SessionEvent>) {
        let loss =
            corrupt_lines::loss_event(Context::default(), &record.feed.source, record.number, what);
        out.push(loss);
    }

    fn emit_unknown(&mut self, record: &FeedLine<'_>, content: Json, out: &mut Vec<SessionEvent>) {
        let block = unknown_block(record, out.len() - self.begin, content);
        let place = key(LAST, block.id.as_str());
        self.emitter(record.feed, out).emit_block(&ConversationId::main(), place, block);
    }
}

/// How many wrappers an event may have: the global bus adds one, and recorders add theirs.
///
/// The limit keeps hostile input from causing deep recursion.
const WRAPPERS: usize = 4;

/// Converts a bus event, inside any wrappers. Returns whether its type is known.
fn convert_event(emitter: &mut Emitter<'_>, read: &Event<'_>, wrappers: usize) -> bool {
    if let Some(inner) = read.wrapped() {
        if wrappers > 0 && deltas::convert(emitter, inner.get()) {
            return true;
        }
        return match (serde_json::from_str::<Event<'_>>(inner.get()), wrappers) {
            (Ok(inner), 1..) => convert_event(emitter, &inner, wrappers - 1),
            _ => false,
        };
    }
    // The global bus sends every durable event twice; this is the duplicate.
    if read.sync_event.is_some() {
        return true;
    }
    if let (Some(kind), Some(data), None, None) =
        (read.kind.as_deref(), read.data, read.properties, read.aggregate_id)
    {
        let head = v2::EventHead { id: read.id, created: read.created, durable: read.durable };
        if let Some(is_known) = v2::convert_event(emitter, kind, &head, data) {
            return is_known;
        }
    }
    match (read.kind.as_deref(), read.properties.or(read.data)) {
        (Some(kind), Some(about)) => live::convert(emitter, kind, about),
        // Recorders also keep the comments of the stream.
        (None, None) => read.comment.is_some(),
        _ => false,
    }
}

impl Converter for OpencodeConverter {
    fn push(&mut self, record: &FeedLine<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        let text = recover::as_text(record.bytes).map(sse_data);
        match text {
            Some("") => {}
            Some(text) if self.convert(record, text, out) => {}
            _ => corrupt_lines::recover_line(self, record, out),
        }
    }

    fn finish_portion(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) -> EndProgress {
        if !matches!(feed.kind, FeedKind::Stream | FeedKind::Main) {
            return EndProgress::Complete;
        }
        if !self.ending.has_begun() {
            let mut emitter = self.emitter(feed, out);
            let abandoned = emitter.side().open.take_all();
            emitter.abandon_texts(abandoned);
            let open = emitter.side().order.keys().cloned().collect();
            self.ending.begin(open);
        }
        let (conversations, remaining) = self.ending.next_portion();
        let mut emitter = self.emitter(feed, out);
        emitter.reserve(conversations.len());
        conversations.iter().for_each(|conversation| emitter.emit_idle(conversation));
        remaining
    }

    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        corrupt_lines::too_long(self, lost, out);
    }

    fn session(&self) -> Option<SessionId> {
        self.memory.root.clone().map(SessionId::from)
    }

    fn memory(&self) -> Json {
        crate::memory::write(self)
    }

    fn write_memory(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        crate::memory::write_to(self, out)
    }

    fn fork(&self) -> Box<dyn Converter> {
        Box::new(self.clone())
    }
}

/// Returns the data of a line of server-sent events; any other line as it is.
fn sse_payload(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"data:").unwrap_or(line)
}

/// Returns the data of a line of server-sent events; it is empty for comments, `event:` and `id:`.
fn sse_data(line: &str) -> &str {
    let line = line.trim();
    match line.strip_prefix("data:") {
        Some(data) => data.trim(),
        None if line.starts_with(':') || line.starts_with("event:") || line.starts_with("id:") => {
            ""
        }
        None => line,
    }
}
