//! Draws subagents: a line with the outcome, then prompt, conversation and result.

use std::io::{self, Write};

use anstyle::Style;
use threadfold_core::{
    Block, BlockBody, BlockStatus, ConversationId, ConversationState, Json, SubagentBlock,
    SubagentRef,
};

use crate::printable::one_line;

use super::call::Summary;
use super::content::{content_text, input_fields, output_text};
use super::conversation::ConversationKind;
use super::markdown::draw_markdown;
use super::numbers::duration;
use super::palette::{BAD, DIM, GOOD, MODEL, ODD, PERSON, PLAIN};
use super::session::Drawing;
use super::text::Span;
use super::tool::{OutcomeLabel, first_line, joined};

/// Deeper nested subagents are only named.
const DEPTH: usize = 16;

impl<W: Write> Drawing<'_, W> {
    /// Draws a call that started a subagent, and the subagent's conversation below it.
    pub(super) fn subagent(
        &mut self,
        block: &Block,
        call: &SubagentBlock,
        depth: usize,
    ) -> io::Result<()> {
        let subagent = called(self.state, call);
        let purpose = call.description.as_deref().unwrap_or("");
        let summary = match (&*call.name, purpose) {
            (kind, "") => kind.to_owned(),
            ("", purpose) => purpose.to_owned(),
            (kind, purpose) => format!("{kind}: {purpose}"),
        };
        let answer = call.output.as_ref().map(output_text).unwrap_or_default();
        let mut ending = subagent_ending(block, call);
        let is_shown = self.shown.has_subagents && depth < DEPTH;
        if !is_shown && !answer.is_empty() {
            let words = [std::mem::take(&mut ending.words), first_line(&answer)];
            ending.words = joined(words);
        }
        self.call_line("Agent", &Summary::Words(one_line(&summary)), &ending)?;
        let is_new = subagent.is_some_and(|it| self.drawn.insert(it.conversation_id()));
        if !is_shown {
            subagent.into_iter().for_each(|it| self.pass_over(it));
            return Ok(());
        }
        self.page.indent(None, Span::new("│ ", DIM))?;
        self.page.tight();
        let prompt = call.input.as_ref().map(asked).unwrap_or_default();
        let told = subagent.filter(|_| is_new);
        if !prompt.is_empty() && !told.is_some_and(|it| opens_with(it, &prompt)) {
            self.draw_text("Prompt", PERSON, &prompt, false)?;
        }
        if let Some(subagent) = told {
            self.conversation(subagent.blocks(), ConversationKind::Subagent, depth + 1)?;
        } else if subagent.is_some() {
            self.page.gap();
            self.page.wide(&[Span::new("continues the subagent above", DIM)])?;
        }
        if !answer.is_empty() && !told.is_some_and(|it| ends_with(it, &answer)) {
            self.draw_text("Result", MODEL, &answer, true)?;
        }
        self.page.dedent();
        Ok(())
    }

    /// Marks a hidden subagent, and those that it started, as drawn.
    pub(super) fn pass_over(&mut self, subagent: SubagentRef<'_>) {
        let state = self.state;
        let mut left = vec![subagent.blocks()];
        while let Some(blocks) = left.pop() {
            for block in blocks.iter() {
                if let BlockBody::Subagent(call) = &block.body
                    && let Some(below) = called(state, call)
                    && self.drawn.insert(below.conversation_id())
                {
                    left.push(below.blocks());
                }
            }
        }
    }

    pub(super) fn draw_text(
        &mut self,
        name: &str,
        style: Style,
        text: &str,
        is_markdown: bool,
    ) -> io::Result<()> {
        self.page.gap();
        self.page.wide(&[Span::new(name, style)])?;
        self.page.tight();
        self.page.indent(None, Span::plain("  "))?;
        if is_markdown {
            draw_markdown(self.page, text)?;
        } else {
            self.page.plain_text(text, PLAIN)?;
        }
        self.page.dedent();
        Ok(())
    }
}

/// Returns the subagent started by a call.
fn called<'s>(state: &'s ConversationState, call: &SubagentBlock) -> Option<SubagentRef<'s>> {
    let by_call = call.tool_use_id.as_ref().map(ConversationId::from);
    let by_name = call.agent_id.as_ref().map(ConversationId::from);
    [by_call, by_name].iter().flatten().find_map(|name| state.subagent(name))
}

fn subagent_ending(block: &Block, call: &SubagentBlock) -> OutcomeLabel {
    let took = call.duration_ms.map(duration).unwrap_or_default();
    match block.status {
        _ if block.interrupted => {
            OutcomeLabel { mark: "✗", style: ODD, words: "interrupted".to_owned() }
        }
        BlockStatus::Success | BlockStatus::Complete => {
            OutcomeLabel { mark: "✓", style: GOOD, words: took }
        }
        BlockStatus::Error => OutcomeLabel { mark: "✗", style: BAD, words: took },
        _ => OutcomeLabel { mark: "…", style: ODD, words: "not finished".to_owned() },
    }
}

/// Returns a subagent's prompt, whether it is plain text or in an object.
fn asked(input: &Json) -> String {
    let fields = input_fields(input).unwrap_or_default();
    let prompt = fields.into_iter().find(|(name, _)| name == "prompt").map(|(_, value)| value);
    prompt.unwrap_or_else(|| output_text(input))
}

pub(super) fn opens_with(subagent: SubagentRef<'_>, prompt: &str) -> bool {
    let first = subagent.blocks().get(0);
    first.is_some_and(|block| match &block.body {
        BlockBody::UserMessage(said) => content_text(&said.content).trim() == prompt.trim(),
        _ => false,
    })
}

/// Returns whether an answer equals the subagent's last text; a harness may add text around it.
pub(super) fn ends_with(subagent: SubagentRef<'_>, answer: &str) -> bool {
    let texts = subagent.blocks();
    let last = texts.iter().rev().find_map(|block| match &block.body {
        BlockBody::AssistantText(said) => Some(one_line(&said.content.to_str())),
        _ => None,
    });
    last.is_some_and(|last| !last.is_empty() && one_line(answer).contains(&last))
}
