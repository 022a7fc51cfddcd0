//! Bundles: whole sessions in one JSON document.
//!
//! Two forms are read: an object with all transcripts, as older programs stored it, and a list of
//! records.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use threadfold_core::AgentId;

use crate::record::FeedKind;

/// The content of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bundle {
    /// The records of a JSON list, one per line.
    Lines(Vec<u8>),
    /// The main transcript and those of the subagents.
    Files(Vec<BundleFile>),
}

/// One transcript of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleFile {
    /// What it is.
    pub kind: FeedKind,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl BundleFile {
    /// Returns its name within the session.
    pub fn feed_name(&self) -> String {
        match &self.kind {
            FeedKind::Stream | FeedKind::Main => "main".to_owned(),
            FeedKind::Subagent(agent) | FeedKind::SubagentMeta(agent) => agent.bare().to_owned(),
        }
    }
}

#[derive(Deserialize)]
struct SessionDocument<'a> {
    #[serde(borrow)]
    main: Cow<'a, str>,
    #[serde(borrow, default)]
    subagents: Vec<SubagentDocument<'a>>,
}

#[derive(Deserialize)]
struct SubagentDocument<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    transcript: Cow<'a, str>,
}

/// Unpacks a bundle; nothing if the bytes are not one.
///
/// The forms are `{"main": "<jsonl>", "subagents": [{"id", "transcript"}]}`, with or without the
/// prefix `agent-` in ids, and `[record, …]`.
///
/// ```
/// use threadfold_convert::{Bundle, claude};
///
/// let stored = br#"{"main": "{\"type\":\"user\"}\n", "subagents": [{"id": "a1", "transcript": ""}]}"#;
/// let Some(Bundle::Files(files)) = claude::AGENT.unpack(stored) else { panic!("two files") };
/// assert_eq!(files[1].feed_name(), "a1");
/// ```
pub(crate) fn unpack(bytes: &[u8]) -> Option<Bundle> {
    // Most files are lines: the first bytes show that, without parsing the whole file.
    opening(bytes)?;
    if let Some(list) = unpack_list(bytes) {
        return Some(list);
    }
    let text = text_of(bytes)?;
    let document: SessionDocument<'_> = serde_json::from_str(text).ok()?;
    let main = document.main.into_owned().into_bytes();
    let mut files = vec![BundleFile { kind: FeedKind::Main, bytes: main }];
    for subagent in document.subagents {
        let agent = AgentId::from(&*subagent.id);
        let kind = FeedKind::Subagent(AgentId::from(agent.bare()));
        files.push(BundleFile { kind, bytes: subagent.transcript.into_owned().into_bytes() });
    }
    Some(Bundle::Files(files))
}

/// Unpacks a list of records; nothing if the bytes are not one.
pub(crate) fn unpack_list(bytes: &[u8]) -> Option<Bundle> {
    if !matches!(opening(bytes)?, Opening::List(_)) {
        return None;
    }
    let records: Vec<&RawValue> = serde_json::from_str(text_of(bytes)?).ok()?;
    // A record may span several lines. JSON has no raw line ends inside strings, so replacing them
    // does not change it.
    let one_line = |raw: &&RawValue| raw.get().replace(['\n', '\r'], " ");
    let lines: Vec<String> = records.iter().map(one_line).collect();
    Some(Bundle::Lines(lines.join("\n").into_bytes()))
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    Some(std::str::from_utf8(bytes).ok()?.trim_start_matches('\u{feff}').trim_start())
}

/// The opening of an input that may be a bundle.
pub(crate) enum Opening<'a> {
    /// A list of records, with the first one; empty if that is truncated or corrupt.
    List(&'a str),
    /// An object that holds all transcripts.
    Object,
}

/// Returns the opening of an input, if it may be a bundle.
pub(crate) fn opening(head: &[u8]) -> Option<Opening<'_>> {
    let text = opening_text(head);
    let (first, expected) = match text.chars().next()? {
        '[' => ('[', "{"),
        '{' => ('{', "\"main\""),
        _ => return None,
    };
    if !text[1..].trim_start().starts_with(expected) {
        return None;
    }
    if first == '{' {
        return Some(Opening::Object);
    }
    let start = head.iter().position(|byte| *byte == b'[')? + 1;
    let mut records = serde_json::Deserializer::from_slice(&head[start..]).into_iter();
    let first = records.next().and_then(Result::ok);
    Some(Opening::List(first.map_or("", |first: &RawValue| first.get())))
}

/// Returns whether an input opens like a bundle.
pub fn opens_as_bundle(head: &[u8]) -> bool {
    opening(head).is_some()
}

/// How many bytes of an input count as its opening.
const OPENING: usize = 4096;

/// Returns the opening as text, without byte order mark and leading white space.
pub(crate) fn opening_text(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(&head[..head.len().min(OPENING)]);
    text.trim_start_matches('\u{feff}').trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_lines() {
        let list = b" [ {\"a\": 1},\n {\"b\":\n 2} ] ";
        assert_eq!(unpack(list), Some(Bundle::Lines(b"{\"a\": 1}\n{\"b\":  2}".to_vec())));
    }

    #[test]
    fn lines_are_not_a_bundle() {
        assert_eq!(unpack(b"{\"type\":\"user\"}\n{\"type\":\"user\"}\n"), None);
        assert_eq!(unpack(b"{\"type\":\"user\"}"), None);
    }
}
