//! Sessions that come in one piece: the form that older programs stored, and a list of records.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A session in one piece, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpacked {
    /// Records that stood in one JSON list, now one a line.
    Lines(Vec<u8>),
    /// A main transcript and those of the subagents: name and content of each file.
    Files(Vec<(String, Vec<u8>)>),
}

#[derive(Deserialize)]
struct Combined<'a> {
    #[serde(borrow)]
    main: Cow<'a, str>,
    #[serde(borrow, default)]
    subagents: Vec<CombinedSubagent<'a>>,
}

#[derive(Deserialize)]
struct CombinedSubagent<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    transcript: Cow<'a, str>,
}

/// Takes a session in one piece apart; nothing if it is not in one piece.
///
/// Read are `{"main": "<jsonl>", "subagents": [{"id", "transcript"}]}`, with ids that begin with
/// `agent-` or do not, and `[record, …]`.
///
/// ```
/// use threadfold_convert::{Unpacked, unpack};
///
/// let stored = br#"{"main": "{\"type\":\"user\"}\n", "subagents": [{"id": "a1", "transcript": ""}]}"#;
/// let Some(Unpacked::Files(files)) = unpack(stored) else { panic!("two files are in it") };
/// assert_eq!(files[1].0, "agent-a1.jsonl");
/// ```
pub fn unpack(bytes: &[u8]) -> Option<Unpacked> {
    let text = std::str::from_utf8(bytes).ok()?.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('[') {
        let records: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        // A record may be written over several lines; JSON has no line ends inside strings.
        let one_line = |raw: &&RawValue| raw.get().replace(['\n', '\r'], " ");
        let lines: Vec<String> = records.iter().map(one_line).collect();
        return Some(Unpacked::Lines(lines.join("\n").into_bytes()));
    }
    let combined: Combined<'_> = serde_json::from_str(text).ok()?;
    let mut files = vec![("session.jsonl".to_owned(), combined.main.into_owned().into_bytes())];
    for subagent in combined.subagents {
        let id = subagent.id.strip_prefix("agent-").unwrap_or(&subagent.id);
        // A name is a name here, and never a path.
        let id = id.replace(['/', '\\'], "_");
        files.push((format!("agent-{id}.jsonl"), subagent.transcript.into_owned().into_bytes()));
    }
    Some(Unpacked::Files(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_lines() {
        let list = b" [ {\"a\": 1},\n {\"b\":\n 2} ] ";
        assert_eq!(unpack(list), Some(Unpacked::Lines(b"{\"a\": 1}\n{\"b\":  2}".to_vec())));
    }

    #[test]
    fn lines_are_not_in_one_piece() {
        assert_eq!(unpack(b"{\"type\":\"user\"}\n{\"type\":\"user\"}\n"), None);
        assert_eq!(unpack(b"{\"type\":\"user\"}"), None);
    }
}
