//! OpenCode: the events of its bus, and what it keeps.
//!
//! Stream and store are the same objects with the same names, so one set of rules serves both.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_core::{Context, ConversationId, Json, SessionEvent, SessionId};

use crate::Converter;
use crate::record::{Feed, FeedKind, FeedLine, TooLong};
use crate::recover;
use crate::salvage::{self, Salvage, unknown_block};

mod agent;
mod emitter;
pub mod layout;
mod live;
mod memory;
mod next;
mod parity;
mod parts;
mod run;
mod tasks;
mod time;
mod transcript;
mod wire;

pub use agent::AGENT;

use emitter::{Emitter, key};
use memory::Memory;
use wire::Event;

/// Converts what one session of OpenCode, with its children, says and keeps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpencodeConverter {
    memory: Memory,
    /// Where the events of the record at hand begin; what came before is not its business.
    #[serde(skip)]
    begin: usize,
}

impl OpencodeConverter {
    /// Returns a converter for this session; others of the same bus are passed over.
    ///
    /// Without it, the first session that is heard of is the one.
    pub fn of_session(session: &str) -> Self {
        let mut converter = Self::default();
        converter.memory.root = Some(session.into());
        converter
    }

    fn emitter<'a>(&'a mut self, feed: &'a Feed, out: &'a mut Vec<SessionEvent>) -> Emitter<'a> {
        Emitter { memory: &mut self.memory, source: &feed.source, is_stream: feed.is_stream(), out }
    }

    /// Converts one object. Says whether it is one.
    fn object(&mut self, record: &FeedLine<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool {
        let Ok(read) = serde_json::from_str::<Event<'_>>(text) else { return false };
        let mut emitter = self.emitter(record.feed, out);
        let is_understood = event(&mut emitter, &read, WRAPPERS)
            || run::convert(&mut emitter, read.kind.as_deref(), text)
            || transcript::convert(&mut emitter, text);
        if !is_understood {
            let kept =
                serde_json::from_str::<&RawValue>(text).map_or(Json::string(text), Json::from);
            self.emit_unknown(record, kept, out);
        }
        true
    }
}

impl Salvage for OpencodeConverter {
    fn convert(&mut self, record: &FeedLine<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool {
        if !text.starts_with('[') {
            return self.object(record, text, out);
        }
        let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(text) else { return false };
        if list.iter().any(|it| !it.get().starts_with('{')) {
            return false;
        }
        for it in list {
            if !self.object(record, it.get(), out) {
                self.emit_unknown(record, Json::from(it), out);
            }
        }
        true
    }

    fn report_loss(&mut self, record: &FeedLine<'_>, what: &str, out: &mut Vec<SessionEvent>) {
        let loss =
            salvage::loss_event(Context::default(), &record.feed.source, record.number, what);
        out.push(loss);
    }

    fn emit_unknown(&mut self, record: &FeedLine<'_>, kept: Json, out: &mut Vec<SessionEvent>) {
        let block = unknown_block(record, out.len() - self.begin, kept);
        let place = key("\u{10ffff}", block.id.as_str());
        self.emitter(record.feed, out).emit_block(&ConversationId::main(), place, block);
    }
}

/// How many wrappers an event may stand in: the global bus has one, and recorders add theirs.
const WRAPPERS: usize = 4;

/// Converts a bus event, in whatever it is wrapped. Says whether it is one that is understood.
fn event(emitter: &mut Emitter<'_>, read: &Event<'_>, wrappers: usize) -> bool {
    if let Some(inner) = read.wrapped() {
        return match (serde_json::from_str::<Event<'_>>(inner.get()), wrappers) {
            (Ok(inner), 1..) => event(emitter, &inner, wrappers - 1),
            _ => false,
        };
    }
    // The global bus says every durable event twice; this is the second time.
    if read.sync_event.is_some() {
        return true;
    }
    match (read.kind.as_deref(), read.properties.or(read.data)) {
        (Some(kind), Some(about)) => live::convert(emitter, kind, about),
        // Recorders keep the comments of the stream, too.
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
            _ => salvage::recover_line(self, record, out),
        }
    }

    fn finish(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) {
        let is_whole = matches!(feed.kind, FeedKind::Stream | FeedKind::Main);
        let mut emitter = self.emitter(feed, out);
        if !is_whole {
            return;
        }
        emitter.abandon(|_| true);
        let open: Vec<_> = emitter.side().order.keys().cloned().collect();
        open.iter().for_each(|conversation| emitter.emit_idle(conversation));
    }

    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        salvage::too_long(self, lost, out);
    }

    fn session(&self) -> Option<SessionId> {
        self.memory.root.clone().map(SessionId::from)
    }

    fn memory(&self) -> Json {
        crate::memory::write(self)
    }

    fn fork(&self) -> Box<dyn Converter> {
        Box::new(self.clone())
    }
}

/// Returns the data of a line of server-sent events; any other line as it is.
fn sse_payload(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"data:").unwrap_or(line)
}

/// Returns the data of a line of server-sent events; a line without data says nothing.
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
