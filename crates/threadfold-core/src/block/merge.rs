//! Merges two reports of one block into the block that readers see.

use super::{Block, BlockBody, Content};
use crate::event::TextField;
use crate::text::Text;

impl Block {
    /// Returns this block with missing fields filled in from `under`, a report of lower rank.
    ///
    /// Empty text counts as missing, because some transcripts store a thought's signature without
    /// its text. Status and flags are not merged here: they also depend on turns and results.
    pub(crate) fn over(&self, under: &Block) -> Block {
        let mut merged = self.clone();
        fill(&mut merged.timestamp, &under.timestamp);
        fill(&mut merged.message_id, &under.message_id);
        fill(&mut merged.parent, &under.parent);
        fill(&mut merged.raw, &under.raw);
        merged.metadata.fill_from(&under.metadata);
        merged.extra.fill_from(&under.extra);
        merged.body.fill_from(&under.body);
        merged
    }

    /// Returns the current value of the text that a delta for `field` extends.
    pub(crate) fn text(&self, field: TextField) -> Option<Text> {
        match (field, &self.body) {
            (TextField::Content, BlockBody::AssistantText(body)) => Some(body.content.clone()),
            (TextField::Content, BlockBody::Thinking(body)) => Some(body.content.clone()),
            (TextField::Content, BlockBody::UserMessage(body)) => match &body.content {
                Content::Text(text) => Some(text.clone()),
                Content::Parts(_) => None,
            },
            (TextField::Content, BlockBody::SkillLoad(body)) => {
                Some(body.content.clone().unwrap_or_default())
            }
            (TextField::Input, BlockBody::ToolUse(body)) if body.input.is_none() => {
                Some(body.input_text.clone().unwrap_or_default())
            }
            _ => None,
        }
    }

    /// Returns the text that a delta for `field` extends.
    pub(crate) fn text_mut(&mut self, field: TextField) -> Option<&mut Text> {
        match (field, &mut self.body) {
            (TextField::Content, BlockBody::AssistantText(body)) => Some(&mut body.content),
            (TextField::Content, BlockBody::Thinking(body)) => Some(&mut body.content),
            (TextField::Content, BlockBody::UserMessage(body)) => match &mut body.content {
                Content::Text(text) => Some(text),
                Content::Parts(_) => None,
            },
            (TextField::Content, BlockBody::SkillLoad(body)) => {
                Some(body.content.get_or_insert_default())
            }
            (TextField::Input, BlockBody::ToolUse(body)) if body.input.is_none() => {
                Some(body.input_text.get_or_insert_default())
            }
            _ => None,
        }
    }
}

impl BlockBody {
    fn fill_from(&mut self, under: &BlockBody) {
        use BlockBody::*;
        match (self, under) {
            (UserMessage(top), UserMessage(under)) if top.content.is_empty() => {
                top.content.clone_from(&under.content);
            }
            (AssistantText(top), AssistantText(under)) => {
                fill_text(&mut top.content, &under.content);
                fill(&mut top.model, &under.model);
            }
            (Thinking(top), Thinking(under)) => {
                fill_text(&mut top.content, &under.content);
                fill(&mut top.signature, &under.signature);
                top.redacted |= under.redacted;
            }
            (ToolUse(top), ToolUse(under)) => {
                fill(&mut top.input, &under.input);
                fill(&mut top.display_name, &under.display_name);
                fill(&mut top.description, &under.description);
            }
            (ToolResult(top), ToolResult(under)) => {
                fill(&mut top.output, &under.output);
                fill(&mut top.duration_ms, &under.duration_ms);
            }
            (Subagent(top), Subagent(under)) => {
                fill(&mut top.tool_use_id, &under.tool_use_id);
                fill(&mut top.agent_id, &under.agent_id);
                fill(&mut top.description, &under.description);
                fill(&mut top.input, &under.input);
                fill(&mut top.output, &under.output);
                fill(&mut top.duration_ms, &under.duration_ms);
            }
            (Permission(top), Permission(under)) => {
                fill(&mut top.tool_use_id, &under.tool_use_id);
                fill(&mut top.question, &under.question);
                fill(&mut top.options, &under.options);
                fill(&mut top.answer, &under.answer);
            }
            (System(top), System(under)) => fill(&mut top.message, &under.message),
            (SkillLoad(top), SkillLoad(under)) => fill(&mut top.content, &under.content),
            (Error(top), Error(under)) => fill(&mut top.code, &under.code),
            _ => {}
        }
    }
}

fn fill<T: Clone>(top: &mut Option<T>, under: &Option<T>) {
    if top.is_none() {
        top.clone_from(under);
    }
}

fn fill_text(top: &mut Text, under: &Text) {
    if top.is_empty() {
        *top = under.clone();
    }
}
