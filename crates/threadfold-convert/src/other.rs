//! The fallback for unknown agents: every line is shown unchanged.
//!
//! Nothing is guessed: no roles, no tools, no times. The records are stored, so a later converter
//! for the agent can convert them again.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_core::{BlockUpsert, Context, Json, Payload, Placement, SessionEvent, SessionId};

use crate::agent::{AgentModule, OrderedFile, SessionFile};
use crate::corrupt_lines::{self, Salvage, unknown_block};
use crate::parity::{CrossCheck, FactReader, Facts, ParityTable};
use crate::record::{Feed, FeedKind, FeedLine, TooLong};
use crate::{Agent, Converter, EndProgress, Format, Shape, memory};

/// Any unknown agent.
pub(crate) const AGENT: Agent = Agent::new(&AgentModule {
    name: "other",
    other_names: &[],
    title: "an unknown agent",
    formats: &[Format {
        name: "other",
        help: "Any other text: every line is stored and shown unchanged",
        shape: Shape::Opaque,
    }],
    recognize_record: |_| None,
    recognize_opening: |_| None,
    converter: |session| Box::new(OtherConverter { session: session.cloned(), begin: 0 }),
    resume: |memory| Ok(Box::new(memory::read::<OtherConverter>(memory)?)),
    unpack: |_| None,
    is_session_name: |_| false,
    part_name: |_| None,
    title_marks: &[],
    has_one_main_file: false,
    reading_order: |files| {
        let file = |(index, file): (usize, &SessionFile<'_>)| {
            OrderedFile::new(index, FeedKind::Main, file.path)
        };
        files.iter().enumerate().map(file).collect()
    },
});

/// Records that are not understood cannot be compared, so no known gaps are needed.
pub(crate) const PARITY: ParityTable = ParityTable {
    known_gaps: || &[],
    explain_block: |_, _, _| None,
    explain_field: |_, _| None,
    is_shared: |_, _, _| false,
    paired: &[],
    paired_if_stored: &[],
    paired_if_streamed: &[],
    cause_of: |_| None,
    omission_of: |_| None,
    facts: || Box::new(NoFacts),
    cross_check: |_, _| CrossCheck::default(),
    opens_turn: |_| false,
    stores_subagents_apart: false,
    loses_end_at_kill: false,
    loses_end_at_signal: None,
    leaves_prompts_in_queue: None,
    loses_subagents_at_exit: None,
    disorders_lines: None,
    omits_background: None,
    loses_results_at_cut: None,
    omits_after_interruption: None,
    is_unnamed: None,
    line_place: None,
    field_gap: |_| None,
};

/// Records of unknown agents state nothing that could be compared.
struct NoFacts;

impl FactReader for NoFacts {
    fn push(&mut self, _: &FeedLine<'_>) {}

    fn finish(self: Box<Self>) -> Facts {
        Facts::default()
    }
}

/// Converts lines of unknown agents: one block per line, which carries it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OtherConverter {
    session: Option<SessionId>,
    /// The index in `out` of the current line's first event.
    #[serde(skip)]
    begin: usize,
}

impl OtherConverter {
    fn context(&self, feed: &Feed) -> Context {
        Context {
            session_id: self.session.clone(),
            source: Some(feed.source.clone()),
            ..Context::default()
        }
    }
}

impl Salvage for OtherConverter {
    fn convert(&mut self, record: &FeedLine<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool {
        let kept = serde_json::from_str::<&RawValue>(text).map_or(Json::string(text), Json::from);
        self.emit_unknown(record, kept, out);
        true
    }

    fn report_loss(&mut self, record: &FeedLine<'_>, what: &str, out: &mut Vec<SessionEvent>) {
        let context = self.context(record.feed);
        out.push(corrupt_lines::loss_event(context, &record.feed.source, record.number, what));
    }

    fn emit_unknown(&mut self, record: &FeedLine<'_>, kept: Json, out: &mut Vec<SessionEvent>) {
        let block = unknown_block(record, out.len() - self.begin, kept);
        let upsert =
            BlockUpsert { block, after: Placement::default(), replaces: None, preview: false };
        let context = self.context(record.feed);
        out.push(SessionEvent { context, ..SessionEvent::new(Payload::BlockUpsert(upsert)) });
    }
}

impl Converter for OtherConverter {
    fn push(&mut self, record: &FeedLine<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        match std::str::from_utf8(record.bytes) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                self.convert(record, text, out);
            }
            Err(_) => {
                self.report_loss(record, "not UTF-8, and shown with replacement characters", out);
                let kept = Json::string(&String::from_utf8_lossy(record.bytes));
                self.emit_unknown(record, kept, out);
            }
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
        crate::memory::write(self)
    }

    fn fork(&self) -> Box<dyn Converter> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(bytes: &[u8], number: u64, converter: &mut dyn Converter) -> Vec<SessionEvent> {
        let feed = Feed::new(AGENT, FeedKind::Main, "main");
        let mut events = Vec::new();
        converter.push(&FeedLine { feed: &feed, number, bytes }, &mut events);
        events
    }

    #[test]
    fn every_line_becomes_a_block_with_its_text() {
        let shown = |bytes: &[u8]| {
            let events = converted(bytes, 1, AGENT.converter().as_mut());
            Json::of(&events.last().expect("a block")).as_str().to_owned()
        };
        let first = shown(b"{\"type\": \"turn\", \"x\": [1, 2]}");
        assert!(first.contains(r#""record":{"type": "turn", "x": [1, 2]}"#), "{first}");
        assert!(shown(b"7").contains(r#""record":7"#));
        assert!(shown(b"no JSON").contains(r#""record":"no JSON""#));
        assert!(shown(b"\xff").contains("\"record\":\"\u{fffd}\""));
    }

    #[test]
    fn a_restored_converter_continues_from_its_memory() {
        let mut converter = AGENT.converter_of(&SessionId::from("s"));
        let mut again = AGENT.resume_converter(&converter.memory()).unwrap();
        let one = converted(b"{}", 3, converter.as_mut());
        let other = converted(b"{}", 3, again.as_mut());
        assert_eq!(one, other);
        assert_eq!(one[0].context.session_id, Some(SessionId::from("s")));
    }
}
