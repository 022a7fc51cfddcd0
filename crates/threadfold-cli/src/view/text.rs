//! Styled text, and how it is wrapped into lines.

use anstyle::Style;
use textwrap::WordSeparator;
use unicode_segmentation::UnicodeSegmentation;

use crate::printable::printable;

pub(crate) use threadfold_export::width::{columns, cut, cut_front};

use super::palette::PLAIN;

const TAB: &str = "    ";

/// A piece of a line: escaped text with a style.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    text: String,
    style: Style,
}

impl Span {
    /// Returns `text` as a piece of one line, escaped.
    pub(crate) fn new(text: &str, style: Style) -> Self {
        let text = printable(&text.replace('\t', TAB)).into_owned();
        Self { text, style }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, PLAIN)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    pub(crate) fn width(&self) -> usize {
        columns(&self.text)
    }
}

/// Returns the width of some spans in columns.
pub(crate) fn width_of(spans: &[Span]) -> usize {
    spans.iter().map(Span::width).sum()
}

/// Wraps spans into lines of at most `width` columns, at word boundaries where possible.
pub(crate) fn wrap(spans: &[Span], width: usize) -> Vec<Vec<Span>> {
    wrap_hanging(spans, width, 0)
}

/// Wraps spans as [`wrap`] does, but leaves room for an indent in all lines but the first.
pub(crate) fn wrap_hanging(spans: &[Span], width: usize, indent: usize) -> Vec<Vec<Span>> {
    let plain: String = spans.iter().map(Span::text).collect();
    let mut width = width.max(1);
    let below = width.saturating_sub(indent).max(1);
    let mut lines = Vec::new();
    // The current line: where it starts, where its last word ends, and its width with white space.
    let (mut start, mut end, mut taken) = (0, 0, 0);
    for piece in pieces(&plain, below) {
        if taken > 0 && taken + columns(&plain[piece.start..piece.end]) > width {
            lines.push(slice(spans, start, end));
            (start, taken, width) = (piece.start, 0, below);
        }
        taken += columns(&plain[piece.start..piece.next]);
        end = piece.end;
    }
    lines.push(slice(spans, start, end));
    lines
}

/// A part of a text that stays on one line, and the white space after it.
#[derive(Clone, Copy)]
struct TextPiece {
    start: usize,
    end: usize,
    /// Where the next part starts.
    next: usize,
}

/// Returns the parts of a text between which a line may break.
///
/// A path or an address stays whole if it fits on a line; otherwise it breaks at its separators,
/// and only then anywhere.
fn pieces(plain: &str, width: usize) -> Vec<TextPiece> {
    let mut out: Vec<TextPiece> = Vec::new();
    // The breaks within a word of ASCII, which are used only if it does not fit.
    let mut word: Vec<TextPiece> = Vec::new();
    let mut start = 0;
    // Spaces always separate: the Unicode rules keep some of them, as before a slash.
    let parts = WordSeparator::UnicodeBreakProperties.find_words(plain).flat_map(|part| {
        let whole = &plain[start..start + part.word.len() + part.whitespace.len()];
        start += whole.len();
        whole.split_inclusive(' ')
    });
    let mut start = 0;
    for part in parts {
        let end = start + part.trim_end_matches(' ').len();
        let piece = TextPiece { start, end, next: start + part.len() };
        start = piece.next;
        if let Some(last) = word.last_mut().filter(|_| piece.start == piece.end) {
            // More spaces after a word belong to it.
            last.next = piece.next;
            continue;
        }
        let is_inside = word.last().is_some_and(|last| {
            let around =
                [plain[..last.end].chars().next_back(), plain[piece.start..].chars().next()];
            last.end == last.next && around.iter().all(|it| it.is_some_and(|it| it.is_ascii()))
        });
        if !is_inside {
            push_word(&mut out, &word, plain, width);
            word.clear();
        }
        word.push(piece);
    }
    push_word(&mut out, &word, plain, width);
    out
}

fn push_word(out: &mut Vec<TextPiece>, word: &[TextPiece], plain: &str, width: usize) {
    let (Some(first), Some(last)) = (word.first(), word.last()) else { return };
    if columns(&plain[first.start..last.end]) <= width {
        return out.push(TextPiece { start: first.start, end: last.end, next: last.next });
    }
    for piece in word {
        if columns(&plain[piece.start..piece.end]) <= width {
            out.push(*piece);
            continue;
        }
        let (mut start, mut taken) = (piece.start, 0);
        for (at, letter) in plain[piece.start..piece.end].grapheme_indices(true) {
            let (at, wide) = (piece.start + at, columns(letter));
            if taken > 0 && taken + wide > width {
                out.push(TextPiece { start, end: at, next: at });
                (start, taken) = (at, 0);
            }
            taken += wide;
        }
        out.push(TextPiece { start, ..*piece });
    }
}

