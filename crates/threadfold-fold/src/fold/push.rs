//! Pushes records into a fold: one method per kind of record.

use bytes::Bytes;
use threadfold_convert::lines::{self, Position};
use threadfold_convert::{Agent, Bundle, Converter, Feed, FeedKind, FeedLine};
use threadfold_core::SessionEvent;

use super::{Fold, Oddity, Step};
use crate::record::{RecordKind, StoredRecord};
use crate::source::{Chain, LongLine, Source, SourceRole, SourceSpec};

/// The version of events that a fold emits.
const EVENT_VERSION: u64 = 1;

impl Fold {
    /// Moves the fold by the next record of the log.
    pub fn push(&mut self, record: &StoredRecord) -> Step {
        let mut step = Step { seq: record.seq, bytes: record.bytes.len(), ..Step::default() };
        self.seq = record.seq;
        // Nothing here updates these slices, so after another record they would be wrong.
        self.unknown.clear();
        match record.kind {
            RecordKind::Source => self.push_source(record, &mut step),
            RecordKind::Line => self.push_line(record, &mut step),
            RecordKind::Document => self.push_document(record, &mut step),
            RecordKind::Partial => self.push_partial(record, &mut step),
            RecordKind::Piece | RecordKind::LastPiece => self.push_piece(record, &mut step),
            RecordKind::End => self.push_end(record, &mut step),
            RecordKind::Event => self.push_event(record, &mut step),
            RecordKind::Slice => self.push_slice(record, &mut step),
            other => step.report_unreadable(format!("record kind {} is unknown", other.code())),
        }
        self.apply_events(&mut step);
        if let Some(spill) = &mut self.spill {
            spill.after_record(record.bytes.len(), &mut self.conversation);
        }
        step
    }

    /// Applies the events of the step to everything that is derived from events.
    fn apply_events(&mut self, step: &mut Step) {
        for event in &mut step.events {
            event.context.seq = Some(step.seq);
            event.context.v = Some(EVENT_VERSION);
            if self.is_conversation_only {
                let outcome = self.conversation.apply(event);
                step.oddities.extend(outcome.anomaly().cloned().map(Oddity::Ignored));
                continue;
            }
            let outcome = self.conversation.apply_with(event, &mut step.changes);
            step.oddities.extend(outcome.anomaly().cloned().map(Oddity::Ignored));
            self.metadata.apply(event);
            let outcome = self.turns.apply(event);
            // Both reducers may report the same anomaly; it counts once.
            let odd = outcome.anomaly().cloned().map(Oddity::Ignored);
            step.oddities.extend(odd.filter(|it| !step.oddities.contains(it)));
            self.slices.apply_event(event);
        }
        self.oddities += step.oddities.len() as u64;
    }

    fn push_source(&mut self, record: &StoredRecord, step: &mut Step) {
        let spec: SourceSpec = match serde_json::from_slice(&record.bytes) {
            Ok(spec) => spec,
            Err(error) => {
                return step
                    .report_unreadable(format!("a source declaration cannot be read: {error}"));
            }
        };
        // The first source with an agent decides: one session has one converter.
        if let (None, Some(agent)) = (&self.converter, spec.known_agent()) {
            let converter = match self.session.as_str() {
                "" => agent.converter(),
                _ => agent.converter_of(&self.session),
            };
            self.converter = Some((agent, converter));
        }
        self.sources.declare(record.source, spec);
    }

    fn push_line(&mut self, record: &StoredRecord, step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(record, step) else { return };
        let position = source.position;
        step.line = position.number;
        if is_continuable {
            source.chain = source.chain.after(&record.bytes);
        }
        source.position.offset += record.bytes.len() as u64;
        source.position.number += 1;
        // The complete line replaces its beginning, which was never converted.
        source.partial = None;
        if let (Some(feed), Some(converter)) = (&source.feed, converter)
            && let Some(line) = lines::line(position, &record.bytes)
        {
            let line = FeedLine { feed, number: line.number, bytes: line.bytes };
            converter.push(&line, &mut step.events);
        }
    }

