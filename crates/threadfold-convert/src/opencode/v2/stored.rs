//! Stored records: exports, answers of the API, and rows of the database.

use serde_json::value::RawValue;
use threadfold_core::{BlockStatus, ConversationId};

use super::blocks;
use super::messages::convert_message;
use super::sessions::convert_session;
use super::wire::{Message, Prompt, Row, Session, StoredRecord};
use crate::opencode::emitter::{Emitter, key};

/// Converts one stored record. Returns whether it is one of version 2.
pub(in crate::opencode) fn convert(emitter: &mut Emitter<'_>, text: &str) -> bool {
    let Ok(record) = serde_json::from_str::<StoredRecord<'_>>(text) else { return false };
    // The API wraps its answers: an export, a session, or a list of messages.
    if let (Some(inner), None, None) = (record.data, record.kind, &record.table) {
        if inner.get().starts_with('[') {
            return convert_list(emitter, inner, record.cursor.is_some());
        }
        let unwrapped = serde_json::from_str::<StoredRecord<'_>>(inner.get());
        return unwrapped.is_ok_and(|record| convert_record(emitter, &record, inner.get()));
    }
    convert_record(emitter, &record, text)
}

fn convert_record(emitter: &mut Emitter<'_>, record: &StoredRecord<'_>, text: &str) -> bool {
    if let (Some(table), Some(row)) = (record.table.as_deref(), record.row) {
        return convert_row(emitter, table, row);
    }
    if let (Some("session_message" | "session_inbox"), Some(row)) =
        (record.table.as_deref(), &record.deleted)
    {
        delete_row(emitter, row);
        return true;
    }
    if let (Some(info), Some(messages)) = (record.info, &record.messages) {
        return convert_export(emitter, info, messages);
    }
    if record.id.is_some() && record.project.is_some() && record.location.is_some() {
        return convert_session_json(emitter, record_of(text)).is_some();
    }
    let is_message = record.id.is_some() && record.kind.is_some() && record.time.is_some();
    is_message && record.session.is_none() && convert_unnamed(emitter, record_of(text))
}

fn record_of(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}

/// Converts an export. Returns whether it is one of version 2: its messages have no `info`.
fn convert_export(emitter: &mut Emitter<'_>, info: &RawValue, messages: &[&RawValue]) -> bool {
    #[derive(serde::Deserialize)]
    struct Marks<'a> {
        #[serde(borrow)]
        info: Option<&'a RawValue>,
        #[serde(borrow)]
        location: Option<&'a RawValue>,
    }
    let marks = |raw: &RawValue| {
        let marks = serde_json::from_str::<Marks<'_>>(raw.get());
        marks.map_or((false, false), |it| (it.info.is_some(), it.location.is_some()))
    };
    let is_newer = match messages.first() {
        Some(first) => !marks(first).0,
        None => marks(info).1,
    };
    if !is_newer || convert_session_json(emitter, Some(info)).is_none() {
        return false;
    }
    for message in messages {
        convert_unnamed(emitter, Some(message));
    }
    // A revert refers to a message, so the session is converted again after its messages.
    convert_session_json(emitter, Some(info)).is_some()
}

/// Converts a list of messages of the API, which has the newest first unless it was asked otherwise.
/// Returns whether it is one.
fn convert_list(emitter: &mut Emitter<'_>, list: &RawValue, has_cursor: bool) -> bool {
    let Ok(mut messages) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else { return false };
    let created = |raw: Option<&&RawValue>| {
        let message = serde_json::from_str::<Message<'_>>(raw?.get()).ok()?;
        message.time.created
    };
    if created(messages.first()) > created(messages.last()) {
        messages.reverse();
    }
    has_cursor && messages.iter().all(|message| convert_unnamed(emitter, Some(message)))
}

fn convert_session_json(emitter: &mut Emitter<'_>, raw: Option<&RawValue>) -> Option<()> {
    let session: Session<'_> = serde_json::from_str(raw?.get()).ok()?;
    emitter.side().session = Some((&**session.id.as_ref()?).into());
    convert_session(emitter, &session);
    Some(())
}

/// Converts a message that does not name its session: that is the one which was read last.
fn convert_unnamed(emitter: &mut Emitter<'_>, raw: Option<&RawValue>) -> bool {
    let Some(raw) = raw else { return false };
    let Ok(message) = serde_json::from_str::<Message<'_>>(raw.get()) else { return false };
    let (Some(id), Some(kind)) = (message.id.as_deref(), message.kind.as_deref()) else {
        return false;
    };
    let session = emitter.side().session.clone().or_else(|| emitter.memory.root.clone());
    let conversation = match session {
        Some(session) => emitter.conversation_of(&session),
        None => Some(ConversationId::main()),
    };
    // Another session of the same source: known, and not ours.
    let Some(conversation) = conversation else { return true };
    let place = emitter.place(&conversation, id, None);
    convert_message(emitter, &place, kind, &message, raw);
    true
}

