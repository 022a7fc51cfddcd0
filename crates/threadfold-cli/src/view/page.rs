//! What is drawn on: lines with gutters at their left, written as they come.

use std::io::{self, Write};

use anstyle::Style;

use super::palette::{PLAIN, both};
use super::text::{Span, width_of, wrap};

/// Prose is hard to read in lines that are longer.
const PROSE_WIDTH: usize = 100;
/// Whatever stands at the left, this much is left for text.
const LEAST_WIDTH: usize = 16;
/// Gutters beyond these are not drawn.
const GUTTERS: usize = 24;

/// A page of text that grows at its end.
pub(crate) struct Page<W> {
    out: W,
    width: usize,
    is_coloured: bool,
    gutters: Vec<Gutter>,
    /// What all that is written takes on.
    base: Style,
    is_begun: bool,
    has_gap: bool,
    /// No empty line may come next: there is one, or what comes belongs to what is there.
    is_tight: bool,
}

/// What stands at the left of lines.
struct Gutter {
    /// On the first of them, until it is written.
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
        }
    }

    /// Returns how many columns are left for text.
    pub(crate) fn width(&self) -> usize {
        let taken: usize = self.drawn().map(|gutter| gutter.rest.width()).sum();
        self.width.saturating_sub(taken).max(LEAST_WIDTH)
    }

    /// Asks for an empty line before the next one.
    pub(crate) fn gap(&mut self) {
        self.has_gap = self.is_begun && !self.is_tight;
    }

    /// Sees to it that the next line follows at once.
    pub(crate) fn tight(&mut self) {
        self.has_gap = false;
        self.is_tight = true;
    }

    /// Begins a gutter; its first line may have another.
    pub(crate) fn indent(&mut self, first: Option<Span>, rest: Span) -> io::Result<()> {
        self.close_gap()?;
        self.gutters.push(Gutter { first, rest });
        Ok(())
    }

    /// Ends the latest gutter.
    pub(crate) fn dedent(&mut self) {
        self.gutters.pop();
    }

    /// Sets the style that all takes on from now.
    pub(crate) fn set_base(&mut self, base: Style) {
        self.base = base;
    }

    /// Returns the style that all takes on now.
    pub(crate) fn base(&self) -> Style {
        self.base
    }

    /// Writes spans that are known to fit, as one line.
    pub(crate) fn line(&mut self, spans: &[Span]) -> io::Result<()> {
        self.close_gap()?;
        self.is_begun = true;
        self.is_tight = false;
        let mut left = Vec::new();
        for gutter in self.gutters.iter_mut().take(GUTTERS) {
            left.push(gutter.first.take().unwrap_or_else(|| gutter.rest.clone()));
        }
        self.write(left.iter().chain(spans))
    }

    /// Writes prose, in as many lines as it takes.
    pub(crate) fn prose(&mut self, spans: &[Span]) -> io::Result<()> {
        let width = self.width().min(PROSE_WIDTH);
        if width_of(spans) <= width {
            return self.line(spans);
        }
        wrap(spans, width).iter().try_for_each(|line| self.line(line))
    }

    /// Writes text as it stands, line by line; lines that are too long go on below.
    pub(crate) fn verbatim(&mut self, text: &str, style: Style) -> io::Result<()> {
        for line in text.lines() {
            self.wide(&[Span::new(line, style)])?;
        }
        Ok(())
    }

    /// Writes what may be as wide as the page, in as many lines as it takes.
    pub(crate) fn wide(&mut self, spans: &[Span]) -> io::Result<()> {
        let width = self.width();
        wrap(spans, width).iter().try_for_each(|line| self.line(line))
    }

    /// Writes what a person wrote: lines as they stand, wrapped as prose.
    pub(crate) fn plain_text(&mut self, text: &str, style: Style) -> io::Result<()> {
        text.trim_end().lines().try_for_each(|line| self.prose(&[Span::new(line, style)]))
    }

    /// Writes a rule across the page.
    pub(crate) fn rule(&mut self, style: Style) -> io::Result<()> {
        let width = self.width().min(PROSE_WIDTH);
        self.line(&[Span::new(&"─".repeat(width), style)])
    }

    /// Writes what was drawn elsewhere, as it is.
    pub(crate) fn raw(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Hands on all that was written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn drawn(&self) -> impl Iterator<Item = &Gutter> {
        self.gutters.iter().take(GUTTERS)
    }

    fn close_gap(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.has_gap) {
            return Ok(());
        }
        // A gutter whose first line is still to come has not begun.
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
        self.out.write_all(b"\n")
    }
}
