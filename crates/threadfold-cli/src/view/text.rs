//! Words with a style, and how they are laid into lines.

use anstyle::Style;
use textwrap::WordSeparator;
use textwrap::core::{break_words, display_width};
use textwrap::wrap_algorithms::wrap_first_fit;

use crate::printable::printable;

use super::palette::PLAIN;

const TAB: &str = "    ";

/// A piece of a line: harmless text with a style.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    text: String,
    style: Style,
}

impl Span {
    /// Returns `text` as a piece of one line, made harmless.
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
        display_width(&self.text)
    }
}

/// Returns how many columns some spans take.
pub(crate) fn width_of(spans: &[Span]) -> usize {
    spans.iter().map(Span::width).sum()
}

/// Lays spans into lines of at most `width` columns, broken between words where that can be.
pub(crate) fn wrap(spans: &[Span], width: usize) -> Vec<Vec<Span>> {
    let plain: String = spans.iter().map(Span::text).collect();
    let width = width.max(1);
    let words = WordSeparator::UnicodeBreakProperties.find_words(&plain);
    let words = break_words(words, width);
    let mut lines = Vec::new();
    let mut start = 0;
    for line in wrap_first_fit(&words, &[width as f64]) {
        let length: usize = line.iter().map(|word| word.word.len() + word.whitespace.len()).sum();
        let trailing = line.last().map_or(0, |word| word.whitespace.len());
        lines.push(slice(spans, start, start + length - trailing));
        start += length;
    }
    if lines.is_empty() {
        lines.push(Vec::new());
    }
    lines
}

/// Returns the part of spans between two places in their joined text.
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

/// Returns `text`, or as much of its beginning as fits into `width` columns with a mark that
/// there is more.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.len() <= width || display_width(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut taken = 0;
    for letter in text.chars() {
        let wide = letter_width(letter);
        if taken + wide + 1 > width {
            break;
        }
        out.push(letter);
        taken += wide;
    }
    if width > 0 {
        out.truncate(out.trim_end().len());
        out.push('…');
    }
    out
}

/// Returns `text`, or as much of its end as fits into `width` columns with a mark that there is
/// more.
pub(crate) fn cut_front(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let mut taken = 1;
    let fits = |letter: &char| {
        taken += letter_width(*letter);
        taken <= width
    };
    let end: Vec<char> = text.chars().rev().take_while(fits).collect();
    format!("…{}", end.into_iter().rev().collect::<String>())
}

fn letter_width(letter: char) -> usize {
    display_width(letter.encode_utf8(&mut [0; 4]))
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
    fn a_word_that_is_too_long_is_broken() {
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
    fn white_space_stays_but_where_a_line_breaks() {
        assert_snapshot!(shown(&wrap(&[Span::plain("\tlet x =  1;   // one")], 12)), @"
        |    let x =|
        |1;   // one|
        ");
    }

    #[test]
    fn nothing_is_one_empty_line() {
        assert_snapshot!(shown(&wrap(&[], 8)), @"||");
    }

    #[test]
    fn a_span_is_harmless() {
        assert_snapshot!(Span::plain("a\u{1b}[2J\nb\u{202e}").text(), @r"a\u{1b}[2J\nb\u{202e}");
    }

    #[test]
    fn what_fits_is_not_cut() {
        assert_eq!(
            [cut("abc", 3), cut("abcd", 3), cut("ab cd", 4), cut("abc", 0)],
            ["abc", "ab…", "ab…", ""]
        );
    }
}
