//! What OpenCode keeps: exports, messages of its API, rows of its database, its older files.

use serde_json::value::RawValue;

use super::parts::{message, part, session};
use super::said::Said;
use super::wire::{Exchange, Kept, MessageInfo, Part, Row, SessionInfo};

/// Converts one record of the store. Says whether it was understood.
pub(super) fn convert(said: &mut Said<'_>, text: &str) -> bool {
    let Ok(record) = serde_json::from_str::<Kept<'_>>(text) else { return false };
    if let Some(messages) = &record.messages {
        if let Some(info) = record.info {
            heard_session(said, info);
        }
        messages.iter().for_each(|it| exchange(said, it));
        // What the session was taken back to is known only when its messages are.
        if let Some(info) = record.info {
            heard_session(said, info);
        }
        return true;
    }
    if let (Some(info), Some(parts)) = (record.info, &record.parts) {
        exchange(said, &Exchange { info, parts: parts.clone() });
        return true;
    }
    if let (Some(table), Some(row)) = (record.table.as_deref(), record.row) {
        return table_row(said, table, row);
    }
    older_file(said, &record, text)
}

fn heard_session(said: &mut Said<'_>, raw: &RawValue) {
    if let Ok(info) = serde_json::from_str::<SessionInfo<'_>>(raw.get()) {
        session(said, &info);
    }
}

fn exchange(said: &mut Said<'_>, exchange: &Exchange<'_>) {
    if let Ok(info) = serde_json::from_str::<MessageInfo<'_>>(exchange.info.get()) {
        message(said, &info);
    }
    for raw in &exchange.parts {
        if let Ok(read) = serde_json::from_str::<Part<'_>>(raw.get()) {
            part(said, &read, raw);
        }
    }
}

/// A row holds a message or a part without the names that are columns of its own.
fn table_row(said: &mut Said<'_>, table: &str, row: &RawValue) -> bool {
    if table == "session" {
        heard_session(said, row);
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
        message(said, &info);
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
    part(said, &found, raw)
}

/// A file of the older storage is a session, a message or a part, and its fields tell which.
fn older_file(said: &mut Said<'_>, record: &Kept<'_>, text: &str) -> bool {
    let Ok(raw) = serde_json::from_str::<&RawValue>(text) else { return false };
    if record.role.is_some() {
        let Ok(info) = serde_json::from_str::<MessageInfo<'_>>(raw.get()) else { return false };
        message(said, &info);
        return true;
    }
    if record.message_id.is_some() {
        let Ok(read) = serde_json::from_str::<Part<'_>>(raw.get()) else { return false };
        return part(said, &read, raw);
    }
    if record.project_id.is_some() {
        heard_session(said, raw);
        return true;
    }
    false
}
