//! Recovers corrupt lines, the same way for every agent.
//!
//! Complete records on the line are converted; the rest becomes blocks that carry it, and each loss
//! is reported.

use threadfold_core::{
    Block, Context, EventSource, Fields, Json, LogPayload, Payload, SessionEvent, UnknownBlock,
};

use crate::record::{FeedLine, TooLong};
use crate::recover::{self, Piece};

/// What ids begin with that consist of a line's number.
pub(crate) const LINE: &str = "line";

/// A converter that can report losses and show what it could not convert.
pub(crate) trait Salvage {
    /// Converts a text that should be one record. Returns whether it is one.
    fn convert(&mut self, record: &FeedLine<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool;

    /// Emits a warning: part of a line could not be used.
    fn report_loss(&mut self, record: &FeedLine<'_>, what: &str, out: &mut Vec<SessionEvent>);

    /// Emits a block that carries what could not be converted.
    fn emit_unknown(&mut self, record: &FeedLine<'_>, content: Json, out: &mut Vec<SessionEvent>);
}

/// Converts the records that a corrupt line still contains, and reports the rest.
pub(crate) fn recover_line(
    converter: &mut impl Salvage,
    record: &FeedLine<'_>,
    out: &mut Vec<SessionEvent>,
) {
    for piece in recover::records(record.bytes) {
        match piece {
            Piece::Record(text) => {
                if !converter.convert(record, text, out) {
                    converter.emit_unknown(record, Json::string(text), out);
                }
            }
            Piece::Lost { bytes, why, .. } => {
                converter.report_loss(record, &why.to_string(), out);
                let content = Json::string(&String::from_utf8_lossy(bytes));
                converter.emit_unknown(record, content, out);
            }
        }
    }
}

/// Reports a line that is too long to be converted, and shows its first bytes.
pub(crate) fn too_long(
    converter: &mut impl Salvage,
    lost: &TooLong<'_>,
    out: &mut Vec<SessionEvent>,
) {
    let record = FeedLine { feed: lost.feed, number: lost.number, bytes: lost.head };
    let what = format!("a record of {} bytes is too long to convert", lost.length);
    converter.report_loss(&record, &what, out);
    let mut content = Fields::default();
    content.insert("bytes", Json::of(&lost.length));
    content.insert("head", Json::string(&String::from_utf8_lossy(lost.head)));
    converter.emit_unknown(&record, Json::of(&content), out);
}

/// Returns a block that carries a record without an id.
///
/// Its id consists of the feed's source, the line's number and `nth`, the event's index in the line,
/// so that converting the same bytes again gives the same block.
pub(crate) fn unknown_block(record: &FeedLine<'_>, nth: usize, content: Json) -> Block {
    let source = record.feed.source.id.as_ref().map_or("", |id| id.as_str());
    let id = format!("{LINE}:{source}:{}:{nth}", record.number);
    Block::new(id, UnknownBlock { record: content })
}

/// Returns a warning that part of a line could not be used.
pub(crate) fn loss_event(
    context: Context,
    source: &EventSource,
    line: u64,
    what: &str,
) -> SessionEvent {
    log_event("warning", context, source, line, what)
}

/// Returns a remark on a line that was used in full, but is not shown where it stands.
pub(crate) fn remark_event(
    context: Context,
    source: &EventSource,
    line: u64,
    what: &str,
) -> SessionEvent {
    log_event("info", context, source, line, what)
}

fn log_event(
    level: &str,
    context: Context,
    source: &EventSource,
    line: u64,
    what: &str,
) -> SessionEvent {
    let source = EventSource { position: Some(Json::of(&line)), ..source.clone() };
    let message = format!("line {line}: {what}");
    let log = LogPayload { level: Some(level.into()), message: Some(message.into()) };
    let context = Context { source: Some(source), ..context };
    SessionEvent { context, ..SessionEvent::new(Payload::Log(log)) }
}
