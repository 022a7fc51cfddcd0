//! Lone surrogates: escapes of half a surrogate pair, which are not valid text.

use std::borrow::Cow;

const ESCAPE: usize = 6;
const REPLACEMENT: &str = "\\ufffd";
/// What is reported of a text with one.
pub(super) const FOUND: &str = "a lone surrogate";

/// Returns true if a JSON text has a lone surrogate.
pub(super) fn has_lone(json: &str) -> bool {
    next_lone(json, 0).is_some()
}

/// Returns a JSON text with each lone surrogate replaced by U+FFFD.
///
/// ```
/// use threadfold_core::without_lone_surrogates;
///
/// assert_eq!(without_lone_surrogates(r#""a\ud83d""#), r#""a\ufffd""#);
/// assert_eq!(without_lone_surrogates(r#""\ud83d\ude00""#), r#""\ud83d\ude00""#);
/// ```
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let mut replaced = String::new();
    let mut kept = 0;
    while let Some(at) = next_lone(json, kept) {
        replaced.push_str(&json[kept..at]);
        replaced.push_str(REPLACEMENT);
        kept = at + ESCAPE;
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    replaced.push_str(&json[kept..]);
    Cow::Owned(replaced)
}

/// Returns the offset of the next lone surrogate.
fn next_lone(json: &str, from: usize) -> Option<usize> {
    let bytes = json.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit(bytes, at) {
            Some(0xD800..=0xDBFF) => match unit(bytes, at + ESCAPE) {
                Some(0xDC00..=0xDFFF) => at += 2 * ESCAPE,
                _ => return Some(at),
            },
            Some(0xDC00..=0xDFFF) => return Some(at),
            Some(_) => at += ESCAPE,
            None => at += 2,
        }
    }
    None
}

/// Returns the UTF-16 code unit of the escape at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
