//! Draws the subagents that no block of a conversation refers to, in a section of their own.
//!
//! A caller is never guessed: until a subagent's call or its parent was seen, it has no place in
//! the conversation. Helpers that an agent runs for itself never have one, and are folded away.

use std::io::{self, Write};

use threadfold_core::{BlockStatus, SubagentRef};

use super::call::Summary;
use super::content::output_text;
use super::conversation::ConversationKind;
use super::numbers::{count, duration};
use super::palette::{BAD, DIM, GOOD, MODEL, ODD, PERSON};
use super::session::Drawing;
use super::subagent::{ends_with, opens_with};
use super::text::Span;
use super::tool::OutcomeLabel;

impl<W: Write> Drawing<'_, W> {
    /// Draws the subagents that no block refers to.
    pub(super) fn uncalled(&mut self) -> io::Result<()> {
        let left = self
            .state
            .subagents()
            .into_iter()
            .filter(|it| !self.drawn.contains(&it.conversation_id()) && has_content(*it));
        let (internal, unplaced): (Vec<SubagentRef<'_>>, Vec<_>) =
            left.partition(SubagentRef::is_internal);
        let title = ["subagent whose caller is unknown", "subagents whose caller is unknown"];
        self.section(title, &unplaced)?;
        if self.shown.has_internal {
            return self
                .section(["helper of the agent itself", "helpers of the agent itself"], &internal);
        }
        self.folded.helpers = internal.len();
        Ok(())
    }

    fn section(&mut self, [one, many]: [&str; 2], subagents: &[SubagentRef<'_>]) -> io::Result<()> {
        if subagents.is_empty() {
            return Ok(());
        }
        self.page.gap();
        self.page.wide(&[Span::new(&count(subagents.len(), one, many), ODD)])?;
        for subagent in subagents {
            // A subagent before it may have called this one.
            if self.drawn.insert(subagent.conversation_id()) {
                self.uncalled_one(*subagent)?;
            }
        }
        Ok(())
    }

    fn uncalled_one(&mut self, subagent: SubagentRef<'_>) -> io::Result<()> {
        let header = subagent.header();
        let name = subagent.conversation_id().to_string();
        self.page.gap();
        self.page.indent(None, Span::plain("  "))?;
        let ending = ending(header.status, header.duration_ms);
        self.call_line("Agent", &Summary::Words(name), &ending)?;
        if !self.shown.has_subagents {
            self.pass_over(subagent);
            self.page.dedent();
            return Ok(());
        }
        self.page.indent(None, Span::new("│ ", DIM))?;
        self.page.tight();
        let prompt = header.prompt.as_deref().unwrap_or_default();
        if !prompt.is_empty() && !opens_with(subagent, prompt) {
            self.draw_text("Prompt", PERSON, prompt, false)?;
        }
        self.conversation(subagent.blocks(), ConversationKind::Subagent, 1)?;
        let answer = header.output.as_ref().map(output_text).unwrap_or_default();
        if !answer.is_empty() && !ends_with(subagent, &answer) {
            self.draw_text("Result", MODEL, &answer, true)?;
        }
        self.page.dedent();
        self.page.dedent();
        Ok(())
    }
}

/// Returns whether there is anything to draw of a subagent.
fn has_content(subagent: SubagentRef<'_>) -> bool {
    let header = subagent.header();
    !subagent.blocks().is_empty() || header.prompt.is_some() || header.output.is_some()
}

fn ending(status: BlockStatus, took: Option<u64>) -> OutcomeLabel {
    let words = took.map(duration).unwrap_or_default();
    match status {
        BlockStatus::Success | BlockStatus::Complete => {
            OutcomeLabel { mark: "✓", style: GOOD, words }
        }
        BlockStatus::Error => OutcomeLabel { mark: "✗", style: BAD, words },
        _ => OutcomeLabel { mark: "…", style: ODD, words: "not finished".to_owned() },
    }
}
