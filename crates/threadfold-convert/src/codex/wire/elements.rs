//! The elements of a list and the fields of an object, in JSON that is known to be valid.
//!
//! A raw value was parsed with its line. To parse it again would validate each text twice; here only
//! its ends are searched for.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// The elements of a list, as they are written; none if the value is no list.
pub(super) fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = Cursor::inside(list, b'[');
    std::iter::from_fn(move || rest.as_mut()?.next())
}

/// Returns the last field of an object that has this name, as it is written.
///
/// Nothing if the value is no object. A name with an escape is never the wanted one: none that is
/// asked for needs any.
pub(super) fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = Cursor::inside(object, b'{')?;
    let mut found = None;
    while let Some(key) = rest.next() {
        let value = rest.next()?;
        if key.strip_prefix('"').and_then(|it| it.strip_suffix('"')) == Some(name) {
            found = Some(value);
        }
    }
    found
}

/// Returns the text between the quotes of a JSON string without its escapes; nothing if it is none.
pub(super) fn unescaped(inner: &str) -> Option<Cow<'_, str>> {
    let Some(mut at) = memchr(b'\\', inner.as_bytes()) else { return Some(Cow::Borrowed(inner)) };
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    loop {
        text.push_str(&rest[..at]);
        let escaped = match rest.as_bytes().get(at + 1)? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            mark @ (b'"' | b'\\' | b'/') => char::from(*mark),
            // A code may be half of a letter.
            _ => return parsed(inner),
        };
        text.push(escaped);
        rest = &rest[at + 2..];
        match memchr(b'\\', rest.as_bytes()) {
            Some(next) => at = next,
            None => break,
        }
    }
    text.push_str(rest);
    Some(Cow::Owned(text))
}

/// Reads a text whose escapes are codes of letters.
fn parsed(inner: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str(&format!("\"{inner}\"")).ok().map(Cow::Owned)
}

/// What is left of a list or an object.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn inside(value: &'a str, bracket: u8) -> Option<Self> {
        let value = value.trim_ascii_start();
        (value.as_bytes().first() == Some(&bracket)).then(|| Self(&value[1..]))
    }

    /// Returns the next value or name.
    fn next(&mut self) -> Option<&'a str> {
        let between = |it: char| it.is_ascii_whitespace() || matches!(it, ',' | ':');
        let rest = self.0.trim_start_matches(between);
        let length = length_of(rest.as_bytes())?;
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }
}

/// Returns the length of the value at the start; nothing at the end of a list or an object.
fn length_of(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' => text_length(rest),
        b']' | b'}' => None,
        b'[' | b'{' => {
            let (mut depth, mut at) = (0_usize, 0);
            loop {
                match rest.get(at)? {
                    b'"' => {
                        at += text_length(&rest[at..])?;
                        continue;
                    }
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' if depth == 1 => return Some(at + 1),
                    b']' | b'}' => depth -= 1,
                    _ => {}
                }
                at += 1;
            }
        }
        _ => {
            let is_end = |it: &u8| it.is_ascii_whitespace() || matches!(it, b',' | b']' | b'}');
            Some(rest.iter().position(is_end).unwrap_or(rest.len()))
        }
    }
}

/// Returns the length of the text at the start, with its quotes.
fn text_length(rest: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr2(b'"', b'\\', rest.get(at..)?)?;
        match rest[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn elements_and_fields_are_those_of_a_parser() {
        for list in [
            "[]",
            " [ ] ",
            r#"["a","b\\",[1,{"x":"]"}],{"a":{}} , null,-1.5e3,true]"#,
            r#"[ "\"" , "é\u00e9" ,"\\\"]" ]"#,
            r#"{"a":1}"#,
            "\"[1]\"",
            "1",
        ] {
            let expected: Vec<Value> = serde_json::from_str(list).unwrap_or_default();
            let found: Vec<Value> =
                elements(list).map(|it| serde_json::from_str(it).unwrap()).collect();
            assert_eq!(found, expected, "{list}");
        }
        let object =
            r#"{"a":{"text":1},"text":"x","b":[{"text":2}],"text" : "y" , "c":"\"text\""}"#;
        assert_eq!(field(object, "text"), Some("\"y\""));
        assert_eq!(field(object, "d"), None);
        assert_eq!(field("[\"text\",1]", "text"), None);
        assert_eq!(field("{}", "text"), None);
    }

    #[test]
    fn a_text_is_that_of_a_parser() {
        for inner in [
            "",
            "plain é",
            r"\n",
            r#"a\nb\t\"c\"\\\/\r\b\f"#,
            r"\u00e9\n\ud83d\ude00",
            r"half \ud83d of one",
            r"\n and \ude00",
            r"ends \\",
        ] {
            let expected = serde_json::from_str::<String>(&format!("\"{inner}\"")).ok();
            assert_eq!(unescaped(inner).map(Cow::into_owned), expected, "{inner}");
        }
    }

    #[test]
    fn what_is_no_valid_value_ends_early() {
        let list = r#"["a\"b",{"x":[1,"2"]},3]"#;
        for (end, _) in list.char_indices() {
            assert!(elements(&list[..end]).count() <= 3);
            field(&format!("{{\"a\":{}", &list[..end]), "a");
        }
        assert_eq!(unescaped("a\\"), None);
    }
}
