//! JSON as a strict provider reads it: a request's spelling is kept beside its value.
//!
//! It is an independent parser, so that its strictness does not depend on another one's leniency.

use std::borrow::Cow;
use std::str::Chars;

/// Deeper than any meaningful request, and far from overflowing a thread's stack.
const DEPTH_LIMIT: usize = 300;

/// A value and its original spelling.
#[derive(Clone, Debug)]
pub(super) struct Value<'a> {
    /// The text of the value in the request.
    pub(super) text: &'a str,
    body: Body<'a>,
}

#[derive(Clone, Debug)]
enum Body<'a> {
    Null,
    Bool(bool),
    Number,
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

/// Parses one value, with nothing after it.
pub(super) fn read(bytes: &[u8]) -> Result<Value<'_>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.value()?;
    reader.skip_space();
    if reader.at < text.len() {
        return Err(reader.wrong("the end"));
    }
    Ok(value)
}

impl<'a> Value<'a> {
    /// Returns a field of an object; `null` counts as absent, and the last of equal names wins.
    pub(super) fn get(&self, name: &str) -> Option<&Value<'a>> {
        let Body::Object(fields) = &self.body else { return None };
        let found = fields.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value);
        found.filter(|it| !matches!(it.body, Body::Null))
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> Option<&[Value<'a>]> {
        match &self.body {
            Body::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self.body, Body::Object(_))
    }

    /// Returns the text of a field, or an empty one.
    pub(super) fn word(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_text).unwrap_or_default()
    }

    /// Returns the items of a field that is a list.
    pub(super) fn items(&self, name: &str) -> &[Value<'a>] {
        self.get(name).and_then(Value::as_list).unwrap_or_default()
    }

    /// Returns whether a field is present and false.
    pub(super) fn denies(&self, name: &str) -> bool {
        matches!(self.get(name).map(|it| &it.body), Some(Body::Bool(false)))
    }
}

/// Two values are equal if they mean the same, whatever their spelling.
impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.body, &other.body) {
            (Body::Null, Body::Null) => true,
            (Body::Bool(one), Body::Bool(two)) => one == two,
            (Body::Number, Body::Number) => self.text == other.text,
            (Body::Text(one), Body::Text(two)) => one == two,
            (Body::List(one), Body::List(two)) => one == two,
            (Body::Object(one), Body::Object(two)) => {
                let has = |fields: &[(Cow<'_, str>, Value<'_>)], wanted: &(Cow<'_, str>, _)| {
                    fields.iter().any(|(name, value)| *name == wanted.0 && *value == wanted.1)
                };
                one.len() == two.len() && one.iter().all(|field| has(two, field))
            }
            _ => false,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, wanted: &str) -> String {
        format!("byte {} is not {wanted}", self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Consumes a token, with the white space before it.
    fn take(&mut self, sign: u8) -> bool {
        self.skip_space();
        let is_there = self.peek() == Some(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: u8) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(self.wrong(&format!("`{}`", sign as char))) }
    }

    fn value(&mut self) -> Result<Value<'a>, String> {
        self.skip_space();
        let start = self.at;
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(format!("nested deeper than {DEPTH_LIMIT} at byte {start}"));
        }
        let body = match self.peek() {
            Some(b'{') => self.object()?,
            Some(b'[') => self.list()?,
            Some(b'"') => Body::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.name()?,
        };
        self.depth -= 1;
        Ok(Value { text: &self.text[start..self.at], body })
    }

    fn object(&mut self) -> Result<Body<'a>, String> {
        let mut fields = Vec::new();
        self.expect(b'{')?;
        if self.take(b'}') {
            return Ok(Body::Object(fields));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.expect(b':')?;
            fields.push((name, self.value()?));
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        Ok(Body::Object(fields))
    }

    fn list(&mut self) -> Result<Body<'a>, String> {
        let mut items = Vec::new();
        self.expect(b'[')?;
        if self.take(b']') {
            return Ok(Body::List(items));
        }
        loop {
            items.push(self.value()?);
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b']')?;
        Ok(Body::List(items))
    }

    fn name(&mut self) -> Result<Body<'a>, String> {
        let known =
            [("null", Body::Null), ("true", Body::Bool(true)), ("false", Body::Bool(false))];
        let rest = &self.text[self.at..];
        let found = known.into_iter().find(|(name, _)| rest.starts_with(name));
        let (name, body) = found.ok_or_else(|| self.wrong("a value"))?;
        self.at += name.len();
        Ok(body)
    }

    fn number(&mut self) -> Result<Body<'a>, String> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        if is_number(text) { Ok(Body::Number) } else { Err(format!("`{text}` is no number")) }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, String> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a text"));
        }
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(0..=0x1f) | None => return Err(self.wrong("part of a text")),
                Some(_) => self.at += 1,
            }
        }
        let spelt = self.text.get(start..self.at).ok_or("an escape without its letter")?;
        self.at += 1;
        if spelt.contains('\\') { unescape(spelt).map(Cow::Owned) } else { Ok(spelt.into()) }
    }
}

fn is_number(text: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
        }
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    is_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(is_digits)
}

fn unescape(spelt: &str) -> Result<String, String> {
    let mut text = String::with_capacity(spelt.len());
    let mut letters = spelt.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        text.push(match letters.next() {
            Some(plain @ ('"' | '\\' | '/')) => plain,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => escaped(&mut letters)?,
            other => return Err(format!("an escape of {other:?}")),
        });
    }
    Ok(text)
}

/// Parses the digits after `\u`: one code unit, or a surrogate pair.
fn escaped(letters: &mut Chars<'_>) -> Result<char, String> {
    let mut units = vec![unit(letters)?];
    if matches!(units[0], 0xd800..=0xdbff) && letters.as_str().starts_with("\\u") {
        letters.nth(1);
        units.push(unit(letters)?);
    }
    match char::decode_utf16(units.iter().copied()).collect::<Result<Vec<_>, _>>().as_deref() {
        Ok([letter]) => Ok(*letter),
        _ => Err(format!("a lone surrogate, {units:04x?}")),
    }
}

fn unit(letters: &mut Chars<'_>) -> Result<u16, String> {
    let digits: String = letters.by_ref().take(4).collect();
    let is_hex = digits.len() == 4 && digits.bytes().all(|it| it.is_ascii_hexdigit());
    let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
    unit.ok_or_else(|| format!("an escape `\\u{digits}`"))
}
