//! The canonical form of a JSON value, which hashes are computed from.
//!
//! Input may be nested without bound, so nothing here recurses, and a level takes a few bytes: only
//! the members of objects are noted, because only they change their order.

use std::borrow::Cow;

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
    Writer { text: json, members: &Members::of(json), frames: Vec::new(), pending: Vec::new() }
        .write(&mut |part| out.push_str(part));
    out
}

/// Where the members of all objects are.
#[derive(Default)]
struct Members {
    /// In the order in which the objects begin.
    objects: Vec<Object>,
    members: Vec<Member>,
}

struct Object {
    start: u32,
    /// The offset behind its closing brace.
    end: u32,
    first: u32,
}

struct Member {
    /// The offset of its key.
    key: u32,
    /// The next member of the same object.
    next: u32,
}

/// No object, or no member.
const NONE: u32 = u32::MAX;

impl Members {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut found = Self::default();
        // The objects around the present offset, with the last member of each; `NONE` is an array.
        let mut around: Vec<(u32, u32)> = Vec::new();
        let mut is_key = false;
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'{' => {
                    around.push((found.objects.len() as u32, NONE));
                    found.objects.push(Object { start: at as u32, end: NONE, first: NONE });
                    is_key = true;
                }
                b'[' => {
                    around.push((NONE, NONE));
                    is_key = false;
                }
                b'}' | b']' => {
                    let closed = around.pop().and_then(|it| found.objects.get_mut(it.0 as usize));
                    if let Some(object) = closed {
                        object.end = at as u32 + 1;
                    }
                    is_key = false;
                }
                b',' => is_key = around.last().is_some_and(|it| it.0 != NONE),
                b'"' => {
                    if let (true, Some(object)) = (is_key, around.last_mut()) {
                        found.add(object, at as u32);
                    }
                    is_key = false;
                    at = end_of_string(bytes, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    fn add(&mut self, (object, last): &mut (u32, u32), key: u32) {
        let number = self.members.len() as u32;
        self.members.push(Member { key, next: NONE });
        match self.members.get_mut(*last as usize) {
            Some(last) => last.next = number,
            None => self.objects[*object as usize].first = number,
        }
        *last = number;
    }

    /// Returns the object that begins at an offset.
    fn object(&self, start: usize) -> Option<&Object> {
        let found = self.objects.binary_search_by_key(&start, |it| it.start as usize);
        found.ok().map(|number| &self.objects[number])
    }
}

/// Writes values in their canonical form.
struct Writer<'a> {
    text: &'a str,
    members: &'a Members,
    /// What the present value is in.
    frames: Vec<Frame>,
    /// The keys of the members that are not written yet, of all objects around the present value;
    /// the next one is last.
    pending: Vec<u32>,
}

struct Frame {
    /// Where the text continues behind an object; `NONE` for an array, which is read in order.
    end: u32,
    /// How many members of outer objects are pending.
    outer: u32,
}

impl Writer<'_> {
    fn write(mut self, emit: &mut impl FnMut(&str)) {
        let bytes = self.text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            at = match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b':' => at + 1,
                b',' => {
                    emit(",");
                    at + 1
                }
                b'[' => {
                    emit("[");
                    self.frames.push(Frame { end: NONE, outer: 0 });
                    at + 1
                }
                b']' => {
                    emit("]");
                    self.frames.pop();
                    self.after_value(at + 1, emit)
                }
                b'{' => self.begin_object(at, emit),
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
        let Some(object) = self.members.object(at) else { return at + 1 };
        let outer = self.pending.len();
        self.frames.push(Frame { end: object.end, outer: outer as u32 });
        let mut next = object.first;
        while let Some(member) = self.members.members.get(next as usize) {
            self.pending.push(member.key);
            next = member.next;
        }
        // The last one is written next. Sorting is stable, so equal keys keep their order.
        let (text, own) = (self.text, &mut self.pending[outer..]);
        own.sort_by(|a, b| {
            between_quotes(&key_at(text, *a)).cmp(between_quotes(&key_at(text, *b)))
        });
        own.reverse();
        match own.is_empty() {
            true => self.after_value(at, emit),
            false => self.begin_member(emit),
        }
    }

    /// Writes the key of the next member, and returns where its value is.
    fn begin_member(&mut self, emit: &mut impl FnMut(&str)) -> usize {
        let Some(key) = self.pending.pop() else { return self.text.len() };
        emit(&key_at(self.text, key));
        emit(":");
        end_of_string(self.text.as_bytes(), key as usize)
    }

    /// Continues after a value: with the next member of the object that it is in, or behind that
    /// object. Returns where.
    fn after_value(&mut self, mut at: usize, emit: &mut impl FnMut(&str)) -> usize {
        while let Some(Frame { end, outer }) = self.frames.last() {
            if *end == NONE {
                return at;
            }
            if self.pending.len() > *outer as usize {
                // The first member is written with its object.
                emit(",");
                return self.begin_member(emit);
            }
            emit("}");
            at = *end as usize;
            self.frames.pop();
        }
        at
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
    fn members_are_sorted_at_every_level() {
        assert_eq!(
            canonical(r#"[{"b":{"d":[{"z":1,"y":[]},2],"c":{}},"a":"{"},[],{},{"k":[{}]}]"#),
            r#"[{"a":"{","b":{"c":{},"d":[{"y":[],"z":1},2]}},[],{},{"k":[{}]}]"#
        );
        assert_eq!(canonical(r#"{"b":1,"\u0061":2}"#), r#"{"a":2,"b":1}"#);
    }
}
