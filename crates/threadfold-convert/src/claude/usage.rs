//! Tokens and cost: for each message, the last reported value counts, once.

use serde::Serialize;
use serde_json::value::RawValue;
use threadfold_core::{Fields, Json, MetadataUpdate, Payload};

use super::emitter::Emitter;

/// The tokens of one message, as `metadata:update` carries them.
#[derive(Serialize)]
pub(super) struct MessageUsage<'a> {
    #[serde(rename = "messageId")]
    pub(super) message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(rename = "stopReason", skip_serializing_if = "Option::is_none")]
    pub(super) stop_reason: Option<&'a str>,
    pub(super) tokens: &'a RawValue,
}

/// Emits the token counts of a message, and why it ended.
pub(super) fn emit_usage(emitter: &mut Emitter<'_>, usage: &MessageUsage<'_>) {
    // The harness writes these messages itself, with counts of zero; no model was called.
    if usage.model == Some("<synthetic>") {
        return;
    }
    emit_metadata(emitter, "usage", Json::of(usage));
}

/// Emits one fact about the session as a whole.
pub(super) fn emit_metadata(emitter: &mut Emitter<'_>, name: &str, value: Json) {
    let mut metadata = Fields::default();
    metadata.insert(name, value);
    emitter.emit(Payload::MetadataUpdate(MetadataUpdate { metadata }));
}
