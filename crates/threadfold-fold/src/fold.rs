//! All that is derived of a session's log, moved by one record at a time.
//!
//! Pure: the same records give the same fold, whoever read them and when.

mod slices;

pub use slices::SliceCommand;

use std::sync::Arc;

use bytes::Bytes;
use threadfold_convert::lines::{self, Position};
use threadfold_convert::{Agent, Converter, Feed, FeedKind, FeedLine, TooLong, Unpacked, events};
use threadfold_core::{
    Anomaly, Change, ConversationState, SessionEvent, SessionId, SessionMetadata, Shelf, TurnState,
};

use crate::record::{RecordKind, StoredRecord};
use crate::slice::{Item, Items, SliceError, Slices};
use crate::snapshot::SliceSnapshot;
use crate::source::{Chain, LongLine, Source, SourceRole, SourceSpec};
use crate::sources::Sources;
use crate::spill::Spill;

/// The version of events as the log derives them.
const EVENT_VERSION: u64 = 1;
/// How much of a line that is too long is shown.
const HEAD: usize = 4 << 10;

/// All that is derived of a session's log.
pub struct Fold {
    session: SessionId,
    seq: u64,
    sources: Sources,
    /// The agent's converter, from the first source of one on.
    converter: Option<(Agent, Box<dyn Converter>)>,
    /// The converter of Threadfold's own events, which any session may have.
    events: Box<dyn Converter>,
    conversation: ConversationState,
    /// What does not fit in memory.
    spill: Option<Spill>,
    metadata: SessionMetadata,
    turns: TurnState,
    slices: Slices,
    /// Slices of a snapshot that nobody here knows. They hold at its record alone, for nobody here
    /// tells them of the next.
    unknown: Vec<SliceSnapshot>,
    oddities: u64,
    /// Hashes what came from each source, so that it can be continued later.
    is_continuable: bool,
}

/// What one record meant.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The record.
    pub seq: u64,
    /// How many bytes it has.
    pub bytes: usize,
    /// Its line in its source, from 1; 0 if it is none.
    pub line: u64,
    /// The events it meant.
    pub events: Vec<SessionEvent>,
    /// What they changed in the conversation.
    pub changes: Vec<Change>,
    /// The session went back to an earlier snapshot: `changes` do not tell it.
    pub restored: bool,
    /// What did not fit.
    pub oddities: Vec<Oddity>,
}

/// Something in a log that did not fit. Nothing is lost by it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Oddity {
    /// The reducer left an event aside.
    Ignored(Anomaly),
    /// A record cannot be read; it is kept.
    Unreadable(String),
    /// Something was dispatched, and no slice that is registered listens to it.
    NoListener(String),
}

impl Fold {
    /// Returns the fold of no records.
    ///
    /// A source may hold several sessions: those that are not `session` are ignored. If its id is
    /// empty, the session is the first that the records name.
    pub fn new(session: SessionId, slices: Slices) -> Self {
        Self {
            session,
            seq: 0,
            sources: Sources::default(),
            converter: None,
            events: events::converter(),
            conversation: ConversationState::default(),
            spill: None,
            metadata: SessionMetadata::default(),
            turns: TurnState::default(),
            slices,
            unknown: Vec::new(),
            oddities: 0,
            is_continuable: true,
        }
    }

    /// Spills closed blocks to `target` whenever `budget` more bytes of records came.
    ///
    /// A target that failed leaves the conversation unusable: whoever owns the target must check
    /// it before showing a state.
    #[must_use]
    pub fn spill_to(self, target: Arc<dyn Shelf>, budget: usize) -> Self {
        Self { spill: Some(Spill::new(target, budget)), ..self }
    }

    /// Skips what is needed only to continue a source later: the hash over all its records.
    #[must_use]
    pub fn once(self) -> Self {
        Self { is_continuable: false, ..self }
    }

    /// Hears the next record of the log.
    pub fn push(&mut self, record: &StoredRecord) -> Step {
        let mut step = Step { seq: record.seq, bytes: record.bytes.len(), ..Step::default() };
        self.seq = record.seq;
        self.unknown.clear();
        match record.kind {
            RecordKind::Source => self.hear_source(record, &mut step),
            RecordKind::Line => self.hear_line(record, &mut step),
            RecordKind::Document => self.hear_document(record, &mut step),
            RecordKind::Partial => self.hear_partial(record, &mut step),
            RecordKind::Piece | RecordKind::LastPiece => self.hear_piece(record, &mut step),
            RecordKind::End => self.hear_end(record, &mut step),
            RecordKind::Event => self.hear_own_event(record, &mut step),
            RecordKind::Slice => self.hear_slice(record, &mut step),
            other => step.unreadable(format!("a record of kind {} is unknown here", other.code())),
        }
        self.take_in(&mut step);
        if let Some(spill) = &mut self.spill {
            spill.after_record(record.bytes.len(), &mut self.conversation);
        }
        step
    }

