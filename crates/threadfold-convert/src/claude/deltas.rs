//! Streamed deltas: nearly all lines of a stream, so each is parsed once, in a type of its own.
//!
//! Any other line is read into the type that has the fields of all lines.

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::emitter::Emitter;
use super::live::convert_delta;
use super::wire::Delta;
use crate::borrowed::Str;

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
    // Parsing another line in vain costs more than this search.
    let head = &text.as_bytes()[..text.len().min(HEAD)];
    memmem::find(head, b"\"content_block_delta\"")?;
    serde_json::from_str(text).ok()
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