/// Returns the part of spans between two offsets in their joined text.
fn slice(spans: &[Span], start: usize, end: usize) -> Vec<Span> {
    let mut out = Vec::new();
    let mut before = 0;
    for span in spans {
        let from = start.clamp(before, before + span.text.len()) - before;
        let to = end.clamp(before, before + span.text.len()) - before;
        if from < to {
            out.push(Span { text: span.text[from..to].to_owned(), style: span.style });
        }
        before += span.text.len();
    }
    out
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::palette::BOLD;
    use super::*;

    fn shown(lines: &[Vec<Span>]) -> String {
        let line = |spans: &Vec<Span>| {
            let pieces = spans.iter().map(|it| match it.style == BOLD {
                true => format!("*{}*", it.text),
                false => it.text.clone(),
            });
            format!("|{}|", pieces.collect::<String>())
        };
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn styles_stay_on_their_words() {
        let spans = [Span::plain("one "), Span::new("two three", BOLD), Span::plain(" four")];
        assert_snapshot!(shown(&wrap(&spans, 10)), @"
        |one *two*|
        |*three* four|
        ");
    }

    #[test]
    fn a_word_that_is_too_long_is_wrapped() {
        assert_snapshot!(shown(&wrap(&[Span::plain("see abcdefghijkl")], 5)), @"
        |see|
        |abcde|
        |fghij|
        |kl|
        ");
    }

    #[test]
    fn wide_letters_take_two_columns() {
        assert_snapshot!(shown(&wrap(&[Span::plain("日本語のテキスト")], 6)), @"
        |日本語|
        |のテキ|
        |スト|
        ");
        assert_snapshot!(cut("日本語のテキスト", 6), @"日本…");
    }

    #[test]
    fn white_space_is_preserved_except_at_line_breaks() {
        assert_snapshot!(shown(&wrap(&[Span::plain("\tlet x =  1;   // one")], 12)), @"
        |    let x =|
        |1;   // one|
        ");
    }

    #[test]
    fn an_emoji_with_a_variation_selector_takes_two_columns() {
        assert_eq!(["♻", "♻\u{fe0f}", "1\u{fe0f}\u{20e3}", "👋🏽"].map(columns), [1, 2, 2, 2]);
        assert_snapshot!(shown(&wrap(&[Span::plain("♻\u{fe0f} ♻\u{fe0f} ♻\u{fe0f}")], 5)), @"
        |♻️ ♻️|
        |♻️|
        ");
        assert_snapshot!(cut("♻\u{fe0f}♻\u{fe0f}♻\u{fe0f}", 5), @"♻️♻️…");
        assert_snapshot!(cut_front("♻\u{fe0f}♻\u{fe0f}♻\u{fe0f}", 4), @"…♻️");
    }

    #[test]
    fn joined_emoji_take_two_columns_and_stay_whole() {
        let (family, coder) = ("👨\u{200d}👩\u{200d}👧", "👩🏽\u{200d}💻");
        assert_eq!([family, coder].map(|it| Span::plain(it).width()), [2, 2]);
        let lines = wrap(&[Span::plain(&format!("{family}{coder}{family}"))], 4);
        assert_eq!(shown(&lines), format!("|{family}{coder}|\n|{family}|"));
        assert_eq!(cut(&coder.repeat(3), 5), format!("{coder}{coder}…"));
        assert_eq!(cut_front(&coder.repeat(3), 4), format!("…{coder}"));
    }

    #[test]
    fn a_path_is_broken_only_if_it_is_longer_than_a_line() {
        assert_snapshot!(shown(&wrap(&[Span::plain("see the file src/view/text.rs")], 18)), @"
        |see the file|
        |src/view/text.rs|
        ");
        assert_snapshot!(shown(&wrap(&[Span::plain("see src/view/text.rs")], 10)), @"
        |see src/|
        |view/|
        |text.rs|
        ");
    }

    #[test]
    fn nothing_is_one_empty_line() {
        assert_snapshot!(shown(&wrap(&[], 8)), @"||");
    }

    #[test]
    fn a_span_escapes_control_characters() {
        assert_snapshot!(Span::plain("a\u{1b}[2J\nb\u{202e}").text(), @r"a\u{1b}[2J\nb\u{202e}");
    }

    #[test]
    fn text_that_fits_is_not_truncated() {
        assert_eq!(
            [cut("abc", 3), cut("abcd", 3), cut("ab cd", 4), cut("abc", 0)],
            ["abc", "ab…", "ab…", ""]
        );
    }
}
