//! Any other agent, or no agent at all: every line is shown as it came.
//!
//! Nothing of it is understood, so nothing is guessed: no roles, no tools, no times. What the
//! lines mean can be told later, by a converter that knows the agent, from the same records.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_core::{BlockUpsert, Context, Json, Payload, Placement, SessionEvent, SessionId};

use crate::Converter;
use crate::record::{Feed, Record, TooLong};
use crate::salvage::{self, Salvage, unknown_block};

/// Converts what nobody knows: a block a line, which carries it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OtherConverter {
    session: Option<SessionId>,
    /// Where the events of the record at hand begin.
    #[serde(skip)]
    begin: usize,
}

impl OtherConverter {
    /// Returns a converter for this session, which no line names.
    pub fn of_session(session: &SessionId) -> Self {
        Self { session: Some(session.clone()), begin: 0 }
    }

    fn context(&self, feed: &Feed) -> Context {
        Context {
            session_id: self.session.clone(),
            source: Some(feed.source.clone()),
            ..Context::default()
        }
    }
}

impl Salvage for OtherConverter {
    fn convert(&mut self, record: &Record<'_>, text: &str, out: &mut Vec<SessionEvent>) -> bool {
        let kept = serde_json::from_str::<&RawValue>(text).map_or(Json::string(text), Json::from);
        self.unknown(record, kept, out);
        true
    }

    fn loss(&mut self, record: &Record<'_>, what: &str, out: &mut Vec<SessionEvent>) {
        let context = self.context(record.feed);
        out.push(salvage::loss(context, &record.feed.source, record.line, what));
    }

    fn unknown(&mut self, record: &Record<'_>, kept: Json, out: &mut Vec<SessionEvent>) {
        let block = unknown_block(record, out.len() - self.begin, kept);
        let upsert =
            BlockUpsert { block, after: Placement::default(), replaces: None, preview: false };
        let context = self.context(record.feed);
        out.push(SessionEvent { context, ..SessionEvent::new(Payload::BlockUpsert(upsert)) });
    }
}

impl Converter for OtherConverter {
    fn push(&mut self, record: &Record<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        match std::str::from_utf8(record.bytes) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                self.convert(record, text, out);
            }
            Err(_) => {
                self.loss(record, "not UTF-8, and shown with replacement characters", out);
                let kept = Json::string(&String::from_utf8_lossy(record.bytes));
                self.unknown(record, kept, out);
            }
        }
    }

    fn finish(&mut self, _: &Feed, _: &mut Vec<SessionEvent>) {}

    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>) {
        self.begin = out.len();
        salvage::too_long(self, lost, out);
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
    use crate::{Agent, FeedKind, SessionFile, converter_from, parse_transcript};

    fn shown(bytes: &[u8]) -> Vec<String> {
        let state = parse_transcript(Agent::Other, &[SessionFile { path: "a.jsonl", bytes }]);
        state.blocks().iter().map(|block| Json::of(&*block).as_str().to_owned()).collect()
    }

    #[test]
    fn every_line_is_a_block_that_carries_it() {
        let shown = shown(b"{\"type\": \"turn\", \"x\": [1, 2]}\n\n7\nno JSON\n\xff\n");
        assert_eq!(shown.len(), 4);
        assert!(shown[0].contains(r#""record":{"type": "turn", "x": [1, 2]}"#), "{shown:?}");
        assert!(shown[1].contains(r#""record":7"#), "{shown:?}");
        assert!(shown[2].contains(r#""record":"no JSON""#), "{shown:?}");
        assert!(shown[3].contains("\"record\":\"\u{fffd}\""), "{shown:?}");
    }

    #[test]
    fn it_goes_on_from_what_it_remembers() {
        let feed = Feed::new(Agent::Other, FeedKind::Main, "a.jsonl");
        let mut converter = OtherConverter::of_session(&SessionId::from("s"));
        let mut again = converter_from(Agent::Other, &converter.memory()).unwrap();
        let record = Record { feed: &feed, line: 3, bytes: b"{}" };
        let (mut one, mut other) = (Vec::new(), Vec::new());
        converter.push(&record, &mut one);
        again.push(&record, &mut other);
        assert_eq!(one, other);
        assert_eq!(one[0].context.session_id, Some(SessionId::from("s")));
    }
}
