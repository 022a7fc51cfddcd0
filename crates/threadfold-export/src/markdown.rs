//! Writes a session as a Markdown document.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use threadfold_core::{
    Block, BlockBody, Blocks, ConversationId, ConversationState, Json, SessionMetadata,
    SubagentBlock, SubagentRef, ToolResultBlock, ToolUseId,
};

use crate::call::call_summary;
use crate::content::{content_text, output_text, plain};
use crate::escape::{fenced, html, inert_markdown};
use crate::printable::one_line;
use crate::width::cut;

/// Deeper nested subagents are only named.
const DEPTH: usize = 16;
/// The maximum length of a tool's line.
const SUMMARY: usize = 100;

/// Writes a session. Text is in block quotes, so that its markup cannot affect the rest of the
/// document; tool inputs and outputs are collapsed.
pub fn write_markdown(
    out: &mut dyn Write,
    session: &str,
    state: &ConversationState,
    metadata: &SessionMetadata,
) -> io::Result<()> {
    let mut page = Page { out, state, drawn: HashSet::new() };
    page.heading(session, metadata)?;
    page.conversation(state.blocks(), "")?;
    for subagent in state.subagents() {
        if page.drawn.insert(subagent.conversation_id()) {
            page.line("", &format!("**Agent** {}", html(subagent.conversation_id().as_str())))?;
            page.line("", "")?;
            page.conversation(subagent.blocks(), "> ")?;
        }
    }
    Ok(())
}

struct Page<'a> {
    out: &'a mut dyn Write,
    state: &'a ConversationState,
    /// Subagents whose conversations are already on the page.
    drawn: HashSet<ConversationId>,
}

