//! Draws a live conversation: finished blocks are written once, and open blocks are redrawn below
//! them.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;

use threadfold_core::{
    Block, BlockBody, BlockId, Change, ConversationId, ConversationState, SessionMetadata,
    ToolUseId,
};

use crate::terminal::height;

use super::conversation::{ConversationKind, DrawState, Results};
use super::folded::folded_kind;
use super::page::Page;
use super::palette::{DIM, ODD};
use super::session::{Drawing, ViewOptions};
use super::text::Span;

/// How many lines of open blocks are shown.
const OPEN_LINES: usize = 8;
/// How many blocks back a result's call is searched.
const LOOKED_BACK: usize = 256;

/// A live conversation on a terminal or a pipe.
pub(crate) struct LiveView<W: Write> {
    page: Page<W>,
    width: usize,
    is_coloured: bool,
    shown: ViewOptions,
    telling: DrawState,
    /// The blocks on the page, in the order of the conversation.
    written: Vec<PageBlock>,
    told: HashSet<BlockId>,
    open: Vec<BlockId>,
    /// Blocks that were open once: they are written when they finish, whatever was written since.
    opened: HashSet<BlockId>,
    /// How many lines of open blocks to overwrite; `None` if the output is not a terminal.
    region: Option<usize>,
}

/// A block on the page.
struct PageBlock {
    id: BlockId,
    /// The line where it starts.
    line: usize,
    /// The drawing state before it.
    telling: DrawState,
}

impl<W: Write> LiveView<W> {
    /// Starts drawing; on a terminal, open blocks are shown as well.
    pub(crate) fn new(
        out: W,
        width: usize,
        is_coloured: bool,
        shown: ViewOptions,
        is_terminal: bool,
    ) -> Self {
        Self {
            page: Page::new(out, width, is_coloured),
            width,
            is_coloured,
            shown,
            telling: DrawState::default(),
            written: Vec::new(),
            told: HashSet::new(),
            open: Vec::new(),
            opened: HashSet::new(),
            region: is_terminal.then_some(0),
        }
    }

    /// Draws everything in a state that was not drawn yet.
    pub(crate) fn catch_up(
        &mut self,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        self.wipe()?;
        self.open.clear();
        let ids = state.blocks().iter().map(|block| block.id.clone()).collect();
        self.add_blocks(ids, state, metadata)?;
        self.draw_open(state, metadata)
    }

    /// Draws the blocks that some changes finished.
    pub(crate) fn follow<'c>(
        &mut self,
        changes: impl Iterator<Item = &'c Change>,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        let mut ids: BTreeMap<usize, BlockId> = BTreeMap::new();
        let mut add = |conversation: &ConversationId, id: &BlockId| {
            if conversation.is_main()
                && let Some(position) = state.blocks().position(id)
            {
                ids.insert(position, id.clone());
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
        self.add_blocks(ids.into_values().collect(), state, metadata)?;
        self.draw_open(state, metadata)
    }

    /// Adds blocks in the order of the conversation. If one of them precedes what is on the page,
    /// as a prompt does that only the transcript has, the page is drawn again from there.
    fn add_blocks(
        &mut self,
        ids: Vec<BlockId>,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        let blocks = state.blocks();
        let mut ids: VecDeque<BlockId> = ids.into();
        while let Some(id) = ids.pop_front() {
            let Some(block) = state.block(&ConversationId::main(), &id) else { continue };
            if self.is_to_write(&block, state)
                && !self.opened.contains(&id)
                && let Some(position) = blocks.position(&id)
                && self.rewind(&block, position, state)?
            {
                ids = blocks.iter().skip(position).map(|it| it.id.clone()).collect();
                continue;
            }
            self.add_block(&block, state, metadata)?;
        }
        Ok(())
    }

    /// Takes back what is on the page after a block's position, and returns whether it did.
    ///
    /// Lines that left the screen, or are in a pipe, stay. A mark separates them from what follows,
    /// if the block is a prompt; nothing is drawn twice for less.
    fn rewind(
        &mut self,
        block: &Block,
        position: usize,
        state: &ConversationState,
    ) -> io::Result<bool> {
        let blocks = state.blocks();
        let is_after = |it: &PageBlock| blocks.position(&it.id).is_some_and(|at| at > position);
        let kept = self.written.iter().rposition(|it| !is_after(it)).map_or(0, |last| last + 1);
        let Some(first) = self.written.get(kept) else { return Ok(false) };
        let lines = self.page.lines() - first.line;
        let is_erasable = self.region.is_some() && height().is_some_and(|height| lines < height);
        let is_prompt = matches!(block.body, BlockBody::UserMessage(_));
        if !is_erasable && !is_prompt {
            return Ok(false);
        }
        self.telling = first.telling.clone();
        for written in self.written.drain(kept..) {
            self.told.remove(&written.id);
        }
        if is_erasable {
            self.page.erase(lines)?;
        } else {
            self.page.gap();
            let mark =
                "── the transcript has more: the conversation continues from an earlier block ──";
            self.page.wide(&[Span::new(mark, ODD)])?;
            self.telling = DrawState::default();
        }
        Ok(true)
    }

    /// Prints a note outside the conversation.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.wipe()?;
        self.page.gap();
        self.page.wide(&[Span::new(text, DIM)])?;
        self.telling = DrawState::default();
        self.page.flush()
    }

    /// Stops drawing, and erases open blocks.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.wipe()?;
        self.page.flush()
    }

    /// Writes a finished block, or adds it to the open ones.
    fn add_block(
        &mut self,
        block: &Block,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        if block.status.is_open() {
            self.opened.insert(block.id.clone());
            if !self.open.contains(&block.id) {
                self.open.push(block.id.clone());
            }
            return Ok(());
        }
        self.open.retain(|it| *it != block.id);
        if !self.is_to_write(block, state) {
            return Ok(());
        }
        self.told.insert(block.id.clone());
        let (line, telling) = (self.page.lines(), self.telling.clone());
        self.written.push(PageBlock { id: block.id.clone(), line, telling });
        let results = match &block.body {
            BlockBody::ToolUse(call) => answer_of(state, &call.tool_use_id).results,
            _ => Results::new(),
        };
        let model = model_of(block);
        let mut drawing = Drawing::new(&mut self.page, state, metadata, self.shown);
        drawing.draw_next(&mut self.telling, block, model, &results, (ConversationKind::Main, 0))
    }

    /// Returns whether a block is finished, not on the page yet, and has something to draw.
    fn is_to_write(&self, block: &Block, state: &ConversationState) -> bool {
        let is_answer = || {
            matches!(&block.body, BlockBody::ToolResult(result)
                if answer_of(state, &result.tool_use_id).has_call)
        };
        !block.status.is_open()
            && !self.told.contains(&block.id)
            && folded_kind(block, self.shown).is_none()
            && !is_answer()
    }

    /// Draws the open blocks, to be overwritten by the next output.
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
            let shown = ViewOptions { has_subagents: false, ..self.shown };
            let mut drawing = Drawing::new(&mut page, state, metadata, shown);
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

    /// Erases the drawn open blocks.
    fn wipe(&mut self) -> io::Result<()> {
        if let Some(lines) = self.region.as_mut().map(std::mem::take).filter(|lines| *lines > 0) {
            self.page.raw(&format!("\x1b[{lines}A\r\x1b[J"))?;
        }
        Ok(())
    }
}

/// A call near the end of the conversation, and its results.
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
