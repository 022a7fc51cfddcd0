//! Draws Markdown, readable without colours.
//!
//! Line ends are preserved, as in chat programs; a link shows its target. Tables are laid out by
//! `table.rs`.

use std::io::{self, Write};

use anstyle::Style;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::page::Page;
use super::palette::{BOLD, CODE, DIM, ITALIC, LINK, PLAIN, STRUCK, both};
use super::table::{Align, Column, draw_table};
use super::text::Span;

/// Draws markdown on the page.
pub(crate) fn draw_markdown<W: Write>(page: &mut Page<W>, text: &str) -> io::Result<()> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut markdown = Markdown {
        page,
        spans: Vec::new(),
        styles: vec![PLAIN],
        lists: Vec::new(),
        links: Vec::new(),
        code: None,
        table: None,
    };
    for event in Parser::new_ext(text, options) {
        markdown.draw(event)?;
    }
    markdown.flush()
}

/// The state of drawing Markdown.
struct Markdown<'p, W> {
    page: &'p mut Page<W>,
    /// The spans of the current paragraph.
    spans: Vec<Span>,
    styles: Vec<Style>,
    /// The next item number of each open list, if it is ordered.
    lists: Vec<Option<u64>>,
    links: Vec<Link>,
    code: Option<String>,
    table: Option<Table>,
}

/// A link or an image, and its text.
struct Link {
    url: String,
    words: String,
}

/// A table that is being read.
#[derive(Default)]
struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<Vec<Span>>>,
}

impl<W: Write> Markdown<'_, W> {
    fn draw(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Start(tag) => return self.start(tag),
            Event::End(tag) => return self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Code(text) => {
                let style = both(self.style(), CODE);
                self.word(&format!("`{text}`"), style);
            }
            Event::Html(text) => {
                self.text(text.trim_end_matches('\n'));
                return self.flush();
            }
            Event::InlineHtml(text) => self.text(&text),
            Event::SoftBreak | Event::HardBreak if self.table.is_some() => self.text(" "),
            Event::SoftBreak | Event::HardBreak => return self.flush(),
            Event::Rule => {
                self.page.gap();
                self.page.rule(DIM)?;
                self.page.gap();
            }
            Event::TaskListMarker(is_done) => self.text(if is_done { "[x] " } else { "[ ] " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text);
            }
        }
        Ok(())
    }

    fn start(&mut self, tag: Tag<'_>) -> io::Result<()> {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.page.gap(),
            Tag::Heading { level, .. } => {
                self.page.gap();
                self.styles.push(BOLD);
                self.text(marks(level));
            }
            Tag::BlockQuote(_) => {
                self.page.gap();
                self.page.indent(None, Span::new("▏ ", DIM))?;
            }
            Tag::CodeBlock(_) => {
                self.flush()?;
                self.page.gap();
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                self.flush()?;
                if self.lists.is_empty() {
                    self.page.gap();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                let room = " ".repeat(mark.chars().count());
                self.page.indent(Some(Span::plain(&mark)), Span::plain(&room))?;
            }
            Tag::Emphasis => self.begin(ITALIC),
            Tag::Strong => self.begin(BOLD),
            Tag::Strikethrough => self.begin(STRUCK),
            Tag::Link { dest_url, .. } => {
                self.links.push(Link { url: dest_url.into_string(), words: String::new() });
                self.begin(LINK);
            }
            Tag::Image { dest_url, .. } => {
                self.links.push(Link { url: dest_url.into_string(), words: String::new() });
                self.text("[image: ");
                self.begin(PLAIN);
            }
            Tag::Table(aligns) => {
                let align = |it: &pulldown_cmark::Alignment| match it {
                    pulldown_cmark::Alignment::Right => Align::Right,
                    _ => Align::Left,
                };
                self.page.gap();
                self.table =
                    Some(Table { aligns: aligns.iter().map(align).collect(), rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, tag: TagEnd) -> io::Result<()> {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush()?;
                self.page.gap();
            }
            TagEnd::Heading(_) => {
                self.flush()?;
                self.styles.pop();
                self.page.gap();
            }
            TagEnd::BlockQuote(_) => {
                self.flush()?;
                self.page.dedent();
                self.page.gap();
            }
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                self.page.indent(None, Span::plain("    "))?;
                self.page.verbatim(code.trim_end(), CODE)?;
                self.page.dedent();
                self.page.gap();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                if self.lists.is_empty() {
                    self.page.gap();
                }
            }
            TagEnd::Item => {
                self.flush()?;
                self.page.dedent();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link => {
                self.styles.pop();
                self.end_link("");
            }
            TagEnd::Image => {
                self.styles.pop();
                self.end_link("]");
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    table.draw(self.page)?;
                    self.page.gap();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, style: Style) {
        let style = both(self.style(), style);
        self.styles.push(style);
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(PLAIN)
    }

    fn text(&mut self, text: &str) {
        let style = self.style();
        self.word(text, style);
    }

    fn word(&mut self, text: &str, style: Style) {
        if let Some(link) = self.links.last_mut() {
            link.words.push_str(text);
        }
        self.spans.push(Span::new(text, style));
    }

    /// Draws a link's target, unless it is the link's text.
    fn end_link(&mut self, closing: &str) {
        let Some(link) = self.links.pop() else { return };
        let is_told = link.url.is_empty()
            || link.words == link.url
            || link.url.strip_prefix("mailto:") == Some(&link.words);
        let place = if is_told { String::new() } else { format!(" ({})", link.url) };
        let style = self.style();
        self.spans.push(Span::new(&format!("{closing}{place}"), style));
    }

    /// Writes the current paragraph.
    fn flush(&mut self) -> io::Result<()> {
        let spans = std::mem::take(&mut self.spans);
        if spans.is_empty() { Ok(()) } else { self.page.prose(&spans) }
    }
}

impl Table {
    fn draw<W: Write>(self, page: &mut Page<W>) -> io::Result<()> {
        let mut rows = self.rows.into_iter();
        let titles = rows.next().unwrap_or_default();
        let title = |spans: Vec<Span>| {
            let text: String = spans.iter().map(Span::text).collect();
            Span::plain(&text)
        };
        let columns: Vec<Column> = titles
            .into_iter()
            .zip(self.aligns)
            .map(|(words, align)| Column { title: title(words), align })
            .collect();
        draw_table(page, &columns, &rows.collect::<Vec<_>>())
    }
}

fn marks(level: HeadingLevel) -> &'static str {
    match level {
        HeadingLevel::H1 => "# ",
        HeadingLevel::H2 => "## ",
        HeadingLevel::H3 => "### ",
        HeadingLevel::H4 => "#### ",
        HeadingLevel::H5 => "##### ",
        HeadingLevel::H6 => "###### ",
    }
}

#[cfg(test)]
mod tests;