    /// Hands the events to all that is derived of them.
    fn take_in(&mut self, step: &mut Step) {
        for event in &mut step.events {
            event.context.seq = Some(step.seq);
            event.context.v = Some(EVENT_VERSION);
            let outcome = self.conversation.apply_with(event, &mut step.changes);
            step.oddities.extend(outcome.anomaly().cloned().map(Oddity::Ignored));
            self.metadata.apply(event);
            let outcome = self.turns.apply(event);
            let odd = outcome.anomaly().cloned().map(Oddity::Ignored);
            step.oddities.extend(odd.filter(|it| !step.oddities.contains(it)));
            self.slices.hear_event(event);
        }
        self.oddities += step.oddities.len() as u64;
    }

    fn hear_source(&mut self, record: &StoredRecord, step: &mut Step) {
        let spec: SourceSpec = match serde_json::from_slice(&record.bytes) {
            Ok(spec) => spec,
            Err(error) => return step.unreadable(format!("a source cannot be read: {error}")),
        };
        if let (None, Some(agent)) = (&self.converter, spec.known_agent()) {
            let converter = match self.session.as_str() {
                "" => agent.converter(),
                _ => agent.converter_of(&self.session),
            };
            self.converter = Some((agent, converter));
        }
        self.sources.declare(record.source, spec);
    }

    fn hear_line(&mut self, record: &StoredRecord, step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(record, step) else { return };
        let position = source.position;
        step.line = position.number;
        if is_continuable {
            source.chain = source.chain.after(&record.bytes);
        }
        source.position.offset += record.bytes.len() as u64;
        source.position.number += 1;
        source.partial = None;
        if let (Some(feed), Some(converter)) = (&source.feed, converter)
            && let Some(line) = lines::line(position, &record.bytes)
        {
            let line = FeedLine { feed, number: line.number, bytes: line.bytes };
            converter.push(&line, &mut step.events);
        }
    }

    fn hear_document(&mut self, record: &StoredRecord, step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(record, step) else { return };
        if is_continuable {
            source.document = Some(Chain::of_document(&record.bytes));
        }
        if let (Some(feed), Some(converter)) = (&source.feed, converter) {
            let agent = source.spec.known_agent();
            hear_whole((agent, feed), &record.bytes, converter, &mut step.events);
        }
    }

    fn hear_partial(&mut self, record: &StoredRecord, step: &mut Step) {
        if let Some((source, _)) = self.source_of(record, step) {
            source.partial = Some(record.bytes.clone());
        }
    }

    fn hear_piece(&mut self, record: &StoredRecord, step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(record, step) else { return };
        if is_continuable {
            source.chain = source.chain.after(&record.bytes);
        }
        source.partial = None;
        let number = source.position.number;
        let content = record.bytes.strip_suffix(b"\n").unwrap_or(&record.bytes);
        let long = source.long.get_or_insert_with(LongLine::default);
        let room = HEAD.saturating_sub(long.head.len()).min(content.len());
        long.head.extend_from_slice(&content[..room]);
        long.length += content.len() as u64;
        if let Some(last) = content.last() {
            long.ends_with_return = *last == b'\r';
        }
        source.position.offset += record.bytes.len() as u64;
        if record.kind == RecordKind::LastPiece {
            let LongLine { head, length, ends_with_return } =
                source.long.take().unwrap_or_default();
            source.position.number += 1;
            if let (Some(feed), Some(converter)) = (&source.feed, converter) {
                let length = length - u64::from(ends_with_return);
                let lost = TooLong { feed, number, length, head: &head };
                converter.too_long(&lost, &mut step.events);
            }
        }
    }

    fn hear_end(&mut self, record: &StoredRecord, step: &mut Step) {
        let Some((source, converter)) = self.source_of(record, step) else { return };
        source.ended = true;
        let open = (source.partial.take(), source.long.take());
        if let (Some(feed), Some(converter)) = (&source.feed, converter) {
            finish(open, source.position, feed, converter, &mut step.events);
        }
    }

    fn hear_own_event(&mut self, record: &StoredRecord, step: &mut Step) {
        let feed = Feed::of_events("log");
        let line = FeedLine { feed: &feed, number: record.seq, bytes: &record.bytes };
        self.events.push(&line, &mut step.events);
    }

    /// Returns the source of a record, and the converter.
    fn source_of(
        &mut self,
        record: &StoredRecord,
        step: &mut Step,
    ) -> Option<(&mut Source, Option<&mut Box<dyn Converter>>)> {
        let Some(source) = self.sources.get_mut(record.source) else {
            step.unreadable(format!("source {} was never declared", record.source));
            return None;
        };
        let converter = match source.spec.kind {
            SourceRole::Events => Some(&mut self.events),
            _ => self.converter.as_mut().map(|(_, converter)| converter),
        };
        Some((source, converter))
    }

    /// Returns the conversation as it would be if every source ended here: what was left open is
    /// closed, and an unfinished last line is shown.
    pub fn settled(&self) -> ConversationState {
        let mut state = self.conversation.clone();
        state.extend(&self.settling());
        state
    }