impl Page<'_> {
    fn heading(&mut self, session: &str, metadata: &SessionMetadata) -> io::Result<()> {
        let title = metadata.title().unwrap_or(session);
        self.line("", &format!("# {}", html(&one_line(title))))?;
        self.line("", "")?;
        let facts = [
            ("session", Some(session)),
            ("folder", metadata.cwd()),
            ("model", metadata.model()),
            ("started", metadata.started_at()),
            ("ended", metadata.ended_at()),
        ];
        for (name, value) in facts {
            if let Some(value) = value {
                self.line("", &format!("- {name}: {}", html(&one_line(value))))?;
            }
        }
        self.line("", "")
    }

    /// Writes text of several lines, each with a prefix.
    fn line(&mut self, prefix: &str, text: &str) -> io::Result<()> {
        for line in text.split('\n') {
            writeln!(self.out, "{}", format!("{prefix}{line}").trim_end())?;
        }
        Ok(())
    }

    fn conversation(&mut self, blocks: Blocks<'_>, prefix: &str) -> io::Result<()> {
        let mut results: HashMap<ToolUseId, ToolResultBlock> = HashMap::new();
        let mut calls = HashSet::new();
        for block in blocks.iter() {
            match &block.body {
                BlockBody::ToolResult(result) => {
                    results.insert(result.tool_use_id.clone(), result.clone());
                }
                BlockBody::ToolUse(call) => {
                    calls.insert(call.tool_use_id.clone());
                }
                BlockBody::Subagent(call) => calls.extend(call.tool_use_id.clone()),
                _ => {}
            }
        }
        for block in blocks.iter() {
            match &block.body {
                BlockBody::ToolResult(result) if calls.contains(&result.tool_use_id) => {}
                _ => self.block(&block, &results, prefix)?,
            }
        }
        Ok(())
    }

    fn block(
        &mut self,
        block: &Block,
        results: &HashMap<ToolUseId, ToolResultBlock>,
        prefix: &str,
    ) -> io::Result<()> {
        match &block.body {
            BlockBody::UserMessage(message) => {
                let text = inert_markdown(&content_text(&message.content));
                let who = if prefix.is_empty() { "You" } else { "Prompt" };
                self.write_text(who, block, &text, prefix)
            }
            BlockBody::AssistantText(message) => {
                let text = message.content.to_str();
                if text.trim().is_empty() && !block.interrupted {
                    return Ok(());
                }
                self.write_text("Assistant", block, &inert_markdown(&text), prefix)
            }
            BlockBody::Thinking(thought) => {
                self.folded("Thinking", &[&thought.content.to_str()], prefix)
            }
            BlockBody::ToolUse(call) => {
                let written = call.input_text.as_ref().map(|text| text.to_str().into_owned());
                let details = call.input.as_ref().map(call_summary).unwrap_or_default();
                let input = call.input.as_ref().map(plain).or(written).unwrap_or_default();
                let result = results.get(&call.tool_use_id);
                let mark = match result {
                    Some(result) if result.is_error => "✗",
                    Some(_) => "✓",
                    None => "…",
                };
                let name = call.display_name.as_deref().unwrap_or(&call.tool_name);
                let output = result.and_then(|it| it.output.as_ref()).map(output_text);
                let summary = format!("{name} {mark} {details}");
                self.folded(&summary, &[&input, &output.unwrap_or_default()], prefix)
            }
            BlockBody::ToolResult(result) => {
                let output = result.output.as_ref().map(output_text).unwrap_or_default();
                self.folded("Result of a missing call", &[&output], prefix)
            }
            BlockBody::Subagent(call) => self.subagent(call, prefix),
            BlockBody::System(system) => {
                let text = system.message.as_ref().map(|it| it.to_str().into_owned());
                self.folded(&system.subtype, &[&text.unwrap_or_default()], prefix)
            }
            BlockBody::Error(error) => {
                self.write_text("Error", block, &fenced(&error.message.to_str()), prefix)
            }
            BlockBody::Permission(asked) => {
                let text = |json: &Option<Json>| json.as_ref().map(plain).unwrap_or_default();
                self.folded("Permission", &[&text(&asked.question), &text(&asked.answer)], prefix)
            }
            BlockBody::SkillLoad(skill) => {
                let text = skill.content.as_ref().map(|it| it.to_str().into_owned());
                let summary = format!("Skill {}", skill.skill_name);
                self.folded(&summary, &[&text.unwrap_or_default()], prefix)
            }
            BlockBody::Unknown(unknown) => {
                self.folded("Unknown record", &[&output_text(&unknown.record)], prefix)
            }
            other => self.folded(other.kind(), &[Json::of(block).as_str()], prefix),
        }
    }

    fn write_text(&mut self, who: &str, block: &Block, text: &str, prefix: &str) -> io::Result<()> {
        let mut facts = String::new();
        if let Some(time) = &block.timestamp {
            facts.push_str(&format!(" · {}", html(&one_line(time))));
        }
        if block.inactive {
            facts.push_str(" · no longer in the context");
        }
        if block.interrupted {
            facts.push_str(" · interrupted");
        }
        self.line(prefix, &format!("**{who}**{facts}"))?;
        self.line(prefix, "")?;
        self.line(&format!("{prefix}> "), text.trim_matches('\n'))?;
        self.line(prefix, "")
    }

    /// Writes collapsed texts.
    fn folded(&mut self, summary: &str, texts: &[&str], prefix: &str) -> io::Result<()> {
        let summary = html(&cut(&one_line(summary), SUMMARY));
        let texts: Vec<&&str> = texts.iter().filter(|it| !it.trim().is_empty()).collect();
        if texts.is_empty() {
            self.line(prefix, &format!("- {summary}"))?;
            return self.line(prefix, "");
        }
        self.line(prefix, &format!("<details><summary>{summary}</summary>\n"))?;
        for text in texts {
            self.line(prefix, &format!("{}\n", fenced(text)))?;
        }
        self.line(prefix, "</details>\n")
    }

    fn subagent(&mut self, call: &SubagentBlock, prefix: &str) -> io::Result<()> {
        let purpose = call.description.as_deref().unwrap_or_default();
        let name = html(&one_line(&format!("{} {purpose}", call.name)));
        self.line(prefix, &format!("**Agent** {name}\n"))?;
        let inner = format!("{prefix}> ");
        let is_shallow = inner.len() <= 2 * DEPTH;
        if let Some(subagent) = called(self.state, call).filter(|_| is_shallow)
            && self.drawn.insert(subagent.conversation_id())
        {
            self.conversation(subagent.blocks(), &inner)?;
        }
        if let Some(output) = &call.output {
            self.folded("Result", &[&output_text(output)], prefix)?;
        }
        Ok(())
    }
}

/// Returns the subagent started by a call.
fn called<'s>(state: &'s ConversationState, call: &SubagentBlock) -> Option<SubagentRef<'s>> {
    let by_call = call.tool_use_id.as_ref().map(ConversationId::from);
    let by_name = call.agent_id.as_ref().map(ConversationId::from);
    [by_call, by_name].iter().flatten().find_map(|name| state.subagent(name))
}
