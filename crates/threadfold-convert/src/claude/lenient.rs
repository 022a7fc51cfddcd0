//! Reads a line although some of its fields do not have the expected type.

use serde::Deserialize;
use serde_json::value::RawValue;
use threadfold_core::Fields;

use super::wire::Line;

/// What had to be replaced to read a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// Nothing; fields of the wrong type may have been left out.
    None,
    /// Lone surrogates, which UTF-8 cannot encode.
    LoneSurrogates,
}

/// Reads a line. A field of the wrong type is left out, and the others are kept.
///
/// A repaired line borrows from `buffer`.
pub(super) fn read<'a>(text: &'a str, buffer: &'a mut String) -> Option<(Line<'a>, Repair)> {
    if let Ok(line) = serde_json::from_str(text) {
        return Some((line, Repair::None));
    }
    let encodable = replace_lone_surrogates(text);
    let repair = if encodable == text { Repair::None } else { Repair::LoneSurrogates };
    *buffer = without_misfits(&encodable)?;
    Some((serde_json::from_str(buffer).ok()?, repair))
}

/// Returns whether a text is a JSON object.
pub(super) fn is_object(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get().starts_with('{'))
}

/// Returns the object with only the fields that have the expected type.
fn without_misfits(text: &str) -> Option<String> {
    let fields: Fields = serde_json::from_str(text).ok()?;
    let mut pairs: Vec<_> = fields.iter().map(|(name, value)| (name, value.as_str())).collect();
    // Every attempt parses all fields accepted so far again, so the largest are tried last.
    pairs.sort_by_key(|(_, value)| value.len());
    let mut kept = String::from("{");
    for (name, value) in pairs {
        let name = serde_json::to_string(name).ok()?;
        let comma = if kept.len() > 1 { "," } else { "" };
        let candidate = format!("{kept}{comma}{name}:{value}");
        let object = format!("{candidate}}}");
        if Line::deserialize(&mut serde_json::Deserializer::from_str(&object)).is_ok() {
            kept = candidate;
        }
    }
    kept.push('}');
    Some(kept)
}

/// Returns the text with every lone surrogate escape replaced by `\ufffd`.
///
/// Agents cut text at UTF-16 units, so half of a pair can stand alone; the record keeps it.
fn replace_lone_surrogates(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        if bytes[at + 1] != b'u' {
            // The second byte may be a backslash, which must not open an escape of its own.
            at += 2;
            continue;
        }
        let unit = |at: usize| {
            let digits = text.get(at + 2..at + 6)?;
            (bytes[at] == b'\\' && bytes[at + 1] == b'u')
                .then(|| u16::from_str_radix(digits, 16).ok())
                .flatten()
        };
        let alone = match unit(at) {
            Some(0xD800..=0xDBFF) => {
                let low = (at + 7 < bytes.len()).then(|| unit(at + 6)).flatten();
                let paired = matches!(low, Some(0xDC00..=0xDFFF));
                if paired {
                    at += 6;
                }
                !paired
            }
            Some(0xDC00..=0xDFFF) => true,
            _ => false,
        };
        if alone {
            out.push_str(&text[done..at]);
            out.push_str("\\ufffd");
            done = at + 6;
        }
        at += 6;
    }
    out.push_str(&text[done.min(text.len())..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_becomes_a_replacement_character() {
        assert_eq!(
            replace_lone_surrogates(r#"{"a":"\ud83d\ude00 \ud83d x \ude00 \\ud83d"}"#),
            r#"{"a":"\ud83d\ude00 \ufffd x \ufffd \\ud83d"}"#
        );
    }

    #[test]
    fn a_field_of_the_wrong_type_does_not_lose_the_line() {
        let mut buffer = String::new();
        let text = r#"{"type":"user","isMeta":"yes","subtype":{"a":1},"uuid":"u"}"#;
        let (line, repair) = read(text, &mut buffer).expect("an object");
        assert_eq!(repair, Repair::None);
        assert_eq!((line.kind.as_deref(), line.uuid.as_deref()), (Some("user"), Some("u")));
        assert!(line.subtype.is_none() && !line.is_meta);
    }
}