    /// Returns the events that would follow if every source ended here.
    pub fn settling(&self) -> Vec<SessionEvent> {
        let mut converter = self.converter.as_ref().map(|(_, converter)| converter.fork());
        let mut own = self.events.fork();
        let mut events = Vec::new();
        for source in self.sources.iter().filter(|source| !source.ended) {
            let converter = match source.spec.kind {
                SourceRole::Events => Some(&mut own),
                _ => converter.as_mut(),
            };
            if let (Some(feed), Some(converter)) = (&source.feed, converter) {
                let open = (source.partial.clone(), source.long.clone());
                finish(open, source.position, feed, converter, &mut events);
            }
        }
        events
    }

    /// Returns the session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns the last record that is in it.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the conversation.
    pub fn conversation(&self) -> &ConversationState {
        &self.conversation
    }

    /// Returns what is known of the session as a whole.
    pub fn metadata(&self) -> &SessionMetadata {
        &self.metadata
    }

    /// Returns the turns of a loop of ours; empty for a session of an agent.
    pub fn turns(&self) -> &TurnState {
        &self.turns
    }

    /// Returns the sources in the order they were told of.
    pub fn sources(&self) -> impl DoubleEndedIterator<Item = &Source> {
        self.sources.iter()
    }

    /// Returns the number of the next source that is declared.
    pub fn next_source(&self) -> u32 {
        self.sources.iter().map(|it| it.number).max().unwrap_or_default() + 1
    }

    /// Returns the latest part of a source.
    pub fn source(&self, spec: &SourceSpec) -> Option<&Source> {
        self.sources.latest(spec)
    }

    /// Returns the agent whose session this is.
    pub fn agent(&self) -> Option<Agent> {
        self.converter.as_ref().map(|(agent, _)| *agent)
    }

    /// Returns the id that the agent's own records give the session.
    pub fn agent_session(&self) -> Option<SessionId> {
        self.converter.as_ref().and_then(|(_, converter)| converter.session())
    }

    /// Returns how many things did not fit.
    pub fn oddities(&self) -> u64 {
        self.oddities
    }

    /// Returns the items of this type, from whichever slice has them.
    pub fn items<T: Item>(&self) -> Result<&Items<T>, SliceError> {
        self.slices.items()
    }

    /// Returns the slices.
    pub fn slices(&self) -> &Slices {
        &self.slices
    }

    /// Returns a fold that knows the same and goes its own way from here.
    #[must_use]
    pub fn fork(&self) -> Self {
        let converter = self.converter.as_ref().map(|(agent, it)| (*agent, it.fork()));
        Self { converter, ..self.without_converter() }
    }

    /// Returns the state of the fold, for readers who receive events from here on: it costs the
    /// same however long the session is, which copying a converter's memory does not.
    #[must_use]
    pub fn without_converter(&self) -> Self {
        Self {
            session: self.session.clone(),
            seq: self.seq,
            sources: self.sources.clone(),
            converter: None,
            events: self.events.fork(),
            conversation: self.conversation.clone(),
            spill: self.spill.clone(),
            metadata: self.metadata.clone(),
            turns: self.turns.clone(),
            slices: self.slices.fork(),
            unknown: self.unknown.clone(),
            oddities: self.oddities,
            is_continuable: self.is_continuable,
        }
    }
}

impl Step {
    pub(crate) fn unreadable(&mut self, what: String) {
        self.oddities.push(Oddity::Unreadable(what));
    }
}

/// Hands a converter a file that is one record, or a session of Claude Code in one piece.
fn hear_whole(
    (agent, feed): (Option<Agent>, &Feed),
    bytes: &[u8],
    converter: &mut Box<dyn Converter>,
    events: &mut Vec<SessionEvent>,
) {
    let may_be_packed = matches!(feed.kind, FeedKind::Main | FeedKind::Stream);
    let unpacked = agent.filter(|_| may_be_packed).and_then(|agent| agent.unpack(bytes));
    let mut push_lines = |feed: &Feed, bytes: &[u8]| {
        for line in lines::lines(bytes) {
            converter.push(&FeedLine { feed, number: line.number, bytes: line.bytes }, events);
        }
        converter.finish(feed, events);
    };
    match (unpacked, agent) {
        (Some(Unpacked::Lines(lines)), _) => push_lines(feed, &lines),
        (Some(Unpacked::Files(files)), Some(agent)) => {
            for file in &files {
                push_lines(&Feed::new(agent, file.kind.clone(), &file.feed_name()), &file.bytes);
            }
        }
        _ => converter.push(&FeedLine { feed, number: 1, bytes }, events),
    }
}

/// Tells a converter that a source is at its end, with what it left unfinished.
fn finish(
    (partial, long): (Option<Bytes>, Option<LongLine>),
    position: Position,
    feed: &Feed,
    converter: &mut Box<dyn Converter>,
    events: &mut Vec<SessionEvent>,
) {
    let partial = partial.unwrap_or_default();
    if let Some(LongLine { head, length, .. }) = long {
        let length = length + partial.len() as u64;
        converter.too_long(&TooLong { feed, number: position.number, length, head: &head }, events);
    } else if let Some(line) = lines::line(position, &partial) {
        converter.push(&FeedLine { feed, number: line.number, bytes: line.bytes }, events);
    }
    converter.finish(feed, events);
}
