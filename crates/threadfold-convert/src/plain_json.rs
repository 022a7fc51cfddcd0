//! Reads small objects in the spelling that agents give them: the deltas of a stream.
//!
//! A delta is a few letters in an envelope of 200 bytes, and most of the time of a generic reader
//! goes into the envelope. This reader knows strings, numbers without sign or fraction, and `null`.
//! Where it finds anything else, or a key twice, it gives up, and the caller uses the generic reader:
//! what a line means never depends on which of the two read it.

use std::borrow::Cow;

/// A reader at some place of a text.
pub(crate) struct PlainJson<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> PlainJson<'a> {
    /// Reads an object that is the whole text; see [`members`](Self::members).
    pub(crate) fn read(
        text: &'a str,
        member: impl FnMut(&'a str, &mut Self) -> Option<()>,
    ) -> Option<()> {
        let mut reader = Self { text, at: 0 };
        reader.members(member)?;
        reader.next_byte().is_none().then_some(())
    }

    /// Reads an object: `member` gets each key, and reads its value. Nothing is returned if the
    /// object has another form, or if `member` returns nothing.
    pub(crate) fn members(
        &mut self,
        mut member: impl FnMut(&'a str, &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.token(b'{')?;
        if self.next_byte() == Some(b'}') {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.token(b':')?;
            member(key, self)?;
            match self.next_byte()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Reads a string without escapes.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        self.token(b'"')?;
        let start = self.at;
        self.at += plain_length(&self.text.as_bytes()[start..]);
        // A control character is an error of the line, and the generic reader says so.
        if self.text.as_bytes().get(self.at) != Some(&b'"') {
            return None;
        }
        self.at += 1;
        Some(&self.text[start..self.at - 1])
    }

    /// Reads a string.
    pub(crate) fn text(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        if let Some(plain) = self.string() {
            return Some(Cow::Borrowed(plain));
        }
        let mut rest = serde_json::Deserializer::from_str(&self.text[start..]).into_iter();
        let read = rest.next()?.ok()?;
        self.at = start + rest.byte_offset();
        Some(Cow::Owned(read))
    }

    /// Reads a string without escapes, or `null`.
    pub(crate) fn string_or_null(&mut self) -> Option<Option<&'a str>> {
        if self.next_byte()? == b'n' {
            let rest = self.text[self.at..].strip_prefix("null")?;
            self.at = self.text.len() - rest.len();
            return Some(None);
        }
        self.string().map(Some)
    }

    /// Reads a number without sign or fraction.
    pub(crate) fn number(&mut self) -> Option<u64> {
        self.next_byte()?;
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = &rest[..length];
        let is_usual = digits == "0" || !digits.starts_with('0');
        // What follows must end the number: `1.5` is not one and a rest.
        let ends = matches!(rest.as_bytes().get(length), Some(b',' | b'}' | b' '));
        self.at += length;
        (is_usual && ends).then(|| digits.parse().ok())?
    }

    /// Reads one byte of punctuation.
    fn token(&mut self, wanted: u8) -> Option<()> {
        (self.next_byte()? == wanted).then(|| self.at += 1)
    }

    /// Returns the next byte that is no space.
    fn next_byte(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            if byte != b' ' {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }
}

const EACH: u64 = u64::MAX / 255;
const HIGH: u64 = EACH << 7;

/// Returns how many bytes precede the first quote, backslash or control character.
///
/// Eight at a time: most strings are keys and ids, which are too short for a search that has to be
/// set up.
fn plain_length(bytes: &[u8]) -> usize {
    // Marks the bytes that are zero. A byte after a marked one may be marked wrongly.
    let zeros = |word: u64| word.wrapping_sub(EACH) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let controls = word.wrapping_sub(EACH * u64::from(b' ')) & !word & HIGH;
        let quotes = zeros(word ^ (EACH * u64::from(b'"')));
        let found = controls | quotes | zeros(word ^ (EACH * u64::from(b'\\')));
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_end = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    bytes.len() - rest.len() + rest.iter().position(is_end).unwrap_or(rest.len())
}

/// Stores the value of a key. Returns nothing if the key came before.
pub(crate) fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type FoundFields<'a> = (Option<Cow<'a, str>>, Option<u64>, Option<Option<&'a str>>);

    fn read(text: &str) -> Option<FoundFields<'_>> {
        let mut found: FoundFields<'_> = (None, None, None);
        PlainJson::read(text, |key, value| match key {
            "text" => once(&mut found.0, value.text()?),
            "number" => once(&mut found.1, value.number()?),
            "name" => once(&mut found.2, value.string_or_null()?),
            "inner" => value.members(|key, value| match key {
                "text" => once(&mut found.0, value.text()?),
                _ => None,
            }),
            _ => None,
        })?;
        Some(found)
    }

    #[test]
    fn the_end_of_a_plain_string_is_found_at_every_offset() {
        for letter in ["a", "é", "\u{7f}", "\u{10ffff}", " ", "!", "#", "[", "]"] {
            for end in ["\"", "\\", "\n", "\0", "\u{1f}"] {
                for length in 0..20 {
                    let plain = letter.repeat(length);
                    let text = format!("{plain}{end}\"x\n");
                    assert_eq!(plain_length(text.as_bytes()), plain.len(), "{text:?}");
                    assert_eq!(plain_length(plain.as_bytes()), plain.len());
                }
            }
        }
    }

    #[test]
    fn usual_objects_are_read() {
        let found = read(r#"{"text":"a","number":12,"name":null}"#);
        assert_eq!(found, Some((Some("a".into()), Some(12), Some(None))));
        let found = read(r#" { "inner" : { "text" : "\u00e9\n\"" } , "name" : "x" } "#);
        assert_eq!(found, Some((Some("é\n\"".into()), None, Some(Some("x")))));
        assert_eq!(read("{}"), Some((None, None, None)));
    }

    #[test]
    fn anything_else_is_left_to_the_generic_reader() {
        let others = [
            r#"{"text":"a"} x"#,
            r#"{"text":"a","text":"b"}"#,
            r#"{"text":"a",}"#,
            r#"{"text":"a" "number":1}"#,
            r#"{"text":1}"#,
            r#"{"text":"a"#,
            r#"{"text":"\x"}"#,
            "{\"text\":\"a\tb\"}",
            r#"{"number":-1}"#,
            r#"{"number":1.5}"#,
            r#"{"number":01}"#,
            r#"{"number":1e3}"#,
            r#"{"number":99999999999999999999}"#,
            r#"{"number":}"#,
            r#"{"name":nul}"#,
            r#"{"name":"\u0041"}"#,
            r#"{"other":1}"#,
            r#"{"te\u0078t":"a"}"#,
            "[]",
            "",
        ];
        for text in others {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
