//! Pushes records into a fold: one method per kind of record.

use bytes::Bytes;
use threadfold_convert::lines::{self, Position};
use threadfold_convert::{Agent, Bundle, Converter, Feed, FeedKind, FeedLine};
use threadfold_core::{Payload, SessionEvent};

use super::{Fold, Oddity, Step, observation};
use crate::record::{RecordKind, StoredRecord};
use crate::short_lines::ShortLines;
use crate::source::{Chain, LongLine, Source, SourceRole, SourceSpec};

/// The version of events that a fold emits.
const EVENT_VERSION: u64 = 1;

impl Fold {
    /// Moves the fold by the next record of the log.
    pub fn push(&mut self, record: &StoredRecord) -> Step {
        let mut step = Step::default();
        self.push_to(record, &mut step);
        step
    }

    /// Moves the fold by the next record of the log, and replaces `step` by what it changed.
    ///
    /// The step's memory is used again: most records are one short event, and to allocate lists
    /// for each costs a fifth of a live stream's fold.
    pub fn push_to(&mut self, record: &StoredRecord, step: &mut Step) {
        step.reset(record.seq, record.bytes.len());
        self.begin(record.seq, record.bytes.len());
        match record.kind {
            RecordKind::Source => self.push_source(record, step),
            RecordKind::Line => self.push_line(record.source, &record.bytes, step),
            RecordKind::Document => self.push_document(record, step),
            RecordKind::Partial => self.push_partial(record, step),
            RecordKind::Piece | RecordKind::LastPiece => self.push_piece(record, step),
            RecordKind::End => self.push_end(record, step),
            RecordKind::Event => self.push_event(record, &record.bytes, step),
            RecordKind::Loop => self.push_event(record, record.content_and_mark().0, step),
            RecordKind::Trust => self.turns.trust(),
            RecordKind::Observation => self.push_observation(record, step),
            RecordKind::Slice => self.push_slice(record, step),
            other => step.report_unreadable(format!("record kind {} is unknown", other.code())),
        }
        stamp(&mut step.events, step.seq);
        self.apply_stamped(step, record.kind);
        if step.restored {
            // The snapshot of the restored session has all of it.
            step.slice_changes.clear();
        }
    }

    /// Moves the fold by lines of a source, each of them a record, as [`push_to`](Self::push_to)
    /// does by one record. The lines are borrowed: to copy a whole transcript would take a tenth of
    /// the time to load it.
    ///
    /// All lines are converted before the events of the first are applied. Converters and reducer
    /// together are larger than the processor's cache of instructions, so taking turns with every
    /// line would load each of them from memory again and again.
    pub(crate) fn push_lines_to(&mut self, source: u32, lines: &[&[u8]], step: &mut Step) {
        step.reset(self.seq, 0);
        for line in lines {
            let first = step.events.len();
            self.begin(self.seq + 1, line.len());
            step.seq = self.seq;
            step.bytes += line.len();
            self.push_line(source, line, step);
            stamp(&mut step.events[first..], self.seq);
        }
        self.apply_stamped(step, RecordKind::Line);
    }

    /// Begins the record `seq`, which has `length` bytes.
    fn begin(&mut self, seq: u64, length: usize) {
        self.seq = seq;
        // Nothing here updates these slices, so after another record they would be wrong.
        self.unknown.clear();
        if let Some(spill) = &mut self.spill {
            spill.count_record(length);
        }
    }

