//! Streamed deltas: nearly all lines of a stream, so each is parsed once, in a type of its own.
//!
//! Any other line is read into the type that has the fields of all lines.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::emitter::Emitter;
use super::live::convert_delta;
use super::wire::Delta;
use crate::borrowed::Str;
use crate::plain_json::{PlainJson, once};

/// A line with a delta, in its usual form: other fields may change what the line means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeltaLine<'a> {
    #[serde(rename = "type")]
    _kind: LineKind,
    #[serde(borrow)]
    event: DeltaEvent<'a>,
    #[serde(borrow)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    parent_tool_use_id: Option<Str<'a>>,
    #[serde(rename = "uuid", default)]
    _uuid: IgnoredAny,
    #[serde(rename = "api_message_id", default)]
    _message: IgnoredAny,
    #[serde(rename = "thinking_display", default)]
    _display: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeltaEvent<'a> {
    #[serde(rename = "type")]
    _kind: EventKind,
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
enum LineKind {
    #[serde(rename = "stream_event")]
    StreamEvent,
}

#[derive(Deserialize)]
enum EventKind {
    #[serde(rename = "content_block_delta")]
    ContentBlockDelta,
}

/// How many bytes of a line are searched for its type.
const HEAD: usize = 80;

/// Reads a line if it is a delta in its usual form.
pub(super) fn read(text: &str) -> Option<DeltaLine<'_>> {
    // Reading another line in vain costs more than this search.
    let head = &text.as_bytes()[..text.len().min(HEAD)];
    let is_delta = head.starts_with(USUAL_HEAD) || memmem::find(head, NAME).is_some();
    is_delta.then(|| read_plain(text).or_else(|| serde_json::from_str(text).ok()))?
}

const NAME: &[u8] = b"\"content_block_delta\"";
const USUAL_HEAD: &[u8] = br#"{"type":"stream_event","event":{"type":"content_block_delta","#;

/// Reads a line in the spelling that all known versions give it.
fn read_plain(text: &str) -> Option<DeltaLine<'_>> {
    let (mut kind, mut event, mut session_id, mut parent) = (None, None, None, None);
    let (mut uuid, mut message) = (None, None);
    PlainJson::read(text, |key, value| match key {
        "type" => once(&mut kind, (value.string()? == "stream_event").then_some(())?),
        "event" => once(&mut event, read_plain_event(value)?),
        "session_id" => once(&mut session_id, value.string_or_null()?),
        "parent_tool_use_id" => once(&mut parent, value.string_or_null()?),
        "uuid" => once(&mut uuid, value.string_or_null()?),
        "api_message_id" => once(&mut message, value.string_or_null()?),
        _ => None,
    })?;
    kind?;
    let name = |it: Option<Option<_>>| it.flatten().map(|it| Str(Cow::Borrowed(it)));
    Some(DeltaLine {
        _kind: LineKind::StreamEvent,
        event: event?,
        session_id: name(session_id),
        parent_tool_use_id: name(parent),
        _uuid: IgnoredAny,
        _message: IgnoredAny,
        _display: IgnoredAny,
    })
}

fn read_plain_event<'a>(event: &mut PlainJson<'a>) -> Option<DeltaEvent<'a>> {
    let (mut kind, mut index, mut delta) = (None, None, None);
    event.members(|key, value| match key {
        "type" => once(&mut kind, (value.string()? == "content_block_delta").then_some(())?),
        "index" => once(&mut index, value.number()?),
        "delta" => once(&mut delta, read_plain_delta(value)?),
        _ => None,
    })?;
    kind?;
    Some(DeltaEvent { _kind: EventKind::ContentBlockDelta, index, delta })
}

fn read_plain_delta<'a>(delta: &mut PlainJson<'a>) -> Option<Delta<'a>> {
    let (mut kind, mut text, mut thinking, mut partial_json) = (None, None, None, None);
    delta.members(|key, value| match key {
        "type" => once(&mut kind, value.string()?),
        "text" => once(&mut text, Str(value.text()?)),
        "thinking" => once(&mut thinking, Str(value.text()?)),
        "partial_json" => once(&mut partial_json, Str(value.text()?)),
        _ => None,
    })?;
    Some(Delta { stop_reason: None, text, thinking, partial_json })
}

/// Emits the text of a delta, as [`live::convert`](super::live::convert) does.
pub(super) fn convert(emitter: &mut Emitter<'_>, line: &DeltaLine<'_>) {
    if let Some(call) = line.parent_tool_use_id.as_deref() {
        emitter.conversation = call.into();
    }
    // A message of the stream explains why the session changed.
    emitter.memory.streamed_session.is_unexplained = false;
    if let Some(delta) = &line.event.delta {
        convert_delta(emitter, line.event.index, delta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a line that are converted.
    fn parts(line: &DeltaLine<'_>) -> [Option<String>; 6] {
        let delta = line.event.delta.as_ref();
        let own = |it: Option<&Str<'_>>| it.map(|it| it.to_string());
        [
            line.event.index.map(|it| it.to_string()),
            own(line.session_id.as_ref()),
            own(line.parent_tool_use_id.as_ref()),
            own(delta.and_then(|it| it.text.as_ref())),
            own(delta.and_then(|it| it.thinking.as_ref())),
            own(delta.and_then(|it| it.partial_json.as_ref())),
        ]
    }

    #[test]
    fn both_readers_read_the_same() {
        let lines = [
            r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Starting"}},"session_id":"s","parent_tool_use_id":null,"uuid":"u"}"#,
            r#"{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"\u00e9\n"}},"session_id":"s","parent_tool_use_id":"toolu_1","uuid":"u","api_message_id":"m"}"#,
            r#"{"uuid":"u","session_id":"s","parent_tool_use_id":null,"event":{"delta":{"partial_json":"{\"a\":","type":"input_json_delta"},"index":12,"type":"content_block_delta"},"type":"stream_event"}"#,
        ];
        for line in lines {
            let generic = serde_json::from_str(line).expect("the test's line");
            let plain = read_plain(line).expect("the usual form");
            assert_eq!(parts(&plain), parts(&generic), "{line}");
        }
    }
}