/// Converts a row of the database. Returns whether its table is one of version 2.
fn convert_row(emitter: &mut Emitter<'_>, table: &str, row: &RawValue) -> bool {
    match table {
        "session_v2" => convert_session_json(emitter, Some(row)).is_some(),
        "session_message" => convert_message_row(emitter, row).is_some(),
        "session_inbox" => convert_inbox_row(emitter, row).is_some(),
        _ => false,
    }
}

fn convert_message_row(emitter: &mut Emitter<'_>, raw: &RawValue) -> Option<()> {
    let row: Row<'_> = serde_json::from_str(raw.get()).ok()?;
    let (id, session, kind) =
        (row.id.as_deref()?, row.session_id.as_deref()?, row.kind.as_deref()?);
    // The database returns a JSON column as text; a dump contains it as an object.
    let data = row.data?;
    let unquoted: Option<String> = serde_json::from_str(data.get()).ok();
    let data: &RawValue = match &unquoted {
        Some(text) => serde_json::from_str(text).ok()?,
        None => data,
    };
    let message: Message<'_> = serde_json::from_str(data.get()).ok()?;
    let Some(conversation) = emitter.conversation_of(session) else { return Some(()) };
    let place = emitter.place(&conversation, id, row.seq);
    let is_known = |kind: &str| KINDS.contains(&kind);
    convert_message(emitter, &place, kind, &message, if is_known(kind) { data } else { raw });
    Some(())
}

/// The types of messages.
const KINDS: [&str; 11] = [
    "user",
    "assistant",
    "idle",
    "synthetic",
    "compaction",
    "shell",
    "agent-switched",
    "model-switched",
    "location-switched",
    "system",
    "skill",
];

/// Shows a prompt that waits in the inbox; everything else there is not a message yet.
fn convert_inbox_row(emitter: &mut Emitter<'_>, raw: &RawValue) -> Option<()> {
    let row: Row<'_> = serde_json::from_str(raw.get()).ok()?;
    let (id, session, kind) =
        (row.id.as_deref()?, row.session_id.as_deref()?, row.kind.as_deref()?);
    let conversation = emitter.conversation_of(session)?;
    if kind != "user" || emitter.known_place(&conversation, id).is_some() {
        return Some(());
    }
    let payload = row.payload?;
    let unquoted: Option<String> = serde_json::from_str(payload.get()).ok();
    let text = unquoted.as_deref().unwrap_or(payload.get());
    let prompt: Prompt<'_> = serde_json::from_str(text).ok()?;
    show_waiting(emitter, &conversation, id, &prompt);
    Some(())
}

/// Shows a prompt that waits in the inbox, after all messages.
pub(super) fn show_waiting(
    emitter: &mut Emitter<'_>,
    conversation: &ConversationId,
    id: &str,
    prompt: &Prompt<'_>,
) {
    let place = emitter.waiting_place(conversation, id);
    let mut block = blocks::prompt(id, prompt, None);
    block.status = BlockStatus::Pending;
    emitter.emit_preview_at(&place, place.whole(), block);
}

/// Removes what a row showed that is no longer in the database.
fn delete_row(emitter: &mut Emitter<'_>, row: &Row<'_>) {
    let (Some(id), Some(session)) = (row.id.as_deref(), row.session_id.as_deref()) else { return };
    let Some(conversation) = emitter.conversation_of(session) else { return };
    let place = match emitter.known_place(&conversation, id) {
        Some(place) => place,
        None => emitter.waiting_place(&conversation, id),
    };
    emitter.remove_blocks(&place);
}

/// Shows that a session was continued in version 1 after version 2 had copied it.
///
/// The messages of version 1 follow all messages of version 2, because nothing orders the two.
pub(in crate::opencode) fn mark_continuation(emitter: &mut Emitter<'_>, session: &str) {
    let Some(conversation) = emitter.conversation_of(session) else { return };
    // Short enough for one line of a terminal.
    let words = "OpenCode 1 continued it as well: above is version 2, below version 1";
    let id = format!("continued:{session}");
    let block = blocks::notice(&id, "notice", words, None);
    emitter.emit_block(&conversation, key("continued", ""), block);
}
