//! The canonical form of a JSON value, which hashes are computed from.
//!
//! Input may be nested without bound, so nothing here recurses. It may also have very many members,
//! so only those of objects that change their order are noted.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::value::RawValue;

/// Returns `raw` with sorted keys, strings in their shortest escape form and no white space.
///
/// Numbers keep their spelling. Duplicate keys are all kept, in their order.
pub(crate) fn canonical(raw: &RawValue) -> String {
    canonical_text(raw.get())
}

/// Returns the canonical form of valid JSON text.
pub(super) fn canonical_text(json: &str) -> String {
    if u32::try_from(json.len()).is_err() {
        // Such a value is never in memory: a line is much shorter.
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len());
    let unsorted = UnsortedObjects::of(json);
    Writer { text: json, unsorted: &unsorted, frames: Vec::new(), depth: 0 }
        .write(&mut |part| out.push_str(part));
    out
}

/// The objects whose members are not in canonical order. All others are written as they are read.
#[derive(Default)]
struct UnsortedObjects {
    /// In the order of their first keys.
    objects: Vec<Object>,
    /// The offsets of the keys of each object, in canonical order.
    keys: Vec<u32>,
}

struct Object {
    /// The offset of the key that is first in the text.
    start: u32,
    /// The offset of its closing brace.
    end: u32,
    /// Its keys, as a range of `UnsortedObjects::keys`.
    keys: (u32, u32),
}

/// An object around the present offset, and the arrays directly in it that are around as well.
#[derive(Default)]
struct Level {
    /// How many keys of outer objects are noted.
    outer: u32,
    arrays: u32,
}

impl UnsortedObjects {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut found = Self::default();
        // The keys of all objects around the present offset, and these objects.
        let mut keys: Vec<u32> = Vec::new();
        let mut levels: Vec<Level> = Vec::new();
        // Arrays around all of that need not be counted.
        let mut level = Level::default();
        let mut is_key = false;
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'{' => {
                    levels.push(level);
                    level = Level { outer: keys.len() as u32, arrays: 0 };
                    is_key = true;
                }
                b'[' => {
                    level.arrays += 1;
                    is_key = false;
                }
                b'}' => {
                    found.close_object(text, &mut keys, level.outer as usize, at as u32);
                    level = levels.pop().unwrap_or_default();
                    is_key = false;
                }
                b']' => {
                    level.arrays = level.arrays.saturating_sub(1);
                    is_key = false;
                }
                b',' => is_key = level.arrays == 0 && !levels.is_empty(),
                b'"' => {
                    if is_key {
                        keys.push(at as u32);
                    }
                    is_key = false;
                    at = end_of_string(bytes, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        // An object ends after those inside it.
        found.objects.sort_unstable_by_key(|it| it.start);
        found
    }

    /// Removes the keys of an object that ends, and notes them if they are not in order.
    fn close_object(&mut self, text: &str, keys: &mut Vec<u32>, outer: usize, end: u32) {
        let own = &mut keys[outer..];
        if !own.is_sorted_by(|one, next| compare_keys(text, *one, *next).is_le()) {
            let start = own[0];
            // Equal keys keep their order.
            own.sort_unstable_by(|one, other| {
                compare_keys(text, *one, *other).then_with(|| one.cmp(other))
            });
            let first = self.keys.len() as u32;
            match outer == 0 && self.keys.is_empty() {
                // The text may be one large object, whose keys need not be held twice.
                true => std::mem::swap(&mut self.keys, keys),
                false => self.keys.extend_from_slice(own),
            }
            self.objects.push(Object { start, end, keys: (first, self.keys.len() as u32) });
        }
        keys.truncate(outer);
    }

    /// Returns the object whose opening brace is at an offset.
    fn object(&self, bytes: &[u8], brace: usize) -> Option<&Object> {
        if self.objects.is_empty() {
            return None;
        }
        // An empty object has none; the key of another one is not looked for.
        let key = brace + 1 + bytes[brace + 1..].iter().position(|it| !it.is_ascii_whitespace())?;
        let found = self.objects.binary_search_by_key(&key, |it| it.start as usize);
        found.ok().map(|number| &self.objects[number])
    }
}

/// Compares two keys by their content.
fn compare_keys(text: &str, one: u32, other: u32) -> Ordering {
    between_quotes(&key_at(text, one)).cmp(between_quotes(&key_at(text, other)))
}

/// Writes values in their canonical form.
struct Writer<'a> {
    text: &'a str,
    unsorted: &'a UnsortedObjects,
    /// The unsorted objects around the present value.
    frames: Vec<Frame>,
    /// How many arrays and sorted objects are around it, in the innermost of these.
    depth: u32,
}