    fn push_document(&mut self, record: &StoredRecord, step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(record, step) else { return };
        if is_continuable {
            source.document = Some(Chain::of_document(&record.bytes));
        }
        if let (Some(feed), Some(converter)) = (&source.feed, converter) {
            let agent = source.spec.known_agent();
            convert_document((agent, feed), &record.bytes, converter, &mut step.events);
        }
    }

    fn push_partial(&mut self, record: &StoredRecord, step: &mut Step) {
        if let Some((source, _)) = self.source_of(record, step) {
            source.partial = Some(record.bytes.clone());
        }
    }

    fn push_piece(&mut self, record: &StoredRecord, step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(record, step) else { return };
        if is_continuable {
            source.chain = source.chain.after(&record.bytes);
        }
        source.partial = None;
        // Only the first bytes are kept: the line may be larger than memory.
        let number = source.position.number;
        let content = record.bytes.strip_suffix(b"\n").unwrap_or(&record.bytes);
        source.long.get_or_insert_with(LongLine::default).extend(content);
        source.position.offset += record.bytes.len() as u64;
        if record.kind == RecordKind::LastPiece {
            let long = source.long.take().unwrap_or_default();
            source.position.number += 1;
            if let (Some(feed), Some(converter)) = (&source.feed, converter) {
                converter.too_long(&long.at(number, feed), &mut step.events);
            }
        }
    }

    fn push_end(&mut self, record: &StoredRecord, step: &mut Step) {
        let Some((source, converter)) = self.source_of(record, step) else { return };
        source.ended = true;
        let open = (source.partial.take(), source.long.take());
        if let (Some(feed), Some(converter)) = (&source.feed, converter) {
            finish(open, source.position, feed, converter, &mut step.events);
        }
    }

    fn push_event(&mut self, record: &StoredRecord, step: &mut Step) {
        let feed = Feed::of_events("log");
        let line = FeedLine { feed: &feed, number: record.seq, bytes: &record.bytes };
        self.events.push(&line, &mut step.events);
    }

    /// Returns the source of a record, and its converter.
    fn source_of(
        &mut self,
        record: &StoredRecord,
        step: &mut Step,
    ) -> Option<(&mut Source, Option<&mut Box<dyn Converter>>)> {
        let Some(source) = self.sources.get_mut(record.source) else {
            step.report_unreadable(format!("source {} was not declared", record.source));
            return None;
        };
        let converter = match source.spec.kind {
            SourceRole::Events => Some(&mut self.events),
            _ => self.converter.as_mut().map(|(_, converter)| converter),
        };
        Some((source, converter))
    }
}

/// Converts a document: a file that is one record, or a bundle.
fn convert_document(
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
        (Some(Bundle::Lines(lines)), _) => push_lines(feed, &lines),
        (Some(Bundle::Files(files)), Some(agent)) => {
            for file in &files {
                push_lines(&Feed::new(agent, file.kind.clone(), &file.feed_name()), &file.bytes);
            }
        }
        _ => converter.push(&FeedLine { feed, number: 1, bytes }, events),
    }
}

/// Ends a feed: converts its incomplete last line, then closes what it left open.
pub(super) fn finish(
    (partial, long): (Option<Bytes>, Option<LongLine>),
    position: Position,
    feed: &Feed,
    converter: &mut Box<dyn Converter>,
    events: &mut Vec<SessionEvent>,
) {
    let partial = partial.unwrap_or_default();
    if let Some(mut long) = long {
        long.extend(&partial);
        converter.too_long(&long.at(position.number, feed), events);
    } else if let Some(line) = lines::line(position, &partial) {
        converter.push(&FeedLine { feed, number: line.number, bytes: line.bytes }, events);
    }
    converter.finish(feed, events);
}
