//! Finds the end of a JSON value, or its first syntax error.
//!
//! It accepts what `serde_json` accepts as a `RawValue`, including lone surrogates, repeated keys
//! and `1e400`, and does not validate bytes above 0x7f in strings. Unlike `serde_json` it returns
//! the exact byte of a syntax error, which is where a splice is. It does not recurse: a level of
//! nesting costs a few bytes.

#[cfg(test)]
mod tests;

/// The result of scanning a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// A complete value.
    Whole {
        /// Where it ends.
        end: usize,
        /// Its own keys, if it is an object.
        keys: Keys,
    },
    /// A syntax error, or the end of the line inside the value.
    Broken {
        /// The offset of the offending byte, or the length of the line.
        at: usize,
        /// The start of the object that ended right before it, if one did.
        closed: Option<usize>,
    },
}

/// What the keys of an object reveal about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// It has keys; `{}` is more often a piece of source code than a record.
    pub(super) any: bool,
    /// It has a `type`, as every agent's records do.
    pub(super) typed: bool,
    /// It has an id or a time of its own, as records have and pieces of content do not.
    pub(super) signed: bool,
}

/// Scans the value that begins at `start`, or after the white space there.
///
/// Each byte is read once, and none after a syntax error.
pub(super) fn scan(line: &[u8], start: usize) -> Scan {
    let mut scanner = Scanner {
        line,
        at: start,
        open: Vec::new(),
        starts: Vec::new(),
        closed: None,
        keys: Keys::default(),
    };
    match scanner.value() {
        Ok(()) => Scan::Whole { end: scanner.at, keys: scanner.keys },
        Err(SyntaxError) => Scan::Broken { at: scanner.at, closed: scanner.closed },
    }
}

/// Returns whether `byte` is white space in JSON.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// How many levels of nesting remember their start; deeper ones cost one byte each.
const REMEMBERED: usize = 256;

struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
    /// The open arrays and objects, outermost first.
    open: Vec<Container>,
    /// The starts of the outermost levels.
    starts: Vec<usize>,
    /// The start of the object that ended right before the current byte.
    closed: Option<usize>,
    keys: Keys,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

/// What the grammar allows next.
#[derive(Clone, Copy)]
enum NextToken {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

/// The current byte is not allowed here, or the line ends.
struct SyntaxError;

impl Scanner<'_> {
    fn value(&mut self) -> Result<(), SyntaxError> {
        let mut next = NextToken::Value;
        loop {
            while self.peek().is_some_and(is_space) {
                self.at += 1;
            }
            let byte = self.peek().ok_or(SyntaxError)?;
            let closed = self.closed.take();
            next = match (next, byte) {
                (NextToken::Value | NextToken::ValueOrEnd, b'{') => self.open(Container::Object),
                (NextToken::Value | NextToken::ValueOrEnd, b'[') => self.open(Container::Array),
                (NextToken::ValueOrEnd, b']') | (NextToken::KeyOrEnd, b'}') => self.close(),
                (NextToken::Value | NextToken::ValueOrEnd, _) => {
                    self.scalar(byte)?;
                    NextToken::CommaOrEnd
                }
                (NextToken::Key | NextToken::KeyOrEnd, b'"') => {
                    self.key()?;
                    NextToken::Colon
                }
                (NextToken::Colon, b':') => {
                    self.at += 1;
                    NextToken::Value
                }
                (NextToken::CommaOrEnd, b',') => {
                    self.at += 1;
                    match self.open.last() {
                        Some(Container::Object) => NextToken::Key,
                        _ => NextToken::Value,
                    }
                }
                (NextToken::CommaOrEnd, b']') if self.open.last() == Some(&Container::Array) => {
                    self.close()
                }
                (NextToken::CommaOrEnd, b'}') if self.open.last() == Some(&Container::Object) => {
                    self.close()
                }
                _ => {
                    self.closed = closed;
                    return Err(SyntaxError);
                }
            };
            if self.open.is_empty() {
                return Ok(());
            }
        }
    }

    fn open(&mut self, what: Container) -> NextToken {
        if self.open.len() < REMEMBERED {
            self.starts.push(self.at);
        }
        self.open.push(what);
        self.at += 1;
        match what {
            Container::Array => NextToken::ValueOrEnd,
            Container::Object => NextToken::KeyOrEnd,
        }
    }

    fn close(&mut self) -> NextToken {
        let what = self.open.pop();
        if self.open.len() < REMEMBERED {
            let start = self.starts.pop();
            self.closed = start.filter(|_| what == Some(Container::Object));
        }
        self.at += 1;
        NextToken::CommaOrEnd
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        let start = self.at + 1;
        self.string()?;
        if self.open.len() == 1 {
            self.keys.any = true;
            match &self.line[start..self.at - 1] {
                b"type" => self.keys.typed = true,
                b"uuid" | b"leafUuid" | b"messageId" | b"sessionId" | b"session_id"
                | b"timestamp" => {
                    self.keys.signed = true;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn scalar(&mut self, first: u8) -> Result<(), SyntaxError> {
        match first {
            b'"' => self.string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), SyntaxError> {
        word.iter().try_for_each(|letter| self.expect(|it| it == *letter))
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        self.expect(|it| it.is_ascii_digit())?;
        while self.peek().is_some_and(|it| it.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    /// Skips a string; the current byte is its first quote.
    fn string(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        loop {
            match self.peek() {
                None | Some(..b' ') => return Err(SyntaxError),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        if self.peek() != Some(b'u') {
            return self.expect(|it| b"\"\\/bfnrt".contains(&it));
        }
        self.at += 1;
        (0..4).try_for_each(|_| self.expect(|it| it.is_ascii_hexdigit()))
    }

    fn expect(&mut self, is_wanted: impl Fn(u8) -> bool) -> Result<(), SyntaxError> {
        if !self.peek().is_some_and(is_wanted) {
            return Err(SyntaxError);
        }
        self.at += 1;
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }
}
