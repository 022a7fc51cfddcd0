//! A conversation as it goes on: what is finished is written once, and what is still open stands
//! below it and is drawn again and again.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use threadfold_core::{
    Block, BlockBody, BlockId, Change, ConversationId, ConversationState, SessionMetadata,
    ToolUseId,
};

use super::conversation::{Results, Teller, Telling, is_empty};
use super::page::Page;
use super::palette::DIM;
use super::session::{Drawing, Shown};
use super::text::Span;

/// How many lines of what is open are shown.
const OPEN_LINES: usize = 8;
/// How far back the call of a result is looked for.
const LOOKED_BACK: usize = 256;

/// A conversation as it goes on.
pub(crate) struct Live<W: Write> {
    page: Page<W>,
    width: usize,
    is_coloured: bool,
    shown: Shown,
    telling: Telling,
    told: HashSet<BlockId>,
    open: Vec<BlockId>,
    /// Whether lines can be drawn over; and how many stand there to be drawn over.
    region: Option<usize>,
}

impl<W: Write> Live<W> {
    /// Begins to tell; on a terminal what is open is shown as well.
    pub(crate) fn new(
        out: W,
        width: usize,
        is_coloured: bool,
        shown: Shown,
        is_terminal: bool,
    ) -> Self {
        Self {
            page: Page::new(out, width, is_coloured),
            width,
            is_coloured,
            shown,
            telling: Telling::default(),
            told: HashSet::new(),
            open: Vec::new(),
            region: is_terminal.then_some(0),
        }
    }

    /// Tells all of a state that was not told yet.
    pub(crate) fn catch_up(
        &mut self,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        self.wipe()?;
        self.open.clear();
        for block in state.blocks().iter() {
            self.hear(&block, state, metadata)?;
        }
        self.draw_open(state, metadata)
    }

    /// Tells what some changes finished.
    pub(crate) fn follow<'c>(
        &mut self,
        changes: impl Iterator<Item = &'c Change>,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        let mut ids: Vec<BlockId> = Vec::new();
        let mut add = |conversation: &ConversationId, id: &BlockId| {
            if conversation.is_main() && !ids.contains(id) {
                ids.push(id.clone());
            }
        };
        for change in changes {
            match change {
                Change::BlockInserted { conversation_id, block, .. }
                | Change::BlockReplaced { conversation_id, block } => {
                    add(conversation_id, &block.id);
                }
                Change::BlockMarked { conversation_id, block_id, .. } => {
                    add(conversation_id, block_id);
                }
                Change::BlockRemoved { conversation_id, block_id } if conversation_id.is_main() => {
                    self.open.retain(|it| it != block_id);
                }
                _ => {}
            }
        }
        self.wipe()?;
        for id in ids {
            if let Some(block) = state.block(&ConversationId::main(), &id) {
                self.hear(&block, state, metadata)?;
            }
        }
        self.draw_open(state, metadata)
    }

    /// Says something beside the conversation.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.wipe()?;
        self.page.gap();
        self.page.wide(&[Span::new(text, DIM)])?;
        self.telling = Telling::default();
        self.page.flush()
    }

    /// Tells no more: what was still open is taken away.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.wipe()?;
        self.page.flush()
    }

    /// Writes a block that is finished, or remembers that it is open.
    fn hear(
        &mut self,
        block: &Block,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        if block.status.is_open() {
            if !self.open.contains(&block.id) {
                self.open.push(block.id.clone());
            }
            return Ok(());
        }
        self.open.retain(|it| *it != block.id);
        let is_answer = matches!(&block.body, BlockBody::ToolResult(result)
            if answer_of(state, &result.tool_use_id).has_call);
        if is_answer || is_empty(block) || !self.told.insert(block.id.clone()) {
            return Ok(());
        }
        let results = match &block.body {
            BlockBody::ToolUse(call) => answer_of(state, &call.tool_use_id).results,
            _ => Results::new(),
        };
        let model = model_of(block);
        let mut drawing = Drawing {
            page: &mut self.page,
            state,
            metadata,
            shown: self.shown,
            drawn: HashSet::new(),
            day: None,
        };
        drawing.tell(&mut self.telling, block, model, &results, (Teller::Main, 0))
    }

    /// Draws what is open, to be drawn over by what comes next.
    fn draw_open(
        &mut self,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        if self.region.is_none() {
            return self.page.flush();
        }
        let mut drawn = Vec::new();
        let mut page = Page::new(&mut drawn, self.width, self.is_coloured);
        for id in &self.open {
            let Some(block) = state.block(&ConversationId::main(), id) else { continue };
            let mut drawing = Drawing {
                page: &mut page,
                state,
                metadata,
                shown: Shown { has_subagents: false, ..self.shown },
                drawn: HashSet::new(),
                day: None,
            };
            drawing.page.indent(None, Span::plain("  "))?;
            drawing.block(&block, &Results::new(), 0)?;
            drawing.page.dedent();
        }
        let text = String::from_utf8_lossy(&drawn).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(OPEN_LINES)..];
        self.page.raw(&last.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        self.region = Some(last.len());
        self.page.flush()
    }

    /// Takes away what was drawn of what is open.
    fn wipe(&mut self) -> io::Result<()> {
        if let Some(lines) = self.region.as_mut().map(std::mem::take).filter(|lines| *lines > 0) {
            self.page.raw(&format!("\x1b[{lines}A\r\x1b[J"))?;
        }
        Ok(())
    }
}

/// What is known of a call near the end of the conversation.
struct Answer {
    has_call: bool,
    results: Results,
}

fn answer_of(state: &ConversationState, call: &ToolUseId) -> Answer {
    let mut answer = Answer { has_call: false, results: Results::new() };
    for block in state.blocks().iter().rev().take(LOOKED_BACK) {
        match &block.body {
            BlockBody::ToolUse(it) if it.tool_use_id == *call => answer.has_call = true,
            BlockBody::Subagent(it) if it.tool_use_id.as_ref() == Some(call) => {
                answer.has_call = true;
            }
            BlockBody::ToolResult(it) if it.tool_use_id == *call => {
                answer.results.insert(call.clone(), block.into_owned());
            }
            _ => {}
        }
    }
    answer
}

fn model_of(block: &Block) -> Option<Arc<str>> {
    match &block.body {
        BlockBody::AssistantText(text) => text.model.clone().filter(|it| !it.starts_with('<')),
        _ => None,
    }
}
