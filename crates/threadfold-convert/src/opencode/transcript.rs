//! What OpenCode keeps: exports, messages of its API, rows of its database, its older files.

use serde_json::value::RawValue;

use super::emitter::Emitter;
use super::parts::{message, part, session};
use super::wire::{Exchange, MessageInfo, Part, Row, SessionInfo, StoredObject};

/// Converts one record of the store. Says whether it was understood.
pub(super) fn convert(emitter: &mut Emitter<'_>, text: &str) -> bool {
    let Ok(record) = serde_json::from_str::<StoredObject<'_>>(text) else { return false };
    if let Some(messages) = &record.messages {
        if let Some(info) = record.info {
            heard_session(emitter, info);
        }
        messages.iter().for_each(|it| exchange(emitter, it));
        // What the session was taken back to is known only when its messages are.
        if let Some(info) = record.info {
            heard_session(emitter, info);
        }
        return true;
    }
    if let (Some(info), Some(parts)) = (record.info, &record.parts) {
        exchange(emitter, &Exchange { info, parts: parts.clone() });
        return true;
    }
    if let (Some(table), Some(row)) = (record.table.as_deref(), record.row) {
        return table_row(emitter, table, row);
    }
    older_file(emitter, &record, text)
}

fn heard_session(emitter: &mut Emitter<'_>, raw: &RawValue) {
    if let Ok(info) = serde_json::from_str::<SessionInfo<'_>>(raw.get()) {
        session(emitter, &info);
    }
}

fn exchange(emitter: &mut Emitter<'_>, exchange: &Exchange<'_>) {
    if let Ok(info) = serde_json::from_str::<MessageInfo<'_>>(exchange.info.get()) {
        message(emitter, &info);
    }
    for raw in &exchange.parts {
        if let Ok(read) = serde_json::from_str::<Part<'_>>(raw.get()) {
            part(emitter, &read, raw);
        }
    }
}

/// A row holds a message or a part without the names that are columns of its own.
fn table_row(emitter: &mut Emitter<'_>, table: &str, row: &RawValue) -> bool {
    if table == "session" {
        heard_session(emitter, row);
        return true;
    }
    if !matches!(table, "message" | "part") {
        return true;
    }
    let Ok(read) = serde_json::from_str::<Row<'_>>(row.get()) else { return false };
    let Some(data) = read.data else { return false };
    // Databases give a column of JSON as text, and dumps of them as an object.
    let unquoted: Option<String> = serde_json::from_str(data.get()).ok();
    let text = unquoted.as_deref().unwrap_or(data.get());
    if table == "message" {
        let Ok(mut info) = serde_json::from_str::<MessageInfo<'_>>(text) else { return false };
        info.id = Some(read.id.clone());
        info.session_id = read.session_id.clone();
        message(emitter, &info);
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
    part(emitter, &found, raw)
}

/// A file of the older storage is a session, a message or a part, and its fields tell which.
fn older_file(emitter: &mut Emitter<'_>, record: &StoredObject<'_>, text: &str) -> bool {
    let Ok(raw) = serde_json::from_str::<&RawValue>(text) else { return false };
    if record.role.is_some() {
        let Ok(info) = serde_json::from_str::<MessageInfo<'_>>(raw.get()) else { return false };
        message(emitter, &info);
        return true;
    }
    if record.message_id.is_some() {
        let Ok(read) = serde_json::from_str::<Part<'_>>(raw.get()) else { return false };
        return part(emitter, &read, raw);
    }
    if record.project_id.is_some() {
        heard_session(emitter, raw);
        return true;
    }
    false
}
