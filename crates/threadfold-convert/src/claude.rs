//! Claude Code and the Claude Agent SDK.
//!
//! One converter reads a session's stream and all its files, interleaved in any order. They share
//! one memory, because a call in one of them may belong to a subagent in another.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{AgentId, BlockId, ConversationId, Json, SessionEvent, SessionId};

use crate::corrupt_lines::{self, Salvage, unknown_block};
use crate::ending::Ending;
use crate::record::{Feed, FeedKind, FeedLine, TooLong};
use crate::recover;
use crate::{Converter, EndProgress};

mod agent;
mod assistant;
mod commands;
mod compaction;
mod cross_check;
mod deltas;
mod emitter;
mod facts;
mod files;
mod harness_tags;
mod internal;
mod key_map;
mod known_gaps;
pub mod layout;
mod lenient;
mod line_place;
mod live;
mod memory;
mod notifications;
mod permission;
mod repeated_history;
mod subagents;
mod tasks;
mod transcript;
mod turn_tree;
mod turns;
mod usage;
mod user;
mod waiting;
mod wire;

pub use agent::AGENT;
pub(crate) use known_gaps::TABLE as PARITY;

use emitter::Emitter;
use lenient::Repair;
use memory::Memory;

/// Converts the stream and the files of one session of Claude Code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClaudeConverter {
    memory: Memory,
    session: Option<SessionId>,
    /// The conversation of most events, built once: it is cloned for every record.
    #[serde(skip, default = "ConversationId::main")]
    main: ConversationId,
    /// The index in `out` of the current record's first event: unknown blocks are numbered from it.
    #[serde(skip)]
    begin: usize,
    /// The conversations that still have to end with the feed.
    #[serde(skip)]
    ending: Ending<ConversationId>,
}

impl Default for ClaudeConverter {
    fn default() -> Self {
        let (memory, ending) = Default::default();
        Self { memory, session: None, main: ConversationId::main(), begin: 0, ending }
    }
}

impl Converter for ClaudeConverter {
    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        corrupt_lines::too_long(self, lost, out);
    }

    fn session(&self) -> Option<SessionId> {
        self.session.clone()
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

    fn push(&mut self, record: &FeedLine<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        self.memory.is_main_ended &= record.feed.kind != FeedKind::Main;
        if let FeedKind::SubagentMeta(agent) = &record.feed.kind {
            let mut emitter = self.emitter(record.feed, record.number, out);
            match recover::as_text(record.bytes) {
                Some(text) => subagents::read_meta(&mut emitter, agent, text),
                None => emitter.report_loss("the metadata beside a subagent's file is not UTF-8"),
            }
            return;
        }
        match recover::as_text(record.bytes) {
            Some(text) if self.convert(record, text, out) => {}
            _ => corrupt_lines::recover_line(self, record, out),
        }
    }

    fn finish_portion(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) -> EndProgress {
        if !self.ending.has_begun() {
            self.begin_end(feed, out);
        }
        let (conversations, remaining) = self.ending.next_portion();
        let mut emitter = self.emitter(feed, 0, out);
        emitter.reserve(conversations.len());
        conversations.iter().for_each(|conversation| emitter.emit_idle_in(conversation));
        remaining
    }
}

impl ClaudeConverter {
    /// Closes what the feed left open, except the conversations that end with it.
    fn begin_end(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) {
        let mut emitter = self.emitter(feed, 0, out);
        match &feed.kind {
            FeedKind::Stream => {
                live::abandon_previews(&mut emitter, |_| true);
                let conversations = open_conversations(&mut emitter);
                self.ending.begin(conversations);
            }
            FeedKind::Main => {
                emitter.memory.is_main_ended = true;
                let conversations = open_conversations(&mut emitter);
                self.ending.begin(conversations);
            }
            FeedKind::Subagent(agent) => {
                link_by_prompt(&mut emitter, agent);
                let conversation = ConversationId::from(agent.bare());
                if emitter.memory.files.last.contains_key(&conversation) {
                    emitter.emit_idle_in(&conversation);
                }
            }
            FeedKind::SubagentMeta(_) => {}
        }
    }
}

/// Returns the conversations whose turns end with the source: those that it reported, and all
/// subagents, which end with the process that ran them.
fn open_conversations(emitter: &mut Emitter<'_>) -> Vec<ConversationId> {
    let runs = emitter.memory.calls.values().filter(|call| call.reported).count();
    let mut open = Vec::with_capacity(emitter.side().last.len() + runs);
    open.extend(emitter.side().last.keys().cloned());
    let runs = emitter.memory.calls.iter().filter(|(_, call)| call.reported);
    open.extend(runs.map(|(id, _)| ConversationId::from(id.clone())));
    open.sort_unstable();
    open
}

/// Links a subagent's file to its call by the prompt, where no id does.
///
/// This waits for the end of the file, because ids are more reliable and may come on any line.
fn link_by_prompt(emitter: &mut Emitter<'_>, agent: &AgentId) {
    if emitter.memory.agents.contains_key(agent.bare()) {
        return;
    }
    let prompt = emitter.memory.openings.prompt(agent.bare()).cloned();
    if let Some(call) = prompt.and_then(|it| subagents::take_call_by_prompt(emitter, &it)) {
        subagents::emit_spawned_as(emitter, &call, agent.bare());
        subagents::end_interrupted(emitter, &call);
        // The caller's turn ended before its subagent was known.
        let caller = emitter.memory.calls.get(&call).and_then(|known| known.caller.clone());
        if let Some(caller) = caller.filter(|_| emitter.memory.is_main_ended) {
            emitter.emit_idle_in(&caller);
        }
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
            telling: None,
            is_retold: false,
            from: out.len(),
            out,
        }
    }

    /// Remembers the session that the line names; the latest name counts.
    fn remember_session(&mut self, name: Option<&str>) {
        if let Some(name) = name
            && self.session.as_ref().is_none_or(|known| known.as_str() != name)
        {
            self.session = Some(SessionId::from(name));
        }
    }

    /// Emits a block that carries a record of unknown type, under the record's own id if it has one.
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
        if record.feed.is_stream()
            && !record.feed.may_repeat
            && let Some(line) = deltas::read(text)
        {
            self.remember_session(line.session_id.as_deref());
            deltas::convert(&mut self.emitter(record.feed, record.number, out), &line);
            return true;
        }
        let mut buffer = String::new();
        let Some((line, repair)) = lenient::read(text, &mut buffer) else { return false };
        if repair == Repair::LoneSurrogates {
            let what = "half of a letter (a lone surrogate) is shown as a replacement character";
            self.report_loss(record, what, out);
        }
        self.remember_session(line.file_session_id.as_deref().or(line.session_id.as_deref()));
        let is_known = {
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
        // A message line without a message emits no block, and no record may vanish.
        let is_empty =
            matches!(line.kind.as_deref(), Some("user" | "assistant")) && line.message.is_none();
        if !is_known || is_empty {
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
