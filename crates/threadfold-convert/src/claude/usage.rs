//! Tokens and cost: the last value of each message counts, once.

use serde::Serialize;
use serde_json::value::RawValue;
use threadfold_core::{Fields, Json, MetadataUpdate, Payload};

use super::emitter::Emitter;

/// What a message used.
#[derive(Serialize)]
struct MessageUsage<'a> {
    #[serde(rename = "messageId")]
    message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    tokens: &'a RawValue,
}

/// Says what a message used.
pub(super) fn usage(
    emitter: &mut Emitter<'_>,
    message: &str,
    model: Option<&str>,
    counted: &RawValue,
) {
    if model == Some("<synthetic>") {
        return;
    }
    update(
        emitter,
        "usage",
        Json::of(&MessageUsage { message_id: message, model, tokens: counted }),
    );
}

/// Says one thing about the session as a whole.
pub(super) fn update(emitter: &mut Emitter<'_>, name: &str, value: Json) {
    let mut metadata = Fields::default();
    metadata.insert(name, value);
    emitter.emit(Payload::MetadataUpdate(MetadataUpdate { metadata }));
}
