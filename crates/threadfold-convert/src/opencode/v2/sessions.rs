//! Sessions: their parents, their metadata, and where they are reverted to.

use serde_json::value::RawValue;
use threadfold_core::{
    ContextChange, ContextChanged, ConversationId, Fields, Json, MetadataUpdate, Payload,
};

use super::wire::Session;
use crate::opencode::emitter::Emitter;
use crate::opencode::files::remember_folder;

/// Converts a session, as the API, an export or its row has it.
pub(super) fn convert_session(emitter: &mut Emitter<'_>, session: &Session<'_>) {
    let Some(id) = session.id.as_deref() else { return };
    if let Some(parent) = session.parent.as_deref() {
        emitter.memory.parents.insert(id.into(), parent.into());
    }
    let Some(conversation) = emitter.conversation_of(id) else { return };
    emitter.supersede_older(&conversation);
    let located = session.location.as_ref().and_then(|it| it.directory.as_deref());
    let texts = [
        ("title", session.title.as_deref()),
        ("cwd", session.directory.as_deref().or(located)),
        ("version", session.version.as_deref()),
    ];
    emit_metadata(emitter, &conversation, &texts, session.cost);
    revert(
        emitter,
        id,
        &conversation,
        session.revert.as_ref().and_then(|it| it.message.as_deref()),
    );
}

/// Emits what is known of the main session as a whole.
pub(super) fn emit_metadata(
    emitter: &mut Emitter<'_>,
    conversation: &ConversationId,
    texts: &[(&str, Option<&str>)],
    cost: Option<&RawValue>,
) {
    if !conversation.is_main() {
        return;
    }
    let mut metadata = Fields::default();
    for (name, value) in texts {
        if let Some(value) = value {
            let value = Json::string(value);
            if *name == "cwd" {
                remember_folder(emitter, &value);
            }
            metadata.insert(name, value);
        }
    }
    if let Some(cost) = cost {
        metadata.insert("costUsd", cost.into());
    }
    emitter.emit(conversation, Payload::MetadataUpdate(MetadataUpdate { metadata }));
}

/// Emits a change of context if the session was reverted to a message, or that was undone.
pub(super) fn revert(
    emitter: &mut Emitter<'_>,
    session: &str,
    conversation: &ConversationId,
    to: Option<&str>,
) {
    let known = emitter.side().reverted.get(session).cloned();
    if known.as_deref() == to {
        return;
    }
    let head = match to {
        Some(message) => {
            // A session may be stored before its messages; it is then reported again after them.
            let Some(place) = emitter.known_place(conversation, message) else { return };
            let order = emitter.side().order.get(conversation);
            order.and_then(|order| order.before_message(&place.whole().0)).cloned()
        }
        None => emitter.side().order.get(conversation).and_then(|order| order.last()).cloned(),
    };
    match to {
        Some(message) => emitter.side().reverted.insert(session.into(), message.into()),
        None => emitter.side().reverted.remove(session),
    };
    let kind = ContextChange::Revert;
    let changed = ContextChanged { kind, head, summary: None, blocks: Vec::new() };
    emitter.emit(conversation, Payload::ContextChanged(changed));
}
