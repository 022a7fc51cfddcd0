//! A page of lines with gutters at their left, written as they are drawn.

use std::io::{self, Write};

use anstyle::Style;

use super::ansi::colored_lines;
use super::palette::{PLAIN, both};
use super::text::{Span, width_of, wrap_hanging};

/// The maximum width of prose, for readability.
const PROSE_WIDTH: usize = 100;
/// The minimum width for text, whatever the gutters take.
const LEAST_WIDTH: usize = 16;
/// The maximum number of gutters that are drawn.
const GUTTERS: usize = 24;
/// The maximum share of the width that a hanging indent takes.
const HANGING_SHARE: usize = 3;

/// A page of text, written line by line.
pub(crate) struct Page<W> {
    out: W,
    width: usize,
    is_coloured: bool,
    gutters: Vec<Gutter>,
    /// The style applied to everything written.
    base: Style,
    is_begun: bool,
    has_gap: bool,
    /// Suppresses the next empty line: there is one already, or the next line belongs to the last.
    is_tight: bool,
    /// How many lines were written.
    lines: usize,
}

/// The prefix at the left of lines.
struct Gutter {
    /// The prefix of the first line, until that is written.
    first: Option<Span>,
    rest: Span,
}

impl<W: Write> Page<W> {
    pub(crate) fn new(out: W, width: usize, is_coloured: bool) -> Self {
        Self {
            out,
            width,
            is_coloured,
            gutters: Vec::new(),
            base: PLAIN,
            is_begun: false,
            has_gap: false,
            is_tight: false,
            lines: 0,
        }
    }

    /// Returns how many lines are on the page.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Erases the last lines on a terminal.
    pub(crate) fn erase(&mut self, lines: usize) -> io::Result<()> {
        self.lines = self.lines.saturating_sub(lines);
        (self.is_begun, self.has_gap, self.is_tight) = (self.lines > 0, false, false);
        match lines {
            0 => Ok(()),
            lines => write!(self.out, "\x1b[{lines}A\r\x1b[J"),
        }
    }

    /// Returns how many columns are available for text.
    pub(crate) fn width(&self) -> usize {
        let taken: usize = self.drawn().map(|gutter| gutter.rest.width()).sum();
        self.width.saturating_sub(taken).max(LEAST_WIDTH)
    }

    /// Requests an empty line before the next one.
    pub(crate) fn gap(&mut self) {
        self.has_gap = self.is_begun && !self.is_tight;
    }

    /// Suppresses an empty line before the next one.
    pub(crate) fn tight(&mut self) {
        self.has_gap = false;
        self.is_tight = true;
    }

    /// Adds a gutter; its first line may differ.
    pub(crate) fn indent(&mut self, first: Option<Span>, rest: Span) -> io::Result<()> {
        self.close_gap()?;
        self.gutters.push(Gutter { first, rest });
        Ok(())
    }

    /// Removes the last gutter.
    pub(crate) fn dedent(&mut self) {
        self.gutters.pop();
    }

    /// Sets the base style.
    pub(crate) fn set_base(&mut self, base: Style) {
        self.base = base;
    }

    /// Returns the base style.
    pub(crate) fn base(&self) -> Style {
        self.base
    }

    /// Writes spans that fit, as one line.
    pub(crate) fn line(&mut self, spans: &[Span]) -> io::Result<()> {
        self.close_gap()?;
        self.is_begun = true;
        self.is_tight = false;
        let drawn = self.drawn().count();
        let mut left = Vec::new();
        for gutter in self.gutters.iter_mut().take(drawn) {
            left.push(gutter.first.take().unwrap_or_else(|| gutter.rest.clone()));
        }
        self.write(left.iter().chain(spans))
    }

    /// Writes wrapped prose.
    pub(crate) fn prose(&mut self, spans: &[Span]) -> io::Result<()> {
        self.wrapped(spans, self.width().min(PROSE_WIDTH), 0)
    }

    /// Writes text with its line breaks; lines that are too long continue below.
    pub(crate) fn verbatim(&mut self, text: &str, style: Style) -> io::Result<()> {
        for line in text.lines() {
            self.wide(&[Span::new(line, style)])?;
        }
        Ok(())
    }

