//! Codex: its rollouts, the stream of `codex exec --json`, and the messages of its app-server.
//!
//! A thread is a session; the threads of its subagents belong to it. One converter reads all views
//! of a session, interleaved in any order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_core::{Context, ConversationId, Json, SessionEvent, SessionId};

use crate::corrupt_lines::{self, Salvage, unknown_block};
use crate::ending::Ending;
use crate::record::{Feed, FeedKind, FeedLine, TooLong};
use crate::recover;
use crate::{Converter, EndProgress};

mod agent;
mod calls;
mod compaction;
mod emitter;
mod exec;
mod facts;
mod files;
mod items;
mod known_gaps;
pub mod layout;
mod live;
mod memory;
mod names;
mod outputs;
mod queries;
mod reviews;
mod subagents;
mod texts;
mod tools;
mod transcript;
mod wire;

pub use agent::AGENT;
pub(crate) use known_gaps::TABLE as PARITY;

use emitter::Emitter;
use memory::Memory;
use wire::{Line, RolloutLine};

/// Converts the streams and the files of one session of Codex.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CodexConverter {
    memory: Memory,
    /// The index in `out` of the current record's first event: unknown blocks are numbered from it.
    #[serde(skip)]
    begin: usize,
    /// The threads that still have to end with the feed.
    #[serde(skip)]
    ending: Ending<Arc<str>>,
}

impl CodexConverter {
    /// Returns a converter for this thread; other threads on the same connection are ignored.
    fn of_session(session: &str) -> Self {
        let mut converter = Self::default();
        if layout::is_thread_id(session) {
            converter.memory.root = Some(session.into());
        }
        converter
    }

    fn emitter<'a>(&'a mut self, feed: &'a Feed, out: &'a mut Vec<SessionEvent>) -> Emitter<'a> {
        let root = self.memory.root.clone().unwrap_or_else(|| "".into());
        Emitter {
            memory: &mut self.memory,
            source: &feed.source,
            is_stream: feed.is_stream(),
            timestamp: None,
            thread: root,
            conversation: ConversationId::main(),
            out,
        }
    }
}

impl Salvage for CodexConverter {
    fn convert(&mut self, record: &FeedLine<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool {
        let is_known = if record.feed.is_stream() {
            let Ok(line) = serde_json::from_str::<Line<'_>>(text) else { return false };
            let mut emitter = self.emitter(record.feed, out);
            match line.kind.is_some() {
                true => exec::convert(&mut emitter, &line),
                false => live::convert(&mut emitter, &line),
            }
        } else {
            let Ok(line) = serde_json::from_str::<RolloutLine<'_>>(text) else { return false };
            let mut emitter = self.emitter(record.feed, out);
            transcript::enter(&mut emitter, record.feed);
            transcript::convert(&mut emitter, record.feed, line)
        };
        if !is_known {
            let content =
                serde_json::from_str::<&RawValue>(text).map_or(Json::string(text), Json::from);
            self.emit_unknown(record, content, out);
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
        let mut emitter = self.emitter(record.feed, out);
        if !record.feed.is_stream() {
            transcript::enter(&mut emitter, record.feed);
        }
        emitter.emit_block(block);
    }
}

impl Converter for CodexConverter {
    fn push(&mut self, record: &FeedLine<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        match recover::as_text(record.bytes) {
            Some(text) if text.trim_start().starts_with('{') && self.convert(record, text, out) => {
            }
            _ => corrupt_lines::recover_line(self, record, out),
        }
    }

    fn finish_portion(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) -> EndProgress {
        if let FeedKind::Stream = feed.kind {
            if !self.ending.has_begun() {
                let mut emitter = self.emitter(feed, out);
                let warned: Vec<_> = emitter.memory.early_warnings.keys().cloned().collect();
                for thread in warned {
                    emitter.turn_to(&thread);
                    live::emit_early_warnings(&mut emitter);
                }
                let threads = emitter.memory.stream.keys().cloned().collect();
                self.ending.begin(threads);
            }
            let (threads, remaining) = self.ending.next_portion();
            let mut emitter = self.emitter(feed, out);
            for thread in threads {
                emitter.thread = "".into();
                emitter.turn_to(&thread);
                // Of some subagents a stream reports only how they ended.
                if emitter.conversation.is_main() || emitter.thread().has_begun() {
                    emitter.emit_idle();
                }
            }
            return remaining;
        }
        let mut emitter = self.emitter(feed, out);
        transcript::enter(&mut emitter, feed);
        texts::flush(&mut emitter);
        texts::flush_announced(&mut emitter);
        emitter.emit_idle();
        EndProgress::Complete
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
