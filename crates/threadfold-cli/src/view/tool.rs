//! Tools: a line with the outcome, and below it all that was given, if that is asked for.

use std::io::{self, Write};

use anstyle::Style;
use threadfold_core::{Block, BlockBody, BlockStatus, Json, ToolResultBlock, ToolUseBlock};

use crate::printable::one_line;

use super::block::{beginning, without_tags};
use super::content::{input_fields, output_text};
use super::conversation::Results;
use super::palette::{BAD, CODE, DIM, GOOD, ODD, TOOL};
use super::session::Drawing;
use super::text::{Span, cut, cut_front, width_of};
use super::words::{count, duration};

/// The arguments that tell best what a call does, the best first.
const TELLING: [&str; 13] = [
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "path",
    "query",
    "url",
    "skill",
    "subject",
    "description",
    "prompt",
    "name",
    "id",
];

/// What a call does, on one line.
pub(super) enum Summary {
    Words(String),
    Path(String),
}

/// How a call ended: a mark, and a few words.
pub(super) struct Ending {
    pub(super) mark: &'static str,
    pub(super) style: Style,
    pub(super) words: String,
}

impl<W: Write> Drawing<'_, W> {
    /// Draws a tool call with what it gave.
    pub(super) fn tool(
        &mut self,
        block: &Block,
        call: &ToolUseBlock,
        results: &Results,
    ) -> io::Result<()> {
        let result = results.get(&call.tool_use_id).and_then(|block| match &block.body {
            BlockBody::ToolResult(result) => Some(result),
            _ => None,
        });
        let name = call.display_name.as_deref().unwrap_or(&call.tool_name);
        let written = call.input_text.as_ref().map(|text| text.to_str().into_owned());
        let summary = match (&call.input, &written) {
            (Some(input), _) => summary(input),
            (None, Some(written)) => Summary::Words(one_line(beginning(written))),
            (None, None) => Summary::Words(String::new()),
        };
        self.call_line(name, &summary, &ending(block, result))?;
        if !self.shown.is_full {
            return Ok(());
        }
        self.page.indent(None, Span::plain("    "))?;
        match &call.input {
            Some(input) => self.input(input)?,
            None => self.page.verbatim(written.as_deref().unwrap_or(""), CODE)?,
        }
        self.page.dedent();
        match result.and_then(|result| result.output.as_ref()) {
            Some(output) => self.output(output),
            None => Ok(()),
        }
    }

    /// Draws what a tool gave to a call that is not here.
    pub(super) fn lone_result(
        &mut self,
        block: &Block,
        result: &ToolResultBlock,
    ) -> io::Result<()> {
        let summary = Summary::Words("of a call that is not here".to_owned());
        self.call_line("result", &summary, &ending(block, Some(result)))?;
        match result.output.as_ref().filter(|_| self.shown.is_full) {
            Some(output) => self.output(output),
            None => Ok(()),
        }
    }

    /// Draws `● Name  what it does  ✓ what came of it`, on one line.
    pub(super) fn call_line(
        &mut self,
        name: &str,
        summary: &Summary,
        ending: &Ending,
    ) -> io::Result<()> {
        let width = self.page.width();
        let name = cut(&one_line(name), (width / 3).max(12));
        let head = [Span::new("● ", ending.style), Span::new(&name, TOOL)];
        let mark = Span::new(&format!("  {}", ending.mark), ending.style);
        let room = width.saturating_sub(width_of(&head) + mark.width() + 3);
        let words = one_line(&ending.words);
        let wanted = Span::plain(&words).width();
        let summary = summary.cut(room.saturating_sub(wanted).max(room * 3 / 5));
        let summary =
            Span::plain(&if summary.is_empty() { summary } else { format!("  {summary}") });
        let left = (room + 2).saturating_sub(summary.width());
        let words = if left > 6 { cut(&words, left) } else { String::new() };
        let words_style = if ending.style == BAD { BAD } else { DIM };
        let words =
            Span::new(&if words.is_empty() { words } else { format!(" {words}") }, words_style);
        let [bullet, name] = head;
        self.page.line(&[bullet, name, summary, mark, words])
    }

    fn input(&mut self, input: &Json) -> io::Result<()> {
        let Some(fields) = input_fields(input) else {
            return self.page.verbatim(&input.to_string(), CODE);
        };
        for (name, value) in fields {
            if value.contains('\n') {
                self.page.line(&[Span::new(&format!("{name}:"), DIM)])?;
                self.page.indent(None, Span::plain("  "))?;
                self.page.verbatim(value.trim_end(), CODE)?;
                self.page.dedent();
            } else {
                self.page.wide(&[Span::new(&format!("{name}: "), DIM), Span::new(&value, CODE)])?;
            }
        }
        Ok(())
    }

    fn output(&mut self, output: &Json) -> io::Result<()> {
        let text = output_text(output);
        if text.trim().is_empty() {
            return Ok(());
        }
        self.page.indent(Some(Span::new("  ⎿ ", DIM)), Span::plain("    "))?;
        self.page.verbatim(text.trim_end(), DIM)?;
        self.page.dedent();
        Ok(())
    }
}

/// Returns on one line what a call does.
pub(crate) fn call_summary(input: &Json) -> String {
    match summary(input) {
        Summary::Words(text) | Summary::Path(text) => text,
    }
}

/// Returns the argument that tells most; all of them, where none is known to.
fn summary(input: &Json) -> Summary {
    let Some(fields) = input_fields(input) else {
        return Summary::Words(one_line(beginning(input.as_str())));
    };
    let telling = TELLING.iter().find_map(|name| fields.iter().find(|(key, _)| key == name));
    match telling {
        Some((name, value)) if name.ends_with("path") => Summary::Path(one_line(value)),
        Some((_, value)) => Summary::Words(one_line(beginning(value))),
        None => {
            let pairs = fields.iter().map(|(name, value)| format!("{name}: {}", beginning(value)));
            Summary::Words(one_line(beginning(&pairs.collect::<Vec<_>>().join(", "))))
        }
    }
}

impl Summary {
    /// Returns as much as there is room for: of a path its end, of words their beginning.
    fn cut(&self, width: usize) -> String {
        match self {
            Self::Words(words) => cut(words, width),
            Self::Path(path) => cut_front(path, width),
        }
    }
}

fn ending(block: &Block, result: Option<&ToolResultBlock>) -> Ending {
    let output = result.and_then(|it| it.output.as_ref()).map(output_text).unwrap_or_default();
    let took = result.and_then(|it| it.duration_ms).map(duration);
    match result {
        Some(result) if result.is_error => {
            let words = without_tags(beginning(&output));
            Ending { mark: "✗", style: BAD, words }
        }
        Some(_) => {
            let words = joined([first_line(&output), took.unwrap_or_default()]);
            Ending { mark: "✓", style: GOOD, words }
        }
        None if block.interrupted => {
            Ending { mark: "✗", style: ODD, words: "interrupted".to_owned() }
        }
        None => match block.status {
            BlockStatus::Complete => Ending { mark: "✓", style: GOOD, words: String::new() },
            BlockStatus::Error => Ending { mark: "✗", style: BAD, words: String::new() },
            _ => Ending { mark: "…", style: ODD, words: "no result yet".to_owned() },
        },
    }
}

pub(super) fn joined(words: [String; 2]) -> String {
    words.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// Returns the first line that says something, and how many more there are.
pub(super) fn first_line(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().map(|line| one_line(beginning(line))).unwrap_or_default();
    match lines.count() {
        0 => first,
        more => format!("{first} (+{})", count(more, "line", "lines")),
    }
}
