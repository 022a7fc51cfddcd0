//! The bus: events of `GET /event` and `/global/event`, and those of the database's log.

use serde_json::value::RawValue;
use threadfold_core::{
    BlockId, Fields, Json, MetadataUpdate, Payload, PermissionRequested, PermissionResolved,
    RemoveReason, TextField,
};

use super::emitter::Emitter;
use super::next;
use super::parts::{message, part, session};
use super::wire::{Delta, MessageInfo, Part, Properties, SessionInfo};
use crate::borrowed::Str;

/// Converts one event. Says whether it was understood.
pub(super) fn convert(emitter: &mut Emitter<'_>, kind: &str, properties: &RawValue) -> bool {
    // The log names the version of its events: `message.updated.1`.
    let kind = match kind.rsplit_once('.') {
        Some((name, version)) if version.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => kind,
    };
    if kind == "message.part.delta" {
        return serde_json::from_str(properties.get()).map(|it| delta(emitter, &it)).is_ok();
    }
    let Ok(about) = serde_json::from_str::<Properties<'_>>(properties.get()) else { return false };
    if let Some(rest) = kind.strip_prefix("session.next.") {
        return next::convert(emitter, rest, &about);
    }
    match kind {
        "session.created" | "session.updated" => match read::<SessionInfo<'_>>(about.info) {
            Some(info) => session(emitter, &info),
            None => return false,
        },
        "message.updated" => match read::<MessageInfo<'_>>(about.info) {
            Some(info) => message(emitter, &info),
            None => return false,
        },
        "message.part.updated" => {
            let Some((raw, read)) =
                about.part.and_then(|raw| Some((raw, read::<Part<'_>>(Some(raw))?)))
            else {
                return false;
            };
            return part(emitter, &read, raw);
        }
        "message.part.removed" => removed(emitter, &about),
        "message.removed" => message_removed(emitter, &about),
        "session.idle" => idle(emitter, &about),
        "permission.asked" | "permission.updated" | "question.asked" => asked(emitter, &about),
        "permission.replied" | "question.replied" | "question.rejected" => replied(emitter, &about),
        "todo.updated" => {
            if let (Some(todos), Some(conversation)) = (about.todos, conversation(emitter, &about))
            {
                let mut metadata = Fields::default();
                metadata.insert("todos", todos.into());
                emitter.emit(&conversation, Payload::MetadataUpdate(MetadataUpdate { metadata }));
            }
        }
        // What went wrong stands in the message that it befell.
        "session.error"
        | "session.status"
        | "session.diff"
        | "session.compacted"
        | "session.deleted"
        | "file.edited"
        | "file.watcher.updated"
        | "command.executed"
        | "sync" => {}
        other => return is_of_the_server(other),
    }
    true
}

/// Says whether an event is about the server and not about a session.
fn is_of_the_server(kind: &str) -> bool {
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
    ];
    families.iter().any(|family| kind.starts_with(family))
}

fn read<'a, T: serde::Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

fn conversation(
    emitter: &mut Emitter<'_>,
    about: &Properties<'_>,
) -> Option<threadfold_core::ConversationId> {
    emitter.conversation_of(about.session_id.as_deref()?)
}

fn delta(emitter: &mut Emitter<'_>, about: &Delta<'_>) {
    let (Some(id), Some(delta)) = (about.part_id.as_deref(), about.delta.as_deref()) else {
        return;
    };
    if about.field.as_deref() != Some("text") {
        return;
    }
    let texts = &mut emitter.side().open;
    let Some(id) = texts.get_key_value(id).map(|(id, _)| id.clone()) else { return };
    let Some(open) = texts.get_mut(&id) else { return };
    let (conversation, offset) = (open.conversation.clone(), open.length);
    open.length += delta.len() as u64;
    if !delta.is_empty() {
        emitter.emit_delta(&conversation, id, TextField::Content, offset, delta);
    }
}

fn removed(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    let Some(conversation) = conversation(emitter, about) else { return };
    if let Some(part) = about.part_id.as_deref() {
        for id in [part.to_owned(), format!("result:{part}")] {
            let id = BlockId::from(id);
            let order = emitter.side().order.get(&conversation);
            if order.is_some_and(|order| order.values().any(|known| *known == id)) {
                emitter.emit_remove(&conversation, id, RemoveReason::Deleted);
            }
        }
    }
}

/// A message that is gone takes its parts with it; nothing is said of them.
fn message_removed(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    let (Some(conversation), Some(message)) =
        (conversation(emitter, about), about.message_id.as_deref())
    else {
        return;
    };
    let order = emitter.side().order.get(&conversation);
    let gone: Vec<_> = order
        .map(|order| order.iter().filter(|((id, _, _), _)| **id == *message))
        .into_iter()
        .flatten()
        .map(|(_, block)| block.clone())
        .collect();
    for block in gone {
        emitter.side().open.remove(&block);
        emitter.emit_remove(&conversation, block, RemoveReason::Deleted);
    }
}

fn idle(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    let Some(conversation) = conversation(emitter, about) else { return };
    emitter.abandon(|text| text.conversation == conversation);
    emitter.emit_idle(&conversation);
}

fn asked(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    #[derive(serde::Deserialize)]
    struct Tool<'a> {
        #[serde(borrow, rename = "callID")]
        call: Option<Str<'a>>,
    }
    let (Some(conversation), Some(id)) = (conversation(emitter, about), about.id.as_deref()) else {
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

fn replied(emitter: &mut Emitter<'_>, about: &Properties<'_>) {
    let (Some(conversation), Some(id)) =
        (conversation(emitter, about), about.request_id.as_deref())
    else {
        return;
    };
    let answer = about.reply.or(about.answers).or(about.response).map(Json::from);
    emitter.emit(
        &conversation,
        Payload::PermissionResolved(PermissionResolved { request_id: id.into(), answer }),
    );
}
