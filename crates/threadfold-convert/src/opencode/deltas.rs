//! Deltas of the bus: nearly all of its events, so each is parsed once, in a type of its own.
//!
//! Any other event is parsed twice: its envelope first, then what its type asks for.

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::emitter::Emitter;
use super::live::convert_delta;
use super::v2;
use super::wire::Delta;

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
    if memmem::find(head, b".delta\"").is_none() {
        return false;
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
