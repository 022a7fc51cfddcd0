//! Claude Code and the Claude Agent SDK.
//!
//! One converter takes the lines of a session's stream and of its files in any order; what it
//! remembers is shared by them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{AgentId, BlockId, ConversationId, Json, SessionEvent, SessionId};

use crate::Converter;
use crate::record::{Feed, FeedKind, FeedLine, TooLong};
use crate::recover;
use crate::salvage::{self, Salvage, unknown_block};

mod agent;
mod compaction;
mod emitter;
pub mod layout;
mod lenient;
mod live;
mod memory;
mod message;
mod parity;
mod permission;
mod subagents;
mod transcript;
mod usage;
mod wire;

pub use agent::AGENT;

use emitter::Emitter;
use lenient::Repair;
use memory::Memory;
use wire::Line;

/// Converts what one session of Claude Code says and keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaudeConverter {
    memory: Memory,
    session: Option<SessionId>,
    /// The name that most records' events carry, made once.
    #[serde(skip, default = "ConversationId::main")]
    main: ConversationId,
    /// Where the events of the record at hand begin; what came before is not its business.
    #[serde(skip)]
    begin: usize,
}

impl Default for ClaudeConverter {
    fn default() -> Self {
        Self { memory: Memory::default(), session: None, main: ConversationId::main(), begin: 0 }
    }
}

impl Converter for ClaudeConverter {
    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        salvage::too_long(self, lost, out);
    }

    fn session(&self) -> Option<SessionId> {
        self.session.clone()
    }

    fn memory(&self) -> Json {
        crate::memory::write(self)
    }

    fn fork(&self) -> Box<dyn Converter> {
        Box::new(self.clone())
    }

    fn push(&mut self, record: &FeedLine<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        if let FeedKind::SubagentMeta(agent) = &record.feed.kind {
            let mut emitter = self.emitter(record.feed, record.number, out);
            match recover::as_text(record.bytes) {
                Some(text) => subagents::meta(&mut emitter, agent, text),
                None => emitter.report_loss("the notes beside a subagent's file are not text"),
            }
            return;
        }
        match recover::as_text(record.bytes) {
            Some(text) if self.convert(record, text, out) => {}
            _ => salvage::recover_line(self, record, out),
        }
    }

    fn finish(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) {
        let mut emitter = self.emitter(feed, 0, out);
        match &feed.kind {
            FeedKind::Stream => {
                live::abandon(&mut emitter, |_| true);
                let mut open: Vec<_> = emitter.memory.stream.last.keys().cloned().collect();
                open.sort();
                open.iter().for_each(|conversation| emitter.emit_idle_in(conversation));
            }
            FeedKind::Main => {
                let mut open: Vec<_> = emitter.memory.files.last.keys().cloned().collect();
                open.sort();
                open.iter().for_each(|conversation| emitter.emit_idle_in(conversation));
            }
            FeedKind::Subagent(agent) => {
                link_by_opening(&mut emitter, agent);
                let conversation = ConversationId::from(agent.bare());
                if emitter.memory.files.last.contains_key(&conversation) {
                    emitter.emit_idle_in(&conversation);
                }
            }
            FeedKind::SubagentMeta(_) => {}
        }
    }
}

/// A subagent that nothing ties to a call may be tied by the words it opens with.
fn link_by_opening(emitter: &mut Emitter<'_>, agent: &AgentId) {
    if emitter.memory.agents.contains_key(agent.bare()) {
        return;
    }
    let opening = emitter.memory.openings.get(agent.bare()).cloned();
    if let Some(call) = opening.and_then(|words| subagents::call_of_opening(emitter, &words)) {
        subagents::spawned(emitter, &call, Some(agent.bare()));
    }
}

impl ClaudeConverter {
    fn emitter<'a>(
        &'a mut self,
        feed: &'a Feed,
        line: u64,
        out: &'a mut Vec<SessionEvent>,
    ) -> Emitter<'a> {
        Emitter {
            memory: &mut self.memory,
            source: &feed.source,
            is_stream: feed.is_stream(),
            conversation: self.main.clone(),
            timestamp: None,
            session: self.session.clone(),
            line,
            is_repeated: false,
            from: out.len(),
            out,
        }
    }

    fn note_session(&mut self, line: &Line<'_>) {
        let name = line.file_session_id.as_deref().or(line.session_id.as_deref());
        if let Some(name) = name
            && self.session.as_ref().is_none_or(|known| known.as_str() != name)
        {
            self.session = Some(SessionId::from(name));
        }
    }

    /// Shows a record that is not understood, by its own name if it has one.
    fn emit_unknown_as(
        &mut self,
        record: &FeedLine<'_>,
        id: Option<BlockId>,
        kept: Json,
        out: &mut Vec<SessionEvent>,
    ) {
        let mut block = unknown_block(record, out.len() - self.begin, kept);
        block.id = id.unwrap_or(block.id);
        let mut emitter = self.emitter(record.feed, record.number, out);
        if let FeedKind::Subagent(agent) = &record.feed.kind {
            emitter.conversation = ConversationId::from(agent.bare());
        }
        emitter.emit_block(block);
    }
}

impl Salvage for ClaudeConverter {
    fn convert(&mut self, record: &FeedLine<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool {
        let mut mended = String::new();
        let Some((line, repair)) = lenient::read(text, &mut mended) else { return false };
        if repair == Repair::LoneSurrogates {
            let what = "half of a letter (a lone surrogate) is shown as a replacement character";
            self.report_loss(record, what, out);
        }
        self.note_session(&line);
        let understood = {
            let mut emitter = self.emitter(record.feed, record.number, out);
            emitter.timestamp = line.timestamp.as_deref().map(Arc::from);
            let name = line.uuid.as_deref().filter(|_| record.feed.may_repeat);
            emitter.is_repeated =
                name.is_some_and(|it| emitter.side().lines.contains_key(&memory::key(it)));
            match &record.feed.kind {
                FeedKind::Stream => live::convert(&mut emitter, &line, text),
                FeedKind::Subagent(agent) => {
                    transcript::convert(&mut emitter, &line, text, Some(agent))
                }
                _ => transcript::convert(&mut emitter, &line, text, None),
            }
        };
        // A line of a speaker without a message shows nothing, and nothing may vanish.
        let is_empty =
            matches!(line.kind.as_deref(), Some("user" | "assistant")) && line.message.is_none();
        if !understood || is_empty {
            if !lenient::is_object(text) {
                return false;
            }
            let record_json = Json::parse(text).unwrap_or_else(|_| Json::string(text));
            let id = line.uuid.as_deref().map(BlockId::from);
            self.emit_unknown_as(record, id, record_json, out);
        }
        true
    }

    fn report_loss(&mut self, record: &FeedLine<'_>, what: &str, out: &mut Vec<SessionEvent>) {
        self.emitter(record.feed, record.number, out).report_loss(what);
    }

    fn emit_unknown(&mut self, record: &FeedLine<'_>, kept: Json, out: &mut Vec<SessionEvent>) {
        self.emit_unknown_as(record, None, kept, out);
    }
}
