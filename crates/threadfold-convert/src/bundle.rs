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
    main: &'a RawValue,
    #[serde(borrow, default)]
    subagents: Vec<SubagentDocument<'a>>,
}

#[derive(Deserialize)]
struct SubagentDocument<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    transcript: &'a RawValue,
}

/// Unpacks a bundle; nothing if the bytes are not one.
///
/// The forms are `{"main": "<transcript>", "subagents": [{"id", "transcript"}]}`, with or without
/// the prefix `agent-` in ids, and `[record, …]`.
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
    let mut files = vec![BundleFile { kind: FeedKind::Main, bytes: transcript(document.main)? }];
    for subagent in document.subagents {
        let agent = AgentId::from(&*subagent.id);
        let kind = FeedKind::Subagent(AgentId::from(agent.bare()));
        files.push(BundleFile { kind, bytes: transcript(subagent.transcript)? });
    }
    Some(Bundle::Files(files))
}

/// Returns a transcript as lines. It is stored as a text, or as the JSON itself: lines, a document
/// that may span lines, or a list.
fn transcript(stored: &RawValue) -> Option<Vec<u8>> {
    let text = match stored.get().starts_with('"') {
        true => serde_json::from_str::<Cow<'_, str>>(stored.get()).ok()?,
        false => Cow::Borrowed(stored.get()),
    };
    // A document that spans lines would be torn into lines that mean nothing.
    if serde_json::from_str::<&RawValue>(&text).is_ok() {
        if let Ok(records) = serde_json::from_str::<Vec<&RawValue>>(&text) {
            return Some(joined(&records));
        }
        return Some(text.replace(['\n', '\r'], " ").into_bytes());
    }
    Some(text.into_owned().into_bytes())
}

/// Returns records as lines.
fn joined(records: &[&RawValue]) -> Vec<u8> {
    // A record may span several lines. JSON has no raw line ends inside strings, so replacing them
    // does not change it.
    let one_line = |raw: &&RawValue| raw.get().replace(['\n', '\r'], " ");
    let lines: Vec<String> = records.iter().map(one_line).collect();
    lines.join("\n").into_bytes()
}

/// Unpacks a list of records; nothing if the bytes are not one.
pub(crate) fn unpack_list(bytes: &[u8]) -> Option<Bundle> {
    if !matches!(opening(bytes)?, BundleStart::List(_)) {
        return None;
    }
    let records: Vec<&RawValue> = serde_json::from_str(text_of(bytes)?).ok()?;
    Some(Bundle::Lines(joined(&records)))
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    Some(std::str::from_utf8(bytes).ok()?.trim_start_matches('\u{feff}').trim_start())
}

/// The opening of an input that may be a bundle.
pub(crate) enum BundleStart<'a> {
    /// A list of records, with the first one; empty if that is truncated or corrupt.
    List(&'a str),
    /// An object that holds all transcripts.
    Object,
}

/// Returns the opening of an input, if it may be a bundle.
pub(crate) fn opening(head: &[u8]) -> Option<BundleStart<'_>> {
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
        return Some(BundleStart::Object);
    }
    let start = head.iter().position(|byte| *byte == b'[')? + 1;
    let mut records = serde_json::Deserializer::from_slice(&head[start..]).into_iter();
    let first = records.next().and_then(Result::ok);
    Some(BundleStart::List(first.map_or("", |first: &RawValue| first.get())))
}

/// Returns the beginning of the main transcript in an object that holds all transcripts.
pub(crate) fn main_opening(head: &[u8]) -> Option<String> {
    let text = opening_text(head);
    let inside = text.strip_prefix('{')?.trim_start().strip_prefix("\"main\"")?;
    let value = inside.trim_start().strip_prefix(':')?.trim_start();
    let Some(quoted) = value.strip_prefix('"') else { return Some(value.to_owned()) };
    // The text ends at its quote, or where the opening is cut, maybe inside an escape.
    let mut is_escaped = false;
    let end = quoted.find(|letter| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    let quoted = &quoted[..end.unwrap_or(quoted.len())];
    (0..=ESCAPE).find_map(|cut| {
        let part = quoted.get(..quoted.len().checked_sub(cut)?)?;
        serde_json::from_str(&format!("\"{part}\"")).ok()
    })
}

/// The most bytes of an escape that a cut can leave: a pair of surrogates.
const ESCAPE: usize = 12;

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
    fn a_document_inside_a_bundle_becomes_one_line() {
        let stored = b"{\"main\": \"{\\n \\\"info\\\": {}}\", \"subagents\": [{\"id\": \"a\", \"transcript\": [{\"b\":\n1}]}]}";
        let Some(Bundle::Files(files)) = unpack(stored) else { panic!("two files") };
        let texts: Vec<_> = files.iter().map(|it| String::from_utf8_lossy(&it.bytes)).collect();
        assert_eq!(texts, ["{  \"info\": {}}", "{\"b\": 1}"]);
    }

    #[test]
    fn the_opening_of_the_main_transcript_is_read_however_it_is_cut() {
        let whole = r#" {"main": "{\"a\":\"\ud83d\ude00\"}", "subagents": []}"#;
        assert_eq!(main_opening(whole.as_bytes()).as_deref(), Some("{\"a\":\"😀\"}"));
        for cut in whole.find("\"{").unwrap() + 1..whole.len() {
            let opening = main_opening(&whole.as_bytes()[..cut]).expect("a text");
            assert!("{\"a\":\"😀\"}".starts_with(&opening), "{opening}");
        }
    }

    #[test]
    fn lines_are_not_a_bundle() {
        assert_eq!(unpack(b"{\"type\":\"user\"}\n{\"type\":\"user\"}\n"), None);
        assert_eq!(unpack(b"{\"type\":\"user\"}"), None);
    }
}
