//! Sessions and messages: the same objects in the stream and in the store.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    Block, ContextChange, ContextChanged, ConversationId, ErrorBlock, Fields, Json, MetadataUpdate,
    Payload,
};

use super::emitter::{Emitter, LAST, key};
use super::memory::Message;
use super::time::iso;
use super::wire::{MessageInfo, SessionInfo, Tokens};

/// Converts a session object: its parent, its metadata, and where it was reverted to.
pub(super) fn convert_session(emitter: &mut Emitter<'_>, info: &SessionInfo<'_>) {
    let Some(id) = info.id.as_deref() else { return };
    if let Some(parent) = info.parent_id.as_deref() {
        emitter.memory.parents.insert(id.into(), parent.into());
    }
    let Some(conversation) = emitter.conversation_of(id) else { return };
    if conversation.is_main() {
        let mut metadata = Fields::default();
        for (name, value) in
            [("title", &info.title), ("cwd", &info.directory), ("version", &info.version)]
        {
            if let Some(value) = value.as_deref() {
                metadata.insert(name, Json::string(value));
            }
        }
        if let Some(cost) = info.cost {
            metadata.insert("costUsd", Json::of(&cost));
        }
        emitter.emit(&conversation, Payload::MetadataUpdate(MetadataUpdate { metadata }));
    }
    convert_revert(emitter, id, &conversation, info);
}

/// Emits a change of context if the session was reverted to a message, or that was undone.
fn convert_revert(
    emitter: &mut Emitter<'_>,
    id: &str,
    conversation: &ConversationId,
    info: &SessionInfo<'_>,
) {
    let to = info.revert.as_ref().and_then(|revert| revert.message_id.as_deref());
    let known = emitter.side().reverted.get(id).cloned();
    if known.as_deref() == to {
        return;
    }
    let order = emitter.side().order.get(conversation);
    let head = match to {
        Some(message) => {
            // The store reports sessions before their messages. The revert then waits until the
            // session is reported again, after them.
            if order.is_none_or(|order| order.since_message(message).next().is_none()) {
                return;
            }
            order.and_then(|order| order.before_message(message))
        }
        None => order.and_then(|order| order.last()),
    };
    let head = head.cloned();
    match to {
        Some(message) => emitter.side().reverted.insert(id.into(), message.into()),
        None => emitter.side().reverted.remove(id),
    };
    emitter.emit(
        conversation,
        Payload::ContextChanged(ContextChanged {
            kind: ContextChange::Revert,
            head,
            summary: None,
            blocks: Vec::new(),
        }),
    );
}

/// Converts a message object: its role, its tokens and its error. Its parts come on their own.
pub(super) fn convert_message(emitter: &mut Emitter<'_>, info: &MessageInfo<'_>) {
    let (Some(id), Some(session)) = (info.id.as_deref(), info.session_id.as_deref()) else {
        return;
    };
    let Some(conversation) = emitter.conversation_of(session) else { return };
    let created = info.time.and_then(|time| time.created).and_then(iso);
    let model: Option<Arc<str>> = info.model_id.as_deref().map(Into::into);
    let known = Message {
        session: session.into(),
        is_user: info.role.as_deref() == Some("user"),
        model: model.clone(),
        created: created.clone(),
    };
    let is_user = known.is_user;
    emitter.memory.messages.insert(id.into(), known);
    if is_user {
        return;
    }
    if let Some(tokens) = info.tokens {
        emit_usage(emitter, &conversation, id, model.as_deref(), tokens);
    }
    if let Some(error) = info.error {
        let mut block = error_block(id, error);
        block.timestamp = created;
        // The error ended the message, so it follows all its parts.
        emitter.emit_block(&conversation, key(id, LAST), block);
    }
}

/// Emits the token counts of a message.
pub(super) fn emit_usage(
    emitter: &mut Emitter<'_>,
    conversation: &ConversationId,
    message: &str,
    model: Option<&str>,
    tokens: &RawValue,
) {
    let mut usage = Fields::default();
    usage.insert("messageId", Json::string(message));
    if let Some(model) = model {
        usage.insert("model", Json::string(model));
    }
    usage.insert("tokens", token_counts(tokens));
    let mut metadata = Fields::default();
    metadata.insert("usage", Json::of(&usage));
    emitter.emit(conversation, Payload::MetadataUpdate(MetadataUpdate { metadata }));
}

/// Returns the counts under the names that events use.
fn token_counts(tokens: &RawValue) -> Json {
    let Ok(Tokens { input, output, cache }) = serde_json::from_str(tokens.get()) else {
        return tokens.into();
    };
    let counts = [
        ("input_tokens", input),
        ("output_tokens", output),
        ("cache_read_input_tokens", cache.read),
        ("cache_creation_input_tokens", cache.write),
    ];
    let mut named = Fields::default();
    for (name, count) in counts {
        named.insert(name, Json::of(&(count as u64)));
    }
    Json::of(&named)
}

/// Returns the error of a message or session as a block.
pub(super) fn error_block(owner: &str, error: &RawValue) -> Block {
    let (message, code) = read_error(error);
    Block::new(format!("error:{owner}"), ErrorBlock { message: message.into(), code })
}

/// Returns the message and the code of an error; one of unknown form is shown as it is.
fn read_error(error: &RawValue) -> (String, Option<Json>) {
    #[derive(serde::Deserialize)]
    struct ErrorObject {
        /// Version 2 has `type` and `message`.
        #[serde(alias = "type")]
        name: Option<String>,
        message: Option<String>,
        data: Option<ErrorData>,
    }
    #[derive(serde::Deserialize)]
    struct ErrorData {
        message: Option<String>,
    }
    match serde_json::from_str::<ErrorObject>(error.get()) {
        Ok(ErrorObject { name, message, data }) => {
            let message = data.and_then(|data| data.message).or(message).or_else(|| name.clone());
            (message.unwrap_or_default(), name.as_deref().map(Json::string))
        }
        Err(_) => (error.get().to_owned(), None),
    }
}
