//! Draws tools: a line with the outcome, and below it the complete input and output, if requested.

use std::io::{self, Write};

use anstyle::Style;
use threadfold_core::{Block, BlockBody, BlockStatus, Json, ToolResultBlock, ToolUseBlock};

use crate::printable::one_line;

pub(super) use threadfold_export::excerpt::first_line;

use super::ansi::without_colors;
use super::block::{beginning, without_tags};
use super::call::Summary;
use super::content::{input_fields, output_text, plain};
use super::conversation::Results;
use super::numbers::duration;
use super::palette::{BAD, CODE, DIM, GOOD, ODD, TOOL};
use super::session::Drawing;
use super::text::{Span, cut, width_of};

/// How a call ended: a mark, and a short text.
pub(super) struct OutcomeLabel {
    pub(super) mark: &'static str,
    pub(super) style: Style,
    pub(super) words: String,
}

impl<W: Write> Drawing<'_, W> {
    /// Draws a tool call with its result.
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
            (Some(input), _) => Summary::of(input, self.metadata.cwd()),
            (None, Some(written)) => Summary::Words(one_line(beginning(written))),
            (None, None) => {
                let purpose = call.description.as_deref().unwrap_or_default();
                Summary::Words(one_line(beginning(purpose)))
            }
        };
        self.call_line(name, &summary, &self.ending(block, result, &summary))?;
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

    /// Draws a tool's result without its call.
    pub(super) fn lone_result(
        &mut self,
        block: &Block,
        result: &ToolResultBlock,
    ) -> io::Result<()> {
        let summary = Summary::Words("of a missing call".to_owned());
        let ending = self.ending(block, Some(result), &summary);
        self.call_line("result", &summary, &ending)?;
        match result.output.as_ref().filter(|_| self.shown.is_full) {
            Some(output) => self.output(output),
            None => Ok(()),
        }
    }

    /// Draws `● Name  description  ✓ result`, on one line.
    pub(super) fn call_line(
        &mut self,
        name: &str,
        summary: &Summary,
        ending: &OutcomeLabel,
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

    fn ending(
        &self,
        block: &Block,
        result: Option<&ToolResultBlock>,
        summary: &Summary,
    ) -> OutcomeLabel {
        let mut ending = ending(block, result, summary);
        if let Some(folder) = self.metadata.cwd().filter(|it| it.len() > 1) {
            ending.words = ending.words.replace(&format!("{folder}/"), "");
        }
        ending
    }

    fn input(&mut self, input: &Json) -> io::Result<()> {
        let Some(fields) = input_fields(input) else {
            return self.page.verbatim(&plain(input), CODE);
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
        self.page.output(text.trim_end(), DIM)?;
        self.page.dedent();
        Ok(())
    }
}

fn ending(block: &Block, result: Option<&ToolResultBlock>, summary: &Summary) -> OutcomeLabel {
    let output = result.and_then(|it| it.output.as_ref()).map(output_text).unwrap_or_default();
    let output = without_colors(&output);
    let took = result.and_then(|it| it.duration_ms).map(duration);
    match result {
        Some(result) if result.is_error => {
            let words = without_tags(beginning(&output));
            OutcomeLabel { mark: "✗", style: BAD, words }
        }
        Some(_) => {
            let words = joined([summary.success(&output), took.unwrap_or_default()]);
            OutcomeLabel { mark: "✓", style: GOOD, words }
        }
        None if block.interrupted => {
            OutcomeLabel { mark: "✗", style: ODD, words: "interrupted".to_owned() }
        }
        None => match block.status {
            BlockStatus::Complete => {
                OutcomeLabel { mark: "✓", style: GOOD, words: String::new() }
            }
            BlockStatus::Error => OutcomeLabel { mark: "✗", style: BAD, words: String::new() },
            _ => OutcomeLabel { mark: "…", style: ODD, words: "no result yet".to_owned() },
        },
    }
}

pub(super) fn joined(words: [String; 2]) -> String {
    words.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" · ")
}
