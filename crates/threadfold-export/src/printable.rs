//! Escapes untrusted text for a terminal.
//!
//! An agent's output may contain anything: escape sequences that clear the screen, set a title or
//! open a link, and bidirectional controls. None of them may reach the terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::ser::Formatter;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Returns `text` as one line, with every character escaped that would move the cursor, change a
/// colour, change the text direction or be invisible. Joiners within an emoji stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    if text.contains(JOINER) {
        for cluster in text.graphemes(true) {
            match is_joined_emoji(cluster) {
                true => out.push_str(cluster),
                false => push_escaped(&mut out, cluster),
            }
        }
    } else {
        push_escaped(&mut out, text);
    }
    Cow::Owned(out)
}

fn push_escaped(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if is_harmful(letter) => {
                write!(out, "\\u{{{:x}}}", u32::from(letter)).expect("a string cannot fail");
            }
            letter => out.push(letter),
        }
    }
}

/// Joins emoji into one, as a family of its members. It is invisible by itself.
const JOINER: char = '\u{200d}';
/// The most emoji that are joined into one; more are a way to hide something.
const MOST_JOINED: usize = 4;

/// Returns whether a grapheme cluster is emoji that are joined into one, as Unicode's technical
/// standard 51 defines it: each is a pictograph, which may have a variation selector or a skin
/// tone, and the first is shown as an emoji by itself. So no other invisible character is in it.
fn is_joined_emoji(cluster: &str) -> bool {
    let is_pictograph = |letter: char| {
        // Only two pictographs with a joiner between them are one cluster.
        let joined: String = [letter, JOINER, '\u{1f525}'].iter().collect();
        joined.graphemes(true).count() == 1
    };
    let is_element = |element: &str| {
        let mut letters = element.chars();
        letters.next().is_some_and(is_pictograph)
            && matches!(letters.next(), None | Some('\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}'))
            && letters.next().is_none()
    };
    let count = cluster.split(JOINER).count();
    (2..=MOST_JOINED).contains(&count)
        && cluster.split(JOINER).all(is_element)
        && cluster.split(JOINER).next().is_some_and(|first| first.width() == 2)
}

/// Returns `text` as one line: runs of white space become one space, the rest as [`printable`].
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(4096));
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&printable(word));
    }
    out
}

/// Writes `value` as one line of JSON, with unsafe characters inside strings escaped.
///
/// The value is unchanged; only its encoding differs.
pub fn write_json(out: &mut impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, TerminalSafeFormatter))
}

/// Writes raw JSON text, with unsafe characters inside strings escaped.
pub fn write_json_text(out: &mut impl Write, json: &str) -> io::Result<()> {
    write_escaped(out, json)
}

/// Encodes JSON so that it is safe to print on a terminal.
struct TerminalSafeFormatter;

impl Formatter for TerminalSafeFormatter {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        write_escaped(writer, fragment)
    }

    /// Raw JSON. Unsafe characters can occur only in its strings, except for line ends, which are
    /// white space between tokens.
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

/// Returns standard output for data that came from elsewhere: a pipe or a file gets every byte as it
/// is, a terminal gets what is unsafe escaped.
pub fn data_output() -> Box<dyn Write> {
    match io::stdout().is_terminal() {
        true => Box::new(TerminalWriter { out: io::stdout(), rest: Vec::new() }),
        false => Box::new(io::stdout().lock()),
    }
}

/// Escapes text on its way to a terminal. Line ends and tabs stay.
struct TerminalWriter<W> {
    out: W,
    /// The beginning of a character whose other bytes have not arrived.
    rest: Vec<u8>,
}

impl<W: Write> Write for TerminalWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.rest);
        for chunk in held.utf8_chunks() {
            for line in chunk.valid().split_inclusive(['\n', '\t']) {
                let text = line.trim_end_matches(['\n', '\t']);
                write_escaped(&mut self.out, text)?;
                self.out.write_all(&line.as_bytes()[text.len()..])?;
            }
            let is_end = chunk.invalid().as_ptr_range().end == held.as_ptr_range().end;
            let is_begun = std::str::from_utf8(chunk.invalid())
                .is_err_and(|error| error.error_len().is_none());
            match is_end && is_begun {
                true => self.rest = chunk.invalid().to_vec(),
                false if chunk.invalid().is_empty() => {}
                false => self.out.write_all("\u{fffd}".as_bytes())?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'                        // soft hyphen
            | '\u{61c}'                     // text direction
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
    fn text_of_any_language_is_unchanged() {
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
    fn bidirectional_and_invisible_characters_are_escaped() {
        assert_snapshot!(
            printable("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{e0041}"),
            @r"a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{e0041}"
        );
    }

    #[test]
    fn joined_emoji_are_unchanged_and_a_joiner_elsewhere_is_escaped() {
        for emoji in [
            "👩\u{200d}💻",
            "👩🏽\u{200d}💻",
            "👨\u{200d}👩\u{200d}👧\u{200d}👦",
            "🏳\u{fe0f}\u{200d}🌈",
            "🏴\u{200d}☠\u{fe0f}",
            "🤷🏿\u{200d}♀\u{fe0f}",
            "🤷\u{200d}♀",
            "👩🏻\u{200d}❤\u{fe0f}\u{200d}💋\u{200d}👩🏿",
            "🧑\u{200d}🧑\u{200d}🧒",
        ] {
            let text = format!("a {emoji}{emoji} b");
            assert_eq!(printable(&text), text);
            assert_eq!(printable(&format!("{text}\u{202e}")), format!("{text}\\u{{202e}}"));
        }
        for text in [
            "a\u{200d}b",
            "\u{200d}",
            "\u{200d}👩",
            "👩\u{200d}",
            "👩\u{200d}\u{200d}💻",
            "👩\u{200d}x",
            "x\u{200d}👩",
            "👩\u{200b}\u{200d}💻",
            "1\u{fe0f}\u{200d}👩",
            "©\u{200d}®",
            "👩\u{fe0f}\u{fe0f}\u{200d}💻",
            "👩\u{301}\u{200d}💻",
            "👩\u{200d}👩\u{200d}👩\u{200d}👩\u{200d}👩",
            "क्\u{200d}ष",
        ] {
            let shown = printable(text);
            assert!(!shown.contains('\u{200d}') && shown.contains("\\u{200d}"), "{shown}");
        }
    }

    #[test]
    fn one_line_has_single_spaces() {
        assert_snapshot!(one_line("  a\r\n\tb \u{2028} c\u{1b}[1m "), @r"a b c\u{1b}[1m");
    }

    #[test]
    fn terminal_output_is_escaped_at_any_chunk_boundary() {
        let text = "é\u{1b}[2J\u{9b}\u{202e}\n\tok\r\u{7f}";
        let bytes = [text.as_bytes(), b"\xff", "é".as_bytes()].concat();
        for at in 0..bytes.len() {
            let mut writer = TerminalWriter { out: Vec::new(), rest: Vec::new() };
            writer.write_all(&bytes[..at]).unwrap();
            writer.write_all(&bytes[at..]).unwrap();
            let shown = String::from_utf8(writer.out).unwrap();
            assert_eq!(shown, "é\\u001b[2J\\u009b\\u202e\n\tok \\u007f\u{fffd}é", "{at}");
        }
    }

    #[test]
    fn escaped_json_has_the_same_meaning() {
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
