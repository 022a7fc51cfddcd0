//! Threadfold's own events, one per line, read like any agent's records.
//!
//! A line that is not an event becomes a block that carries it, as in every other format, so that
//! one bad line does not hide the lines after it.

use serde::Deserialize;
use serde::de::IgnoredAny;
use threadfold_core::{BlockUpsert, Context, Json, Payload, Placement, SessionEvent, SessionId};

use crate::corrupt_lines::{self, Salvage, unknown_block};
use crate::record::{Feed, FeedLine, TooLong};
use crate::{Converter, EndProgress, Format, Shape, recover};

/// The format of Threadfold's own events.
pub const FORMAT: &Format = &Format {
    name: "events",
    help: "Threadfold's own events, one JSON object per line",
    shape: Shape::Events,
};

/// Returns a converter for Threadfold's own events.
pub fn converter() -> Box<dyn Converter> {
    Box::new(EventConverter::default())
}

/// Returns whether a line is an event of Threadfold.
///
/// Agents use `payload` too, so that field alone does not suffice.
pub fn is_event(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Marks {
        #[serde(rename = "type")]
        kind: Option<serde_json::Value>,
        payload: Option<IgnoredAny>,
        context: Option<IgnoredAny>,
    }
    let Ok(marks) = serde_json::from_slice::<Marks>(line) else { return false };
    let kind = marks.kind.as_ref().and_then(serde_json::Value::as_str).unwrap_or("");
    let has_context = marks.context.is_some() || matches!(kind, "log" | "error");
    kind.contains(':') || (marks.payload.is_some() && has_context)
}

/// Converts lines that are events already.
#[derive(Clone, Debug, Default)]
struct EventConverter {
    /// The first session that an event named.
    session: Option<SessionId>,
    /// The index in `out` of the current line's first event.
    begin: usize,
}

impl Salvage for EventConverter {
    fn convert(&mut self, line: &FeedLine<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool {
        match SessionEvent::from_json(text) {
            Ok(event) => {
                if self.session.is_none() {
                    self.session = event.context.session_id.clone();
                }
                out.push(event);
            }
            Err(error) => {
                self.report_loss(line, &format!("not an event: {error}"), out);
                let content = Json::parse(text).unwrap_or_else(|_| Json::string(text));
                self.emit_unknown(line, content, out);
            }
        }
        true
    }

    fn report_loss(&mut self, line: &FeedLine<'_>, what: &str, out: &mut Vec<SessionEvent>) {
        out.push(corrupt_lines::loss_event(
            Context::default(),
            &line.feed.source,
            line.number,
            what,
        ));
    }

    fn emit_unknown(&mut self, line: &FeedLine<'_>, content: Json, out: &mut Vec<SessionEvent>) {
        let block = unknown_block(line, out.len() - self.begin, content);
        let upsert =
            BlockUpsert { block, after: Placement::default(), replaces: None, preview: false };
        let context = Context { source: Some(line.feed.source.clone()), ..Context::default() };
        out.push(SessionEvent { context, ..SessionEvent::new(Payload::BlockUpsert(upsert)) });
    }
}

impl Converter for EventConverter {
    fn push(&mut self, line: &FeedLine<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        match recover::as_text(line.bytes) {
            Some(text) if text.trim().is_empty() => {}
            Some(text) => {
                self.convert(line, text, out);
            }
            None => corrupt_lines::recover_line(self, line, out),
        }
    }

    fn finish_portion(&mut self, _: &Feed, _: &mut Vec<SessionEvent>) -> EndProgress {
        EndProgress::Complete
    }

    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        corrupt_lines::too_long(self, lost, out);
    }

    fn session(&self) -> Option<SessionId> {
        self.session.clone()
    }

    fn memory(&self) -> Json {
        Json::string("events")
    }

    fn fork(&self) -> Box<dyn Converter> {
        Box::new(self.clone())
    }
}
