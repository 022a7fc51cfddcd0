//! Which lines of a bus belong to a session: those of its folder are all on one.

use std::collections::BTreeSet;

use memchr::memmem;
use serde::Deserialize;

/// Says whether a line tells of one of these sessions; one that tells of a new child adds it.
pub(super) fn is_of(line: &[u8], family: &mut BTreeSet<String>) -> bool {
    let names_one = family.iter().any(|id| memmem::find(line, id.as_bytes()).is_some());
    if names_one && let Some(child) = new_child(line, family) {
        family.insert(child);
    }
    names_one
}

#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    properties: Properties,
}

#[derive(Deserialize, Default)]
struct Properties {
    #[serde(default)]
    info: Option<Info>,
}

#[derive(Deserialize)]
struct Info {
    id: String,
    #[serde(rename = "parentID")]
    parent: String,
}

fn new_child(line: &[u8], family: &BTreeSet<String>) -> Option<String> {
    memmem::find(line, b"\"session.")?;
    let json = line.trim_ascii().strip_prefix(b"data:").unwrap_or(line);
    let info = serde_json::from_slice::<Told>(json).ok()?.properties.info?;
    family.contains(&info.parent).then_some(info.id)
}
