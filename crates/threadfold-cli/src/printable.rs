//! Text from elsewhere, made harmless for a terminal.
//!
//! What an agent wrote down may hold anything: sequences that clear a screen, set a title, open a
//! link, turn the direction of writing. None of it may reach a terminal as it is.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// Returns `text` as one line with everything escaped that would move a cursor, change a
/// colour, turn the direction of writing or hide.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if is_harmful(letter) => {
                write!(out, "\\u{{{:x}}}", u32::from(letter)).expect("a string takes all");
            }
            letter => out.push(letter),
        }
    }
    Cow::Owned(out)
}

/// Returns `text` as one line: white space of any kind is one space, the rest as [`printable`].
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(4096));
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&printable(word));
    }
    out
}

/// Writes `value` as JSON of one line, with everything harmful inside strings escaped.
///
/// The value is the same; only its spelling is harmless.
pub(crate) fn write_json(out: &mut impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Harmless))
}

/// Writes JSON that is text already, with everything harmful inside strings escaped.
pub(crate) fn write_json_text(out: &mut impl Write, json: &str) -> io::Result<()> {
    write_escaped(out, json)
}

/// Spells JSON so that a terminal can be shown it.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        write_escaped(writer, fragment)
    }

    /// JSON that is kept as it was spelt. Harmful letters can only stand in its strings, but for
    /// ends of lines, which are white space between its parts.
    fn write_raw_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        write_escaped(writer, fragment)
    }
}

fn write_escaped<W: ?Sized + Write>(out: &mut W, fragment: &str) -> io::Result<()> {
    let mut rest = fragment;
    while let Some(at) = rest.find(is_harmful) {
        let (before, after) = rest.split_at(at);
        out.write_all(before.as_bytes())?;
        let mut letters = after.chars();
        match letters.next() {
            Some('\n' | '\r' | '\t') => out.write_all(b" ")?,
            Some(letter) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
            None => {}
        }
        rest = letters.as_str();
    }
    out.write_all(rest.as_bytes())
}

fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'                        // soft hyphen
            | '\u{61c}'                     // direction of writing
            | '\u{200b}'..='\u{200f}'       // no width; direction
            | '\u{2028}'..='\u{202e}'       // line separators; direction
            | '\u{2060}'..='\u{206f}'       // invisible operators; direction
            | '\u{feff}'                    // byte order mark
            | '\u{fff9}'..='\u{fffb}'       // annotations
            | '\u{e0000}'..='\u{e007f}'     // tags
        )
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn words_of_any_language_stay_as_they_are() {
        let text = "Grüße, 世界, `a` \\n \"x\" 👋🏽 שלום";
        assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn escape_sequences_are_shown_and_not_obeyed() {
        assert_snapshot!(
            printable("\u{1b}[31mred\u{1b}]0;title\u{7}\u{9b}2J\u{7f}"),
            @r"\u{1b}[31mred\u{1b}]0;title\u{7}\u{9b}2J\u{7f}"
        );
    }

    #[test]
    fn a_text_of_several_lines_becomes_one() {
        assert_snapshot!(printable("a\r\nb\tc\u{2028}d\0"), @r"a\r\nb\tc\u{2028}d\u{0}");
    }

    #[test]
    fn letters_that_turn_the_direction_or_hide_are_shown() {
        assert_snapshot!(
            printable("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{e0041}"),
            @r"a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{e0041}"
        );
    }

    #[test]
    fn one_line_has_single_spaces() {
        assert_snapshot!(one_line("  a\r\n\tb \u{2028} c\u{1b}[1m "), @r"a b c\u{1b}[1m");
    }

    #[test]
    fn json_means_the_same_and_is_harmless() {
        let text = "\u{1b}[2J\u{9b}1m\u{7f}\u{202e}\u{e0041}é";
        let raw =
            serde_json::value::RawValue::from_string(format!("[\n\"{}\"]", &text[4..])).unwrap();
        let mut out = Vec::new();
        write_json(&mut out, &(text, &raw)).unwrap();
        let spelt = String::from_utf8(out).unwrap();
        assert_snapshot!(spelt, @r#"["\u001b[2J\u009b1m\u007f\u202e\udb40\udc41é",[ "\u009b1m\u007f\u202e\udb40\udc41é"]]"#);
        let (read, list): (String, Vec<String>) = serde_json::from_str(&spelt).unwrap();
        assert_eq!((read.as_str(), list[0].as_str()), (text, &text[4..]));
    }
}
