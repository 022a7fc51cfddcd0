//! Draws one block, by its type. Tools and subagents have their own files.

use std::io::{self, Write};

use threadfold_core::{
    Block, BlockBody, BlockStatus, ErrorBlock, Json, PermissionBlock, ThinkingBlock, UnknownBlock,
};

use crate::printable::one_line;

use super::ansi::without_colors;
pub(super) use threadfold_export::excerpt::{beginning, without_tags};

use super::content::{content_text, object, output_text, plain};
use super::conversation::Results;
use super::markdown::draw_markdown;
use super::palette::{BAD, DIM, GOOD, ITALIC, ODD, PLAIN, TOOL, both};
use super::session::Drawing;
use super::text::{Span, cut};

impl<W: Write> Drawing<'_, W> {
    /// Draws one block.
    pub(super) fn block(
        &mut self,
        block: &Block,
        results: &Results,
        depth: usize,
    ) -> io::Result<()> {
        match &block.body {
            BlockBody::UserMessage(said) => {
                self.page.plain_text(&content_text(&said.content), PLAIN)?;
            }
            BlockBody::AssistantText(said) => draw_markdown(self.page, &said.content.to_str())?,
            BlockBody::Thinking(thought) => self.thinking(thought)?,
            BlockBody::ToolUse(call) => return self.tool(block, call, results),
            BlockBody::ToolResult(result) => return self.lone_result(block, result),
            BlockBody::Subagent(call) => return self.subagent(block, call, depth),
            BlockBody::Permission(asked) => return self.permission(block, asked),
            BlockBody::System(notice) => self.notice(block, notice)?,
            BlockBody::SkillLoad(skill) => {
                self.page.line(&[
                    Span::new("● ", GOOD),
                    Span::new("Skill", TOOL),
                    Span::plain(&format!("  {}", skill.skill_name)),
                ])?;
                if let Some(text) = skill.content.as_ref().filter(|_| self.shown.is_full) {
                    self.below(&text.to_str())?;
                }
            }
            BlockBody::Error(error) => self.error(error)?,
            BlockBody::Unknown(unknown) => self.unknown(unknown)?,
            other => {
                let told = format!("? unknown block: {}", other.kind());
                self.page.wide(&[Span::new(&told, ODD)])?;
            }
        }
        if block.interrupted {
            self.page.wide(&[Span::new("⚠ interrupted", ODD)])?;
        }
        Ok(())
    }

    fn thinking(&mut self, thought: &ThinkingBlock) -> io::Result<()> {
        let text = thought.content.to_str();
        let is_hidden = thought.redacted || text.trim().is_empty();
        if is_hidden {
            return self.page.wide(&[Span::new("✻ thinking, hidden by the provider", DIM)]);
        }
        if !self.shown.has_thinking {
            return self.one_line("✻ thinking: ", &text);
        }
        self.page.wide(&[Span::new("✻ thinking", DIM)])?;
        self.page.indent(None, Span::plain("  "))?;
        self.page.plain_text(&text, both(DIM, ITALIC))?;
        self.page.dedent();
        Ok(())
    }

    fn error(&mut self, error: &ErrorBlock) -> io::Result<()> {
        self.page.indent(Some(Span::new("✗ ", BAD)), Span::plain("  "))?;
        let text = error.message.to_str();
        let text = if text.trim().is_empty() { "an error without a message" } else { &text };
        self.page.plain_text(&without_colors(text), BAD)?;
        self.page.dedent();
        Ok(())
    }

    fn permission(&mut self, block: &Block, asked: &PermissionBlock) -> io::Result<()> {
        let question = asked.question.as_ref().map(plain).unwrap_or_default();
        let question =
            if question.is_empty() { "permission?".to_owned() } else { one_line(&question) };
        let (answer, style) = match &asked.answer {
            Some(answer) => (one_line(&plain(answer)), GOOD),
            None if block.status.is_open() => ("waits for an answer".to_owned(), ODD),
            None if block.status == BlockStatus::Error || block.interrupted => {
                ("not answered".to_owned(), ODD)
            }
            None => ("answered".to_owned(), DIM),
        };
        self.page.prose(&[
            Span::new("? ", ODD),
            Span::plain(&question),
            Span::new(&format!(" → {answer}"), style),
        ])
    }

    fn unknown(&mut self, unknown: &UnknownBlock) -> io::Result<()> {
        let fields = object(&unknown.record);
        let named = |name| fields.as_ref().and_then(|it| it.get(name)).and_then(Json::to_text);
        let kind = match (named("type"), named("subtype")) {
            (Some(kind), Some(subtype)) => format!("{kind}/{subtype}"),
            (Some(kind), None) => kind,
            _ if fields.is_some() => "without a type".to_owned(),
            _ => "not readable".to_owned(),
        };
        self.page
            .wide(&[Span::new(&format!("? unknown record: {}", cut(&one_line(&kind), 60)), ODD)])?;
        if self.shown.is_full {
            return self.below(&output_text(&unknown.record));
        }
        Ok(())
    }

    /// Draws text as one dim line, truncated to the width.
    pub(super) fn one_line(&mut self, name: &str, text: &str) -> io::Result<()> {
        let text = without_colors(beginning(text));
        let line = cut(&one_line(&format!("{name}{text}")), self.page.width());
        self.page.wide(&[Span::new(&line, DIM)])
    }

    /// Draws the complete text below its line.
    pub(super) fn below(&mut self, text: &str) -> io::Result<()> {
        self.page.indent(None, Span::plain("    "))?;
        self.page.output(text.trim_end(), DIM)?;
        self.page.dedent();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_of_the_harness_go() {
        let cases = [
            ("<command-name>/x</command-name>", " /x "),
            ("a < b && c > d", "a < b && c > d"),
            ("<Foo> <> </> <a href='x'>", "<Foo> <> </> <a href='x'>"),
            ("<tool_use_error>no</tool_use_error", " no</tool_use_error"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_tags(text), expected);
        }
    }
}
