//! Gathers short lines that no converter understands, so that many of them take little memory.
//!
//! A block takes some sixty bytes of memory even when it is spilled, which is many times a line of
//! one byte. The first such lines of a source are blocks of their own; of the later ones, those that
//! follow one another are one block. Where one ends depends on the source alone, so every way to
//! read it gives the same blocks.

use serde::{Deserialize, Serialize};
use threadfold_core::{BlockBody, BlockUpsert, Json, Payload, SessionEvent, UnknownBlock};

/// A line with fewer bytes is short: four times a longer one is more than a block takes.
const SHORT: usize = 32;
/// How many short lines of a source have blocks of their own.
const SHOWN: u64 = 4096;
/// A block of gathered lines ends with a line whose number is a multiple of this.
const GROUP: u64 = 1024;

/// The short lines of a source that were not understood.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShortLines {
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gathered: Option<Gathered>,
}

/// Lines that will be one block.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gathered {
    /// The event of the last line. It has the place of the first, so that blocks before and after
    /// are found where they are expected.
    event: SessionEvent,
    first_line: u64,
    last_line: u64,
    records: Vec<Json>,
}

impl ShortLines {
    /// Looks at the events of a line, and returns true if its blocks will be shown later.
    ///
    /// Blocks that waited for this line are added to the events.
    pub(crate) fn gather(
        lines: &mut Option<Box<Self>>,
        (number, length): (u64, usize),
        events: &mut Vec<SessionEvent>,
    ) -> bool {
        if length >= SHORT || !is_unknown(events) {
            // A line that shows nothing does not end what is gathered.
            if !events.is_empty()
                && let Some(gathered) = Self::take(lines)
            {
                events.insert(0, gathered);
            }
            return false;
        }
        let lines = lines.get_or_insert_default();
        lines.count += 1;
        if lines.count <= SHOWN {
            return false;
        }
        for event in std::mem::take(events) {
            match unknown_block(&event) {
                Some(record) => {
                    let record = record.clone();
                    lines.add(event, record, number, events);
                }
                None => events.push(event),
            }
        }
        if number % GROUP == 0 {
            events.extend(lines.gathered.take().map(Gathered::into_event));
        }
        true
    }

    /// Removes the lines that wait, and returns the event of their block.
    pub(crate) fn take(lines: &mut Option<Box<Self>>) -> Option<SessionEvent> {
        lines.as_mut()?.gathered.take().map(Gathered::into_event)
    }

    fn add(&mut self, event: SessionEvent, record: Json, number: u64, out: &mut Vec<SessionEvent>) {
        match &mut self.gathered {
            Some(gathered)
                if gathered.event.context.conversation_id == event.context.conversation_id =>
            {
                gathered.add(event, record, number);
            }
            other => {
                let next = Gathered {
                    event,
                    first_line: number,
                    last_line: number,
                    records: vec![record],
                };
                out.extend(other.replace(next).map(Gathered::into_event));
            }
        }
    }
}

impl Gathered {
    fn add(&mut self, event: SessionEvent, record: Json, number: u64) {
        let before = std::mem::replace(&mut self.event, event);
        if let (Payload::BlockUpsert(now), Payload::BlockUpsert(before)) =
            (&mut self.event.payload, before.payload)
        {
            now.after = before.after;
        }
        self.last_line = number;
        self.records.push(record);
    }

    fn into_event(self) -> SessionEvent {
        let Self { mut event, first_line, last_line, records } = self;
        if let Payload::BlockUpsert(BlockUpsert { block, .. }) = &mut event.payload
            && records.len() > 1
        {
            block.metadata.insert("records", Json::of(&records.len()));
            block.metadata.insert("firstLine", Json::of(&first_line));
            block.metadata.insert("lastLine", Json::of(&last_line));
            block.body = UnknownBlock { record: Json::of(&records) }.into();
        }
        event
    }
}

/// Returns whether the events only show, and report, what was not understood.
fn is_unknown(events: &[SessionEvent]) -> bool {
    let is_log = |event: &SessionEvent| matches!(event.payload, Payload::Log(_));
    events.iter().any(|event| unknown_block(event).is_some())
        && events.iter().all(|event| is_log(event) || unknown_block(event).is_some())
}

/// Returns the record that an event shows as it came.
fn unknown_block(event: &SessionEvent) -> Option<&Json> {
    match &event.payload {
        Payload::BlockUpsert(BlockUpsert { block, replaces: None, preview: false, .. }) => {
            match &block.body {
                BlockBody::Unknown(unknown) => Some(&unknown.record),
                _ => None,
            }
        }
        _ => None,
    }
}
