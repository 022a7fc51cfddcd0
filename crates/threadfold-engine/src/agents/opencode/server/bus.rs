//! Filters the lines of a bus for one session; the bus carries all sessions of a folder.

use std::collections::BTreeSet;

use memchr::memmem;
use serde::Deserialize;

/// Returns whether a line names one of these sessions, and adds the child that it creates, if any.
pub(super) fn is_of(line: &[u8], family: &mut BTreeSet<String>) -> bool {
    let names_one = family.iter().any(|id| memmem::find(line, id.as_bytes()).is_some());
    if names_one && let Some(child) = new_child(line, family) {
        family.insert(child);
    }
    names_one
}

#[derive(Deserialize)]
struct BusEvent {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    properties: Properties,
    /// What an event of version 2 is about.
    #[serde(default)]
    data: EventData,
}

#[derive(Deserialize, Default)]
struct EventData {
    #[serde(default, rename = "sessionID")]
    session: Option<String>,
    #[serde(default, rename = "parentID")]
    parent: Option<String>,
}

#[derive(Deserialize, Default)]
struct Properties {
    #[serde(default)]
    info: Option<SessionInfo>,
}

#[derive(Deserialize)]
struct SessionInfo {
    id: String,
    #[serde(rename = "parentID")]
    parent: String,
}

fn new_child(line: &[u8], family: &BTreeSet<String>) -> Option<String> {
    memmem::find(line, b"\"session.")?;
    let json = line.trim_ascii().strip_prefix(b"data:").unwrap_or(line);
    let event = serde_json::from_slice::<BusEvent>(json).ok()?;
    let (child, parent) = match event.properties.info {
        Some(info) => (info.id, info.parent),
        // The parent of a fork is the session that it copied, so only a creation counts.
        None if event.kind == "session.created" => (event.data.session?, event.data.parent?),
        None => return None,
    };
    family.contains(&parent).then_some(child)
}
