//! Deltas of the bus: nearly all of its events, so each is parsed once, in a type of its own.
//!
//! Any other event is parsed twice: its envelope first, then what its type asks for.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::emitter::Emitter;
use super::live::convert_delta;
use super::v2;
use super::wire::Delta;
use crate::borrowed::Str;
use crate::plain_json::{PlainJson, once};

/// A delta of either version. An event with any other field is not one: it may be a wrapper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeltaEvent<'a> {
    #[serde(rename = "type")]
    kind: DeltaKind,
    #[serde(borrow)]
    properties: Option<Delta<'a>>,
    #[serde(borrow)]
    data: Option<v2::Delta<'a>>,
    #[serde(rename = "id", default)]
    _id: IgnoredAny,
    #[serde(rename = "created", default)]
    _created: IgnoredAny,
    #[serde(rename = "location", default)]
    _location: IgnoredAny,
}

#[derive(Deserialize)]
enum DeltaKind {
    #[serde(rename = "message.part.delta")]
    Part,
    #[serde(rename = "session.text.delta")]
    Text,
    #[serde(rename = "session.reasoning.delta")]
    Reasoning,
}

/// How many bytes of an event are searched for its type.
const HEAD: usize = 160;

/// Converts an event if it is a delta in its usual form. Returns whether it is.
pub(super) fn convert(emitter: &mut Emitter<'_>, text: &str) -> bool {
    // Parsing another event in vain costs more than this search.
    let head = &text.as_bytes()[..text.len().min(HEAD)];
    if !is_delta(head) {
        return false;
    }
    if let Some(delta) = read_plain(text) {
        convert_delta(emitter, &delta);
        return true;
    }
    let Ok(event) = serde_json::from_str::<DeltaEvent<'_>>(text) else { return false };
    match (event.kind, event.properties, event.data) {
        (DeltaKind::Part, Some(delta), None) => convert_delta(emitter, &delta),
        (DeltaKind::Text, None, Some(delta)) => v2::convert_delta(emitter, "text", &delta),
        (DeltaKind::Reasoning, None, Some(delta)) => {
            v2::convert_delta(emitter, "reasoning", &delta);
        }
        _ => return false,
    }
    true
}

/// Returns whether the head of an event names a delta. Building a searcher costs more than to
/// search so few bytes for a letter that is rare in front of the type.
fn is_delta(head: &[u8]) -> bool {
    memchr::memchr_iter(b'.', head).any(|at| head[at..].starts_with(b".delta\""))
}

/// Reads a delta of version 1 in the spelling that all known versions give it.
fn read_plain(text: &str) -> Option<Delta<'_>> {
    let (mut kind, mut id, mut properties) = (None, None, None);
    PlainJson::read(text, |key, value| match key {
        "type" => once(&mut kind, (value.string()? == "message.part.delta").then_some(())?),
        "id" => once(&mut id, value.string()?),
        "properties" => once(&mut properties, read_plain_delta(value)?),
        _ => None,
    })?;
    kind?;
    properties
}

fn read_plain_delta<'a>(properties: &mut PlainJson<'a>) -> Option<Delta<'a>> {
    let (mut session, mut message) = (None, None);
    let (mut part_id, mut field, mut delta) = (None, None, None);
    properties.members(|key, value| match key {
        "sessionID" => once(&mut session, value.string()?),
        "messageID" => once(&mut message, value.string()?),
        "partID" => once(&mut part_id, Str(Cow::Borrowed(value.string()?))),
        "field" => once(&mut field, Str(Cow::Borrowed(value.string()?))),
        "delta" => once(&mut delta, Str(value.text()?)),
        _ => None,
    })?;
    Some(Delta { part_id, field, delta })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(delta: &Delta<'_>) -> [Option<String>; 3] {
        [&delta.part_id, &delta.field, &delta.delta].map(|it| it.as_ref().map(|it| it.to_string()))
    }

    #[test]
    fn both_readers_read_the_same() {
        let lines = [
            r#"{"type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"a\tb"}}"#,
            r#"{"id": "evt_1", "type": "message.part.delta", "properties": {"delta": "a", "field": "text", "partID": "p"}}"#,
        ];
        for line in lines {
            let generic: DeltaEvent<'_> = serde_json::from_str(line).expect("the test's line");
            let plain = read_plain(line).expect("the usual form");
            assert_eq!(Some(parts(&plain)), generic.properties.as_ref().map(parts), "{line}");
        }
    }
}
