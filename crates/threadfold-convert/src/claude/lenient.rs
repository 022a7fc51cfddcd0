//! Reading a line though some of it is not as expected.

use serde::Deserialize;
use serde_json::value::RawValue;
use threadfold_core::Fields;

use super::wire::Line;

/// What had to be given up to read a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// Nothing that was emitter.
    None,
    /// Halves of surrogate pairs, which no text of ours can hold.
    LoneSurrogates,
}

/// Reads a line. Where a field is not of the type that it should have, the others are kept.
///
/// A line that had to be mended borrows from `mended`.
pub(super) fn read<'a>(text: &'a str, mended: &'a mut String) -> Option<(Line<'a>, Repair)> {
    if let Ok(line) = serde_json::from_str(text) {
        return Some((line, Repair::None));
    }
    let whole = with_whole_surrogates(text);
    let repair = if whole == text { Repair::None } else { Repair::LoneSurrogates };
    *mended = without_misfits(&whole)?;
    Some((serde_json::from_str(mended).ok()?, repair))
}

/// Says whether a text is a JSON object at all.
pub(super) fn is_object(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get().starts_with('{'))
}

/// Returns the object with only those fields that fit.
fn without_misfits(text: &str) -> Option<String> {
    let fields: Fields = serde_json::from_str(text).ok()?;
    let mut pairs: Vec<_> = fields.iter().map(|(name, value)| (name, value.as_str())).collect();
    // The largest come last, for all that went before is read again with each.
    pairs.sort_by_key(|(_, value)| value.len());
    let mut kept = String::from("{");
    for (name, value) in pairs {
        let name = serde_json::to_string(name).ok()?;
        let comma = if kept.len() > 1 { "," } else { "" };
        let more = format!("{kept}{comma}{name}:{value}");
        if Line::deserialize(&mut serde_json::Deserializer::from_str(&format!("{more}}}"))).is_ok()
        {
            kept = more;
        }
    }
    kept.push('}');
    Some(kept)
}

/// Returns the text with every half of a surrogate pair that stands alone made a replacement
/// character: no text of ours can hold it. The record keeps it.
fn with_whole_surrogates(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        if bytes[at + 1] != b'u' {
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
            with_whole_surrogates(r#"{"a":"\ud83d\ude00 \ud83d x \ude00 \\ud83d"}"#),
            r#"{"a":"\ud83d\ude00 \ufffd x \ufffd \\ud83d"}"#
        );
    }

    #[test]
    fn a_field_of_another_type_does_not_take_the_line_with_it() {
        let mut mended = String::new();
        let text = r#"{"type":"user","isMeta":"yes","subtype":{"a":1},"uuid":"u"}"#;
        let (line, repair) = read(text, &mut mended).expect("an object");
        assert_eq!(repair, Repair::None);
        assert_eq!((line.kind.as_deref(), line.uuid.as_deref()), (Some("user"), Some("u")));
        assert!(line.subtype.is_none() && !line.is_meta);
    }
}