struct Frame {
    /// The offset of its closing brace.
    end: u32,
    /// The keys that are not written yet, as a range of `UnsortedObjects::keys`.
    keys: (u32, u32),
    /// The depth at which it stands.
    depth: u32,
}

impl Writer<'_> {
    fn write(mut self, emit: &mut impl FnMut(&str)) {
        let bytes = self.text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            at = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => at + 1,
                b',' => {
                    emit(",");
                    at + 1
                }
                b':' => {
                    emit(":");
                    at + 1
                }
                b'[' => {
                    emit("[");
                    self.depth += 1;
                    at + 1
                }
                b'{' => self.begin_object(at, emit),
                b']' | b'}' => {
                    emit(if *byte == b']' { "]" } else { "}" });
                    self.depth = self.depth.saturating_sub(1);
                    self.after_value(at + 1, emit)
                }
                b'"' => {
                    let end = end_of_string(bytes, at);
                    emit(&string(&self.text[at..end]));
                    self.after_value(end, emit)
                }
                _ => {
                    let end = bytes[at..]
                        .iter()
                        .position(|byte| {
                            matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')
                        })
                        .map_or(bytes.len(), |length| at + length.max(1));
                    emit(&self.text[at..end]);
                    self.after_value(end, emit)
                }
            };
        }
    }

    /// Begins the object at an offset, and returns where to continue.
    fn begin_object(&mut self, at: usize, emit: &mut impl FnMut(&str)) -> usize {
        emit("{");
        let Some(object) = self.unsorted.object(self.text.as_bytes(), at) else {
            self.depth += 1;
            return at + 1;
        };
        let depth = std::mem::take(&mut self.depth);
        self.frames.push(Frame { end: object.end, keys: object.keys, depth });
        self.continue_object(at, emit)
    }

    /// Continues after a value. Returns where: the text goes on, unless the value is a member of an
    /// unsorted object.
    fn after_value(&mut self, at: usize, emit: &mut impl FnMut(&str)) -> usize {
        match self.depth == 0 && !self.frames.is_empty() {
            true => {
                let is_last = self.frames.last().is_some_and(|it| it.keys.0 == it.keys.1);
                if !is_last {
                    emit(",");
                }
                self.continue_object(at, emit)
            }
            false => at,
        }
    }

    /// Writes the key of the next member of the innermost unsorted object, or ends the object.
    /// Returns where to continue.
    fn continue_object(&mut self, at: usize, emit: &mut impl FnMut(&str)) -> usize {
        let Some(frame) = self.frames.last_mut() else { return at };
        if frame.keys.0 < frame.keys.1 {
            let key = self.unsorted.keys[frame.keys.0 as usize];
            frame.keys.0 += 1;
            emit(&key_at(self.text, key));
            return end_of_string(self.text.as_bytes(), key as usize);
        }
        // Its brace ends it like a sorted one.
        let end = frame.end as usize;
        self.depth = frame.depth + 1;
        self.frames.pop();
        end
    }
}

/// Returns the canonical form of the key at an offset, quotes included.
fn key_at(text: &str, at: u32) -> Cow<'_, str> {
    let at = at as usize;
    string(&text[at..end_of_string(text.as_bytes(), at)])
}

/// Returns the offset behind the closing quote of the string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Returns the canonical form of a string, quotes included.
fn string(quoted: &str) -> Cow<'_, str> {
    if is_canonical_string(quoted.as_bytes()) {
        return Cow::Borrowed(quoted);
    }
    let Some((plain, escaped)) = quoted.split_once('\\') else {
        return Cow::Borrowed(quoted);
    };
    let mut out = String::with_capacity(quoted.len());
    out.push_str(plain);
    let mut rest = escaped.chars();
    loop {
        match rest.next() {
            Some('u') => unicode_escape(&mut rest, &mut out),
            Some('/') => out.push('/'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => {}
        }
        let Some((plain, escaped)) = rest.as_str().split_once('\\') else {
            out.push_str(rest.as_str());
            return Cow::Owned(out);
        };
        out.push_str(plain);
        rest = escaped.chars();
    }
}

/// Returns true if no escape in the string has a shorter form.
pub(super) fn is_canonical_string(quoted: &[u8]) -> bool {
    let mut rest = quoted;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        if let Some(b'u' | b'/') = rest.get(at + 1) {
            return false;
        }
        // Skips the escaped character, which may itself be a backslash.
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    true
}

