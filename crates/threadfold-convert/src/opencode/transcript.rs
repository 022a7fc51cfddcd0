//! Converts what OpenCode stores: exports, messages of its API, database rows, files up to 1.1.

use serde_json::value::RawValue;

use super::emitter::Emitter;
use super::messages::{convert_message, convert_session};
use super::parts::convert_part;
use super::v2;
use super::wire::{Exchange, MessageInfo, Part, Row, SessionInfo, StoredObject};

/// Converts one stored record. Returns whether its form is known.
pub(super) fn convert(emitter: &mut Emitter<'_>, text: &str) -> bool {
    let Ok(record) = serde_json::from_str::<StoredObject<'_>>(text) else { return false };
    if let Some(messages) = &record.messages {
        if let Some(info) = record.info {
            convert_session_json(emitter, info);
        }
        messages.iter().for_each(|it| convert_exchange(emitter, it));
        // A revert refers to a message, so the session is converted again after its messages.
        if let Some(info) = record.info {
            convert_session_json(emitter, info);
        }
        return true;
    }
    if let (Some(info), Some(parts)) = (record.info, &record.parts) {
        convert_exchange(emitter, &Exchange { info, parts: parts.clone() });
        return true;
    }
    if let (Some(table), Some(row)) = (record.table.as_deref(), record.row) {
        if record.after.is_some() {
            mark_continuation(emitter, row);
        }
        return convert_row(emitter, table, row);
    }
    convert_storage_file(emitter, &record, text)
}

/// Shows that version 1 continued a session that version 2 had copied.
fn mark_continuation(emitter: &mut Emitter<'_>, row: &RawValue) {
    let row = serde_json::from_str::<Row<'_>>(row.get());
    if let Some(session) = row.ok().and_then(|row| row.session_id) {
        v2::mark_continuation(emitter, &session);
    }
}

fn convert_session_json(emitter: &mut Emitter<'_>, raw: &RawValue) {
    if let Ok(info) = serde_json::from_str::<SessionInfo<'_>>(raw.get()) {
        convert_session(emitter, &info);
    }
}

fn convert_exchange(emitter: &mut Emitter<'_>, exchange: &Exchange<'_>) {
    if let Ok(info) = serde_json::from_str::<MessageInfo<'_>>(exchange.info.get()) {
        convert_message(emitter, &info);
    }
    for raw in &exchange.parts {
        if let Ok(read) = serde_json::from_str::<Part<'_>>(raw.get()) {
            convert_part(emitter, &read, raw);
        }
    }
}

/// Converts a row of the database. The ids are columns, and missing in the JSON of the row.
fn convert_row(emitter: &mut Emitter<'_>, table: &str, row: &RawValue) -> bool {
    if table == "session" {
        convert_session_json(emitter, row);
        return true;
    }
    // Other tables hold nothing of the conversation.
    if !matches!(table, "message" | "part") {
        return true;
    }
    let Ok(read) = serde_json::from_str::<Row<'_>>(row.get()) else { return false };
    let Some(data) = read.data else { return false };
    // The database returns a JSON column as text; a dump contains it as an object.
    let unquoted: Option<String> = serde_json::from_str(data.get()).ok();
    let text = unquoted.as_deref().unwrap_or(data.get());
    if table == "message" {
        let Ok(mut info) = serde_json::from_str::<MessageInfo<'_>>(text) else { return false };
        info.id = Some(read.id.clone());
        info.session_id = read.session_id.clone();
        convert_message(emitter, &info);
        return true;
    }
    let (Ok(mut found), Ok(raw)) =
        (serde_json::from_str::<Part<'_>>(text), serde_json::from_str::<&RawValue>(text))
    else {
        return false;
    };
    found.id = Some(read.id.clone());
    found.session_id = read.session_id.clone();
    found.message_id = read.message_id.clone();
    convert_part(emitter, &found, raw)
}

/// Converts a file of the storage folder up to 1.1: its fields show whether it is a message, a
/// part or a session.
fn convert_storage_file(emitter: &mut Emitter<'_>, record: &StoredObject<'_>, text: &str) -> bool {
    let Ok(raw) = serde_json::from_str::<&RawValue>(text) else { return false };
    if record.role.is_some() {
        let Ok(info) = serde_json::from_str::<MessageInfo<'_>>(raw.get()) else { return false };
        convert_message(emitter, &info);
        return true;
    }
    if record.message_id.is_some() {
        let Ok(read) = serde_json::from_str::<Part<'_>>(raw.get()) else { return false };
        return convert_part(emitter, &read, raw);
    }
    if record.project_id.is_some() {
        convert_session_json(emitter, raw);
        return true;
    }
    false
}
