//! Text from elsewhere, made harmless for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

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
}
