//! Converts events of the bus (`GET /event`, `/global/event`) and of the database's event log.

use serde_json::value::RawValue;
use threadfold_core::{
    BlockId, ConversationId, Fields, Json, MetadataUpdate, Payload, PermissionRequested,
    PermissionResolved, RemoveReason, TextField,
};

use super::emitter::Emitter;
use super::messages::{convert_message, convert_session};
use super::next;
use super::parts::convert_part;
use super::queries;
use super::wire::{Delta, MessageInfo, Part, Properties, SessionInfo};
use crate::borrowed::Str;

/// Converts one event. Returns whether its type is known.
pub(super) fn convert(emitter: &mut Emitter<'_>, kind: &str, properties: &RawValue) -> bool {
    let kind = without_version(kind);
    // Most events are deltas; they have a smaller type of their own.
    if kind == "message.part.delta" {
        return serde_json::from_str(properties.get())
            .map(|it| convert_delta(emitter, &it))
            .is_ok();
    }
    let Ok(about) = serde_json::from_str::<Properties<'_>>(properties.get()) else { return false };
    if let Some(rest) = kind.strip_prefix("session.next.") {
        return next::convert(emitter, rest, &about);
    }
    match kind {
        "session.created" | "session.updated" => match read::<SessionInfo<'_>>(about.info) {
            Some(info) => convert_session(emitter, &info),
            None => return false,
        },
        "message.updated" => match read::<MessageInfo<'_>>(about.info) {
            Some(info) => convert_message(emitter, &info),
            None => return false,
        },
        "message.part.updated" => {
            let Some((raw, read)) =
                about.part.and_then(|raw| Some((raw, read::<Part<'_>>(Some(raw))?)))
            else {
                return false;
            };
            return convert_part(emitter, &read, raw);
        }
        "message.part.removed" => remove_part(emitter, &about),
        "message.removed" => remove_message(emitter, &about),
        "session.idle" => convert_idle(emitter, &about),
        "permission.asked" | "permission.updated" | "question.asked" => {
            convert_request(emitter, &about)
        }
        "permission.replied" | "question.replied" | "question.rejected" => {
            convert_reply(emitter, &about)
        }
        "todo.updated" => {
            if let (Some(todos), Some(conversation)) =
                (about.todos, conversation_of(emitter, &about))
            {
                let mut metadata = Fields::default();
                metadata.insert("todos", todos.into());
                emitter.emit(&conversation, Payload::MetadataUpdate(MetadataUpdate { metadata }));
            }
        }
        "session.status" => {
            if let Some(conversation) = conversation_of(emitter, &about) {
                queries::convert_status(emitter, &conversation, about.status);
            }
        }
        // The message that failed carries the error, so it becomes no block.
        "session.error" => {
            if let Some(conversation) = conversation_of(emitter, &about) {
                queries::fail(emitter, &conversation, about.error);
            }
        }
        "session.diff"
        | "session.compacted"
        | "session.deleted"
        | "file.edited"
        | "file.watcher.updated"
        | "command.executed"
        | "sync" => {}
        other => return is_about_server(other),
    }
    true
}

/// Returns the type of an event without its version, which the log appends: `message.updated.1`.
fn without_version(kind: &str) -> &str {
    match kind.rsplit_once('.') {
        Some((name, version)) if version.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => kind,
    }
}

/// Returns whether events of this type are read from the database's log, or need not be.
///
/// ```
/// use threadfold_convert::opencode::is_known_event;
///
/// assert!(is_known_event("message.part.updated.1") && !is_known_event("thread.created.1"));
/// ```
pub fn is_known_event(kind: &str) -> bool {
    const EVENTS: [&str; 24] = [
        "session.created",
        "session.updated",
        "session.idle",
        "session.error",
        "session.status",
        "session.diff",
        "session.compacted",
        "session.deleted",
        "message.updated",
        "message.removed",
        "message.part.delta",
        "message.part.updated",
        "message.part.removed",
        "permission.asked",
        "permission.updated",
        "permission.replied",
        "question.asked",
        "question.replied",
        "question.rejected",
        "todo.updated",
        "file.edited",
        "file.watcher.updated",
        "command.executed",
        "sync",
    ];
    let kind = without_version(kind);
    EVENTS.contains(&kind) || kind.starts_with("session.next.") || is_about_server(kind)
}

/// Returns whether an event is about the server and not about a session.
fn is_about_server(kind: &str) -> bool {
    let families = [
        "server.",
        "catalog.",
        "integration.",
        "plugin.",
        "reference.",
        "installation.",
        "lsp.",
        "mcp.",
        "project.",
        "pty.",
        "vcs.",
        "workspace.",
        "worktree.",
        "global.",
        "tui.",
        "models-dev.",
        // Version 2.
        "agent.",
        "command.",
        "config.",
        "credential.",
        "filesystem.",
        "location.",
        "model.",
        "persistent-pty.",
        "provider.",
        "rpc.",
        "shell.",
        "skill.",
        "websearch.",
    ];
    families.iter().any(|family| kind.starts_with(family))
}

fn read<'a, T: serde::Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// Returns the conversation that an event is about; nothing if it is of another root session.
fn conversation_of(emitter: &mut Emitter<'_>, about: &Properties<'_>) -> Option<ConversationId> {
    emitter.conversation_of(about.session_id.as_deref()?)
}

/// Emits text that is appended to an open text; text for any other part is ignored.
pub(super) fn convert_delta(emitter: &mut Emitter<'_>, about: &Delta<'_>) {
    let (Some(id), Some(delta)) = (about.part_id.as_deref(), about.delta.as_deref()) else {
        return;
    };
    if about.field.as_deref() != Some("text") {
        return;
    }
    let grown = emitter.side().open.grow(id, delta.len());
    let Some((id, conversation, offset)) = grown else { return };
    if !delta.is_empty() {
        emitter.emit_delta(&conversation, id, TextField::Content, offset, delta);
    }
}

/// Removes the block of a part, and that of its result.
fn remove_part(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    let Some(conversation) = conversation_of(emitter, about) else { return };
    if let Some(part) = about.part_id.as_deref() {
        for id in [part.to_owned(), format!("result:{part}")] {
            let id = BlockId::from(id);
            let order = emitter.side().order.get(&conversation);
            if order.is_some_and(|order| order.key_of(&id).is_some()) {
                emitter.emit_remove(&conversation, id, RemoveReason::Deleted);
            }
        }
    }
}

/// Removes all blocks of a message: the bus does not report the removal of its parts.
fn remove_message(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    let (Some(conversation), Some(message)) =
        (conversation_of(emitter, about), about.message_id.as_deref())
    else {
        return;
    };
    let order = emitter.side().order.get(&conversation);
    let blocks: Vec<_> =
        order.map(|order| order.of_message(message).cloned().collect()).unwrap_or_default();
    for block in blocks {
        emitter.side().open.remove(&block);
        emitter.emit_remove(&conversation, block, RemoveReason::Deleted);
    }
}

/// Ends the turn of a conversation; texts that are still open will not be completed.
fn convert_idle(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    let Some(conversation) = conversation_of(emitter, about) else { return };
    let abandoned = emitter.side().open.take_conversation(&conversation);
    emitter.abandon_texts(abandoned);
    queries::complete(emitter, &conversation);
    emitter.emit_idle(&conversation);
}

/// Converts a question to a person: a permission request, or a question of the model.
fn convert_request(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    #[derive(serde::Deserialize)]
    struct Tool<'a> {
        #[serde(borrow, rename = "callID")]
        call: Option<Str<'a>>,
    }
    let (Some(conversation), Some(id)) = (conversation_of(emitter, about), about.id.as_deref())
    else {
        return;
    };
    let tool: Option<Tool<'_>> = read(about.tool);
    let question = about.questions.map(Json::from);
    let permission = about.permission.as_deref().map(Json::string);
    emitter.emit(
        &conversation,
        Payload::PermissionRequested(PermissionRequested {
            request_id: id.into(),
            tool_use_id: tool.and_then(|it| it.call).map(|call| (&*call).into()),
            question: question.or(permission),
            options: about.patterns.map(Json::from),
        }),
    );
}

/// Converts a person's answer, under any of the names that versions gave it.
fn convert_reply(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    let (Some(conversation), Some(id)) =
        (conversation_of(emitter, about), about.request_id.as_deref())
    else {
        return;
    };
    let answer = about.reply.or(about.answers).or(about.response).map(Json::from);
    emitter.emit(
        &conversation,
        Payload::PermissionResolved(PermissionResolved { request_id: id.into(), answer }),
    );
}
