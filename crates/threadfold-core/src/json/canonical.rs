//! The canonical form of a JSON value, which hashes are computed from.
//!
//! Uses a flat list of nodes instead of recursion, because input may be nested without bound.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Returns `raw` with sorted keys, strings in their shortest escape form and no white space.
///
/// Numbers keep their spelling. Duplicate keys are all kept, in their order.
pub(crate) fn canonical(raw: &RawValue) -> String {
    let mut out = String::new();
    canonical_parts(raw.get(), |part| out.push_str(part));
    out
}

/// Emits the canonical form of valid JSON text, piece by piece.
pub(crate) fn canonical_parts(json: &str, emit: impl FnMut(&str)) {
    write(&read(json), emit);
}

enum Node<'a> {
    /// A number, `true`, `false`, `null` or a string, in its final spelling.
    Leaf(Cow<'a, str>),
    Array(Vec<usize>),
    Object(Vec<(Cow<'a, str>, usize)>),
}

/// Reads valid JSON text. The first node is the whole value.
fn read(text: &str) -> Vec<Node<'_>> {
    let bytes = text.as_bytes();
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut containers: Vec<usize> = Vec::new();
    let mut key: Vec<Option<Cow<'_, str>>> = Vec::new();
    let mut at = 0;

    while at < bytes.len() {
        match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' => at += 1,
            b']' | b'}' => {
                containers.pop();
                key.pop();
                at += 1;
            }
            b'"' => {
                let end = end_of_string(bytes, at);
                let spelling = string(&text[at..end]);
                at = end;
                let names_a_member = match containers.last() {
                    Some(&container) => {
                        matches!(nodes[container], Node::Object(_))
                            && key.last().is_some_and(Option::is_none)
                    }
                    None => false,
                };
                if names_a_member {
                    if let Some(waiting) = key.last_mut() {
                        *waiting = Some(spelling);
                    }
                } else {
                    add(&mut nodes, &containers, &mut key, Node::Leaf(spelling));
                }
            }
            opening @ (b'[' | b'{') => {
                let node = match opening {
                    b'[' => Node::Array(Vec::new()),
                    _ => Node::Object(Vec::new()),
                };
                let place = add(&mut nodes, &containers, &mut key, node);
                containers.push(place);
                key.push(None);
                at += 1;
            }
            _ => {
                let end = bytes[at..]
                    .iter()
                    .position(|byte| {
                        matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')
                    })
                    .map_or(bytes.len(), |length| at + length);
                add(&mut nodes, &containers, &mut key, Node::Leaf(text[at..end].into()));
                at = end;
            }
        }
    }
    nodes
}

fn add<'a>(
    nodes: &mut Vec<Node<'a>>,
    containers: &[usize],
    key: &mut [Option<Cow<'a, str>>],
    node: Node<'a>,
) -> usize {
    let place = nodes.len();
    nodes.push(node);
    if let Some(&container) = containers.last() {
        match &mut nodes[container] {
            Node::Array(items) => items.push(place),
            Node::Object(members) => {
                let name = key.last_mut().and_then(Option::take).unwrap_or_default();
                members.push((name, place));
            }
            Node::Leaf(_) => {}
        }
    }
    place
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the canonical form of a string, quotes included.
fn string(quoted: &str) -> Cow<'_, str> {
    if is_canonical(quoted) {
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
fn is_canonical(quoted: &str) -> bool {
    let mut rest = quoted;
    while let Some((_, escaped)) = rest.split_once('\\') {
        if escaped.starts_with(['u', '/']) {
            return false;
        }
        // Skips the escaped character, which may itself be a backslash.
        rest = escaped.get(1..).unwrap_or_default();
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

enum Task<'a> {
    Value(usize),
    Text(&'static str),
    Key(&'a str),
}

fn write(nodes: &[Node<'_>], mut out: impl FnMut(&str)) {
    let mut tasks = vec![Task::Value(0)];
    while let Some(task) = tasks.pop() {
        match task {
            Task::Text(text) => out(text),
            Task::Key(key) => {
                out(key);
                out(":");
            }
            Task::Value(place) => match nodes.get(place) {
                None => {}
                Some(Node::Leaf(spelling)) => out(spelling),
                Some(Node::Array(items)) => {
                    out("[");
                    tasks.push(Task::Text("]"));
                    for (index, item) in items.iter().enumerate().rev() {
                        tasks.push(Task::Value(*item));
                        if index > 0 {
                            tasks.push(Task::Text(","));
                        }
                    }
                }
                Some(Node::Object(members)) => {
                    let mut sorted: Vec<_> = members.iter().collect();
                    sorted.sort_by(|a, b| between_quotes(&a.0).cmp(between_quotes(&b.0)));
                    out("{");
                    tasks.push(Task::Text("}"));
                    for (index, (key, value)) in sorted.into_iter().enumerate().rev() {
                        tasks.push(Task::Value(*value));
                        tasks.push(Task::Key(key));
                        if index > 0 {
                            tasks.push(Task::Text(","));
                        }
                    }
                }
            },
        }
    }
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
    }
}
