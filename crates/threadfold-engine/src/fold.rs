//! All that is derived of a session's log, moved by one record at a time.
//!
//! Pure: the same records give the same fold, whoever read them and when.

mod slices;

pub(crate) use slices::SliceWord;

use std::sync::Arc;

use bytes::Bytes;
use imbl::Vector;
use threadfold_convert::lines::{self, Position};
use threadfold_convert::{
    Agent, Converter, Feed, FeedKind, Record, TooLong, Unpacked, converter_of_session, unpack,
};
use threadfold_core::{
    Anomaly, Change, ConversationState, SessionEvent, SessionId, SessionMetadata, TurnState,
};
use threadfold_store::{BlobHash, RecordKind, StoredRecord};

use crate::error::EngineError;
use crate::shelf::{Budget, FileShelf, Spill};
use crate::slice::{Item, Items, SliceError, Slices};
use crate::snapshot::SliceSnapshot;
use crate::source::{Chain, LongLine, Source, SourceSpec, SpecKind};

/// The version of events as the log derives them.
const EVENT_VERSION: u64 = 1;
/// How much of a line that is too long is shown.
const HEAD: usize = 4 << 10;

/// All that is derived of a session's log.
pub struct Fold {
    session: SessionId,
    seq: u64,
    sources: Vector<Source>,
    converter: Option<(Agent, Box<dyn Converter>)>,
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
}

/// What one record meant.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The record.
    pub seq: u64,
    /// How many bytes it has.
    pub bytes: usize,
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
    Unheard(String),
}

impl Fold {
    /// Returns the fold of no records.
    pub fn new(session: SessionId, slices: Slices) -> Self {
        Self {
            session,
            seq: 0,
            sources: Vector::new(),
            converter: None,
            conversation: ConversationState::default(),
            spill: None,
            metadata: SessionMetadata::default(),
            turns: TurnState::default(),
            slices,
            unknown: Vec::new(),
            oddities: 0,
        }
    }

    /// Has what does not fit in memory put away.
    #[must_use]
    pub fn within(self, budget: Budget) -> Self {
        Self { spill: Some(Spill::new(budget)), ..self }
    }

    /// Refuses to go on if what was put away could not be written or read: the conversation is
    /// not to be believed any more. The records are.
    pub fn check(&self) -> Result<(), EngineError> {
        self.shelf().map_or(Ok(()), |shelf| shelf.check())
    }

    pub(crate) fn shelf(&self) -> Option<&Arc<FileShelf>> {
        self.spill.as_ref().map(Spill::shelf)
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
            RecordKind::Event => self.hear_own_event(&record.bytes, &mut step),
            RecordKind::Slice => self.hear_slice(record, &mut step),
            other => step.unreadable(format!("a record of kind {} is unknown here", other.code())),
        }
        self.take_in(&mut step);
        if let Some(spill) = &mut self.spill {
            spill.folded(record.bytes.len(), &mut self.conversation);
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
            self.converter = Some((agent, converter_of_session(agent, &self.session)));
        }
        self.sources.push_back(Source::new(record.source, spec));
    }

    fn hear_line(&mut self, record: &StoredRecord, step: &mut Step) {
        let Some((source, converter)) = self.source_of(record, step) else { return };
        let position = source.advance(record);
        source.partial = None;
        if source.spec.kind == SpecKind::Attached {
            return;
        }
        match (&source.feed, converter) {
            (Some(feed), Some(converter)) => {
                if let Some(line) = lines::line(position, &record.bytes) {
                    let record = Record { feed, line: line.number, bytes: line.bytes };
                    converter.push(&record, &mut step.events);
                }
            }
            (Some(_), None) => {}
            (None, _) => {
                if let Some(line) = lines::line(position, &record.bytes) {
                    hear_event(line.bytes, step);
                }
            }
        }
    }

    fn hear_document(&mut self, record: &StoredRecord, step: &mut Step) {
        let Some((source, converter)) = self.source_of(record, step) else { return };
        source.document = Some(BlobHash::of(&record.bytes));
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
        let Some((source, converter)) = self.source_of(record, step) else { return };
        source.chain = source.chain.after(&record.bytes);
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
            if source.spec.kind == SpecKind::Attached {
                // It is kept, and nobody reads it.
            } else if source.feed.is_none() {
                step.unreadable(format!("an event of {length} bytes is too long to be read"));
            } else if let (Some(feed), Some(converter)) = (&source.feed, converter) {
                let length = length - u64::from(ends_with_return);
                let lost = TooLong { feed, line: number, length, head: &head };
                converter.too_long(&lost, &mut step.events);
            }
        }
    }

    fn hear_end(&mut self, record: &StoredRecord, step: &mut Step) {
        let Some((source, converter)) = self.source_of(record, step) else { return };
        source.ended = true;
        let open = (source.partial.take(), source.long.take());
        match (&source.feed, converter) {
            (Some(feed), Some(converter)) => {
                finish(open, source.position, feed, converter, &mut step.events);
            }
            (Some(_), None) => {}
            (None, _) if source.spec.kind == SpecKind::Attached => {}
            (None, _) => hear_unfinished(open.0.as_ref(), source.position, step),
        }
    }

    fn hear_own_event(&mut self, bytes: &[u8], step: &mut Step) {
        hear_event(bytes, step);
    }

    /// Returns the source of a record, and the converter.
    fn source_of(
        &mut self,
        record: &StoredRecord,
        step: &mut Step,
    ) -> Option<(&mut Source, Option<&mut Box<dyn Converter>>)> {
        let found = self.sources.iter().rposition(|source| source.number == record.source);
        let Some(index) = found else {
            step.unreadable(format!("source {} was never told of", record.source));
            return None;
        };
        let source = self.sources.get_mut(index)?;
        Some((source, self.converter.as_mut().map(|(_, converter)| converter)))
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
        let mut step = Step { seq: self.seq, ..Step::default() };
        for source in self.sources.iter().filter(|source| !source.ended) {
            match (&source.feed, &mut converter) {
                (Some(feed), Some(converter)) => {
                    let open = (source.partial.clone(), source.long.clone());
                    finish(open, source.position, feed, converter, &mut step.events);
                }
                (Some(_), None) => {}
                (None, _) if source.spec.kind == SpecKind::Attached => {}
                (None, _) => hear_unfinished(source.partial.as_ref(), source.position, &mut step),
            }
        }
        step.events
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

    /// Returns the latest part of a source.
    pub fn source(&self, spec: &SourceSpec) -> Option<&Source> {
        self.sources.iter().rfind(|source| source.spec.is_same_source(spec))
    }

    /// Returns the agent whose session this is.
    pub fn agent(&self) -> Option<Agent> {
        self.converter.as_ref().map(|(agent, _)| *agent)
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
        Self {
            session: self.session.clone(),
            seq: self.seq,
            sources: self.sources.clone(),
            converter: self.converter.as_ref().map(|(agent, it)| (*agent, it.fork())),
            conversation: self.conversation.clone(),
            spill: self.spill.clone(),
            metadata: self.metadata.clone(),
            turns: self.turns.clone(),
            slices: self.slices.fork(),
            unknown: self.unknown.clone(),
            oddities: self.oddities,
        }
    }
}