fn unicode_escape(rest: &mut std::str::Chars<'_>, out: &mut String) {
    let unit = four_hex(rest);
    let code = match unit {
        0xD800..=0xDBFF => {
            let mut ahead = rest.clone();
            let low = match (ahead.next(), ahead.next()) {
                (Some('\\'), Some('u')) => four_hex(&mut ahead),
                _ => 0,
            };
            if (0xDC00..=0xDFFF).contains(&low) {
                *rest = ahead;
                0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
            } else {
                unit
            }
        }
        _ => unit,
    };
    match char::from_u32(code) {
        Some('"') => out.push_str("\\\""),
        Some('\\') => out.push_str("\\\\"),
        Some('\u{8}') => out.push_str("\\b"),
        Some('\t') => out.push_str("\\t"),
        Some('\n') => out.push_str("\\n"),
        Some('\u{c}') => out.push_str("\\f"),
        Some('\r') => out.push_str("\\r"),
        Some(letter) if letter >= ' ' => out.push(letter),
        // A control character or a lone surrogate has no unescaped form.
        _ => out.push_str(&format!("\\u{code:04x}")),
    }
}

fn four_hex(rest: &mut std::str::Chars<'_>) -> u32 {
    rest.by_ref().take(4).fold(0, |sum, digit| sum * 16 + digit.to_digit(16).unwrap_or(0))
}

/// Strips the quotes, so that a key sorts before any longer key that starts with it.
fn between_quotes(key: &str) -> &[u8] {
    key.as_bytes().get(1..key.len() - 1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::Json;

    fn canonical(text: &str) -> String {
        Json::parse(text).expect("the test's JSON").canonical()
    }

    #[test]
    fn keys_are_sorted_and_white_space_is_removed() {
        assert_eq!(
            canonical(" { \"b\" : [ 1 , 2.50 , { } ] , \"a\" : null } "),
            r#"{"a":null,"b":[1,2.50,{}]}"#
        );
    }

    #[test]
    fn a_key_sorts_before_longer_keys_with_the_same_prefix() {
        assert_eq!(
            canonical(r#"{"a b":1,"a!":2,"a":3,"":4,"B":5}"#),
            r#"{"":4,"B":5,"a":3,"a b":1,"a!":2}"#
        );
    }

    #[test]
    fn duplicate_keys_keep_their_order() {
        assert_eq!(canonical(r#"{"k":2,"a":0,"k":1}"#), r#"{"a":0,"k":2,"k":1}"#);
    }

    #[test]
    fn numbers_keep_their_spelling() {
        let text = "[1e400,-0,1.0,0.10,12345678901234567890123]";
        assert_eq!(canonical(text), text);
    }

    #[test]
    fn strings_use_their_shortest_escape_form() {
        assert_eq!(
            canonical(r#"["\u0041\/\u00e9\u000a\u0001\ud83d\ude00\ud800x\udc00","\"\\"]"#),
            "[\"A/é\\n\\u0001😀\\ud800x\\udc00\",\"\\\"\\\\\"]"
        );
    }

    #[test]
    fn strings_without_redundant_escapes_are_unchanged() {
        let text = r#"["\\u0041","\\/","\\\"\n","é\\"]"#;
        assert_eq!(canonical(text), text);
        assert_eq!(canonical(r#""\\\u0041""#), r#""\\A""#);
    }

    #[test]
    fn keys_and_string_values_are_distinguished() {
        assert_eq!(canonical(r#"{"a":"b","c":["d"],"":""}"#), r#"{"":"","a":"b","c":["d"]}"#);
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let deep = format!("{}{}", "[{\"a\":".repeat(100_000), "0") + &"}]".repeat(100_000);
        assert_eq!(canonical(&deep), deep);
        for (open, inner, close) in [("[", "", "]"), ("{\"a\":", "{}", "}"), ("[[],", "[]", "]")] {
            let deep = [&open.repeat(200_000), inner, &close.repeat(200_000)].concat();
            assert_eq!(canonical(&deep), deep);
        }
    }

    #[test]
    fn sorted_and_unsorted_objects_may_be_in_each_other() {
        let unsorted = r#"{ "b" : {"a":[{"y":{"d":1,"c":{}},"x":[{}, {"f":"}","e":"{"}]}],"b":0} , "a":{"z":0} }"#;
        let sorted =
            r#"{"a":{"z":0},"b":{"a":[{"x":[{},{"e":"{","f":"}"}],"y":{"c":{},"d":1}}],"b":0}}"#;
        assert_eq!(canonical(unsorted), sorted);
        assert_eq!(canonical(sorted), sorted);
        assert_eq!(
            canonical(&format!("[{unsorted},[{unsorted}],7]")),
            format!("[{sorted},[{sorted}],7]")
        );
    }

    #[test]
    fn members_are_sorted_at_every_level() {
        assert_eq!(
            canonical(r#"[{"b":{"d":[{"z":1,"y":[]},2],"c":{}},"a":"{"},[],{},{"k":[{}]}]"#),
            r#"[{"a":"{","b":{"c":{},"d":[{"y":[],"z":1},2]}},[],{},{"k":[{}]}]"#
        );
        assert_eq!(canonical(r#"{"b":1,"\u0061":2}"#), r#"{"a":2,"b":1}"#);
    }
}