    /// Writes a program's output: with its line breaks and its colours.
    pub(crate) fn output(&mut self, text: &str, style: Style) -> io::Result<()> {
        colored_lines(text, style).iter().try_for_each(|line| self.wide(line))
    }

    /// Writes text wrapped at the width of the page.
    pub(crate) fn wide(&mut self, spans: &[Span]) -> io::Result<()> {
        self.wrapped(spans, self.width(), 0)
    }

    /// Writes text wrapped at the width of the page, with all lines but the first indented.
    pub(crate) fn hanging(&mut self, spans: &[Span], indent: usize) -> io::Result<()> {
        self.wrapped(spans, self.width(), indent)
    }

    /// Writes a user's text: with its line breaks, wrapped as prose. Items of lists and indented
    /// lines continue below their text.
    pub(crate) fn plain_text(&mut self, text: &str, style: Style) -> io::Result<()> {
        let width = self.width().min(PROSE_WIDTH);
        text.trim_end()
            .lines()
            .try_for_each(|line| self.wrapped(&[Span::new(line, style)], width, opening(line)))
    }

    /// Writes text wrapped at a width, with all lines but the first indented.
    fn wrapped(&mut self, spans: &[Span], width: usize, indent: usize) -> io::Result<()> {
        if width_of(spans) <= width {
            return self.line(spans);
        }
        let indent = indent.min(width / HANGING_SHARE);
        let mut lines = wrap_hanging(spans, width, indent).into_iter();
        self.line(&lines.next().unwrap_or_default())?;
        for line in lines {
            let room = Span::plain(&" ".repeat(indent));
            self.line(&[room].into_iter().chain(line).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Writes a rule across the page.
    pub(crate) fn rule(&mut self, style: Style) -> io::Result<()> {
        let width = self.width().min(PROSE_WIDTH);
        self.line(&[Span::new(&"─".repeat(width), style)])
    }

    /// Writes already drawn output unchanged.
    pub(crate) fn raw(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns the gutters that leave enough width for text.
    fn drawn(&self) -> impl Iterator<Item = &Gutter> {
        let room = self.width.saturating_sub(LEAST_WIDTH);
        let mut taken = 0;
        self.gutters.iter().take(GUTTERS).take_while(move |gutter| {
            taken += gutter.rest.width();
            taken <= room
        })
    }

    fn close_gap(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.has_gap) {
            return Ok(());
        }
        // A gutter whose first line is not written yet does not count.
        self.is_tight = true;
        let begun = self.drawn().take_while(|gutter| gutter.first.is_none());
        let left: Vec<Span> = begun.map(|gutter| gutter.rest.clone()).collect();
        self.write(left.iter())
    }

    fn write<'s>(&mut self, spans: impl Iterator<Item = &'s Span>) -> io::Result<()> {
        let spans: Vec<&Span> = spans.collect();
        let last = spans.iter().rposition(|span| !span.text().trim_end().is_empty());
        let count = last.map_or(0, |last| last + 1);
        for (place, span) in spans[..count].iter().enumerate() {
            let is_last = place + 1 == count;
            let text = if is_last { span.text().trim_end() } else { span.text() };
            let style = both(self.base, span.style());
            if self.is_coloured && style != PLAIN && !text.trim().is_empty() {
                write!(self.out, "{}{text}{}", style.render(), style.render_reset())?;
            } else {
                self.out.write_all(text.as_bytes())?;
            }
        }
        self.lines += 1;
        self.out.write_all(b"\n")
    }
}

/// Returns the width of a line's indentation and list marker.
fn opening(line: &str) -> usize {
    let rest = line.trim_start_matches(' ');
    let indent = line.len() - rest.len();
    let digits = rest.len() - rest.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let marker = match rest.as_bytes() {
        [b'-' | b'*' | b'+' | b'>', b' ', ..] => 2,
        _ if (1..=3).contains(&digits) && rest[digits..].starts_with(['.', ')']) => digits + 2,
        _ if rest.starts_with("• ") => 2,
        _ => 0,
    };
    indent + marker
}
