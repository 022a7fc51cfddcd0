//! Tokens and cost: the last value of each message counts, once.

use serde::Serialize;
use serde_json::value::RawValue;
use threadfold_core::{Fields, Json, MetadataUpdate, Payload};

use super::said::Said;

/// What a message used.
#[derive(Serialize)]
struct Used<'a> {
    #[serde(rename = "messageId")]
    message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    tokens: &'a RawValue,
}

/// Says what a message used.
pub(super) fn usage(said: &mut Said<'_>, message: &str, model: Option<&str>, counted: &RawValue) {
    if model == Some("<synthetic>") {
        return;
    }
    update(said, "usage", Json::of(&Used { message_id: message, model, tokens: counted }));
}

/// Says one thing about the session as a whole.
pub(super) fn update(said: &mut Said<'_>, name: &str, value: Json) {
    let mut metadata = Fields::default();
    metadata.insert(name, value);
    said.say(Payload::MetadataUpdate(MetadataUpdate { metadata }));
}
