//! Tokens and cost: the last value of each message counts, once.

use serde_json::value::RawValue;
use threadfold_core::{Fields, Json, MetadataUpdate, Payload};

use super::said::Said;

/// Says what a message used.
pub(super) fn usage(said: &mut Said<'_>, message: &str, model: Option<&str>, counted: &RawValue) {
    if model == Some("<synthetic>") {
        return;
    }
    let mut used = Fields::default();
    used.insert("messageId", Json::string(message));
    if let Some(model) = model {
        used.insert("model", Json::string(model));
    }
    used.insert("tokens", counted.into());
    update(said, "usage", Json::of(&used));
}

/// Says one thing about the session as a whole.
pub(super) fn update(said: &mut Said<'_>, name: &str, value: Json) {
    let mut metadata = Fields::default();
    metadata.insert(name, value);
    said.say(Payload::MetadataUpdate(MetadataUpdate { metadata }));
}