impl Step {
    pub(crate) fn unreadable(&mut self, what: String) {
        self.oddities.push(Oddity::Unreadable(what));
    }
}

impl Source {
    /// Goes past a record, and returns where it began.
    fn advance(&mut self, record: &StoredRecord) -> Position {
        let position = self.position;
        self.chain = self.chain.after(&record.bytes);
        self.position.offset += record.bytes.len() as u64;
        self.position.number += 1;
        position
    }
}

fn hear_event(bytes: &[u8], step: &mut Step) {
    let read = std::str::from_utf8(bytes).map_err(|error| error.to_string());
    match read.and_then(|text| SessionEvent::from_json(text).map_err(|error| error.to_string())) {
        Ok(event) => step.events.push(event),
        Err(error) => step.unreadable(format!("an event cannot be read: {error}")),
    }
}

/// Hears the event of a last line that has no end.
fn hear_unfinished(partial: Option<&Bytes>, position: Position, step: &mut Step) {
    if let Some(line) = partial.and_then(|bytes| lines::line(position, bytes)) {
        hear_event(line.bytes, step);
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
    let unpacked = match agent {
        Some(Agent::Claude) if may_be_packed => unpack(bytes),
        _ => None,
    };
    let mut hear_lines = |feed: &Feed, bytes: &[u8]| {
        for line in lines::lines(bytes) {
            converter.push(&Record { feed, line: line.number, bytes: line.bytes }, events);
        }
        converter.finish(feed, events);
    };
    match unpacked {
        Some(Unpacked::Lines(lines)) => hear_lines(feed, &lines),
        Some(Unpacked::Files(files)) => {
            for (name, bytes) in &files {
                let agent =
                    name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl"));
                let kind = agent.map_or(FeedKind::Main, |agent| FeedKind::Subagent(agent.into()));
                hear_lines(&Feed::new(Agent::Claude, kind, name), bytes);
            }
        }
        None => converter.push(&Record { feed, line: 1, bytes }, events),
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
        converter.too_long(&TooLong { feed, line: position.number, length, head: &head }, events);
    } else if let Some(line) = lines::line(position, &partial) {
        converter.push(&Record { feed, line: line.number, bytes: line.bytes }, events);
    }
    converter.finish(feed, events);
}

/// Returns what stands for the records of a source, from its beginning.
pub fn chain_of<'a>(records: impl IntoIterator<Item = &'a [u8]>) -> Chain {
    records.into_iter().fold(Chain::default(), Chain::after)
}