    /// Applies the events of the step to everything that is derived from events.
    fn apply_stamped(&mut self, step: &mut Step, kind: RecordKind) {
        let mut has_metadata = false;
        for event in &step.events {
            if self.is_conversation_only {
                let outcome = self.conversation.apply(event);
                step.oddities.extend(outcome.anomaly().cloned().map(Oddity::Ignored));
                if let Some(spill) = &mut self.spill {
                    spill.after_event(&mut self.conversation);
                }
                continue;
            }
            let outcome = self.conversation.apply_with(event, &mut step.changes);
            step.oddities.extend(outcome.anomaly().cloned().map(Oddity::Ignored));
            self.metadata.apply(event);
            has_metadata |= matches!(
                event.payload,
                Payload::MetadataUpdate(_) | Payload::TurnStarted(_) | Payload::TurnAnswered(_)
            );
            let outcome = self.turns.apply(event, kind);
            // Both reducers may report the same anomaly; it counts once.
            let odd = outcome.anomaly().cloned().map(Oddity::Ignored);
            step.oddities.extend(odd.filter(|it| !step.oddities.contains(it)));
            self.slices.apply_event(event);
            // One record may be a million events.
            if let Some(spill) = &mut self.spill {
                spill.after_event(&mut self.conversation);
            }
        }
        step.metadata = has_metadata.then(|| self.metadata.clone());
        self.slices.take_changes(&mut step.slice_changes);
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

    fn push_line(&mut self, source: u32, bytes: &[u8], step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(source, step) else { return };
        let position = source.position;
        step.line = position.number;
        if is_continuable {
            source.chain = source.chain.after(bytes);
        }
        source.position.offset += bytes.len() as u64;
        source.position.number += 1;
        // The complete line replaces its beginning, which was never converted.
        source.partial = None;
        if let (Some(feed), Some(converter)) = (&source.feed, converter)
            && let Some(line) = lines::line(position, bytes)
        {
            let line = FeedLine { feed, number: line.number, bytes: line.bytes };
            let first = step.events.len();
            converter.push(&line, &mut step.events);
            ShortLines::join(&mut source.short, line.bytes.len(), &mut step.events[first..]);
        }
    }

    fn push_document(&mut self, record: &StoredRecord, step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(record.source, step) else { return };
        if is_continuable {
            source.document = Some(Chain::of_document(&record.bytes));
        }
        if let (Some(feed), Some(converter)) = (&source.feed, converter) {
            let agent = source.spec.known_agent();
            convert_document((agent, feed), &record.bytes, converter, &mut step.events);
        }
    }

    fn push_partial(&mut self, record: &StoredRecord, step: &mut Step) {
        if let Some((source, _)) = self.source_of(record.source, step) {
            source.partial = Some(record.bytes.clone());
        }
    }

    fn push_piece(&mut self, record: &StoredRecord, step: &mut Step) {
        let is_continuable = self.is_continuable;
        let Some((source, converter)) = self.source_of(record.source, step) else { return };
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
                ShortLines::join(&mut source.short, usize::MAX, &mut step.events);
            }
        }
    }

    fn push_end(&mut self, record: &StoredRecord, step: &mut Step) {
        let Some((source, converter)) = self.source_of(record.source, step) else { return };
        source.ended = true;
        let open = (source.partial.take(), source.long.take());
        if let (Some(feed), Some(converter)) = (&source.feed, converter) {
            finish_line(open, source.position, feed, converter, &mut step.events);
            converter.finish(feed, &mut step.events);
            ShortLines::move_anchors(source.short.as_deref(), &mut step.events);
        }
    }

    fn push_event(&mut self, record: &StoredRecord, bytes: &[u8], step: &mut Step) {
        let feed = Feed::of_events("log");
        let line = FeedLine { feed: &feed, number: record.seq, bytes };
        self.events.push(&line, &mut step.events);
    }

    /// Applies what a follower observed. Any other event is refused, whoever wrote the record: a
    /// store from elsewhere can contain any bytes under any kind.
    fn push_observation(&mut self, record: &StoredRecord, step: &mut Step) {
        match observation::read(&record.bytes) {
            Ok(event) => step.events.push(event),
            Err(why) => step.report_unreadable(why),
        }
    }

    /// Returns the source of a record, and its converter.
    fn source_of(
        &mut self,
        number: u32,
        step: &mut Step,
    ) -> Option<(&mut Source, Option<&mut Box<dyn Converter>>)> {
        let Some(source) = self.sources.get_mut(number) else {
            step.report_unreadable(format!("source {number} was not declared"));
            return None;
        };
        let converter = match source.spec.kind {
            SourceRole::Events => Some(&mut self.events),
            _ => self.converter.as_mut().map(|(_, converter)| converter),
        };
        Some((source, converter))
    }
}

/// Gives events the number of their record.
fn stamp(events: &mut [SessionEvent], seq: u64) {
    for event in events {
        event.context.seq = Some(seq);
        event.context.v = Some(EVENT_VERSION);
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

/// Converts the incomplete last line of a feed that ends.
pub(super) fn finish_line(
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
}
