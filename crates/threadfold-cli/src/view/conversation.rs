//! Draws one conversation, block by block, with a header per speaker.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use anstyle::Style;
use threadfold_core::{Block, BlockBody, Blocks, ToolUseId};

use super::numbers::local_time;
use super::palette::{BOLD, DIM, MODEL, ODD, PERSON};
use super::session::Drawing;
use super::text::Span;

/// The kind of conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConversationKind {
    Main,
    Subagent,
}

/// The author of a block.
#[derive(Clone, PartialEq, Eq)]
enum Speaker {
    Nobody,
    Person,
    Model(Option<Arc<str>>),
}

/// The drawing state of a conversation.
#[derive(Clone)]
pub(super) struct DrawState {
    speaker: Speaker,
    last: Piece,
}

impl Default for DrawState {
    fn default() -> Self {
        Self { speaker: Speaker::Nobody, last: Piece::Header }
    }
}

/// The last element drawn, which decides whether an empty line follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Header,
    Line,
    Prose,
}

/// Tool results, by call.
pub(super) type Results = HashMap<ToolUseId, Block>;

impl<W: Write> Drawing<'_, W> {
    /// Draws the blocks of a conversation.
    pub(super) fn conversation(
        &mut self,
        blocks: Blocks<'_>,
        teller: ConversationKind,
        depth: usize,
    ) -> io::Result<()> {
        let mut models = ModelAhead::default();
        let mut telling = DrawState::default();
        let mut is_inactive = false;
        let outer = self.page.base();
        for (position, block) in blocks.iter().enumerate() {
            if is_answer(&block, &blocks) || self.fold_away(&block) {
                continue;
            }
            if block.inactive != is_inactive {
                is_inactive = block.inactive;
                self.turn_off_path(is_inactive, outer)?;
                telling = DrawState::default();
            }
            let model = models.at(position, &blocks);
            let results = results_of(&block, &blocks);
            self.draw_next(&mut telling, &block, model, &results, (teller, depth))?;
        }
        if is_inactive {
            self.turn_off_path(false, outer)?;
        }
        Ok(())
    }

    /// Draws the next block of a conversation, with a header if the speaker changes.
    pub(super) fn draw_next(
        &mut self,
        telling: &mut DrawState,
        block: &Block,
        model: Option<Arc<str>>,
        results: &Results,
        (teller, depth): (ConversationKind, usize),
    ) -> io::Result<()> {
        if let Some(now) = speaker_of(block, model, &telling.speaker)
            && now != telling.speaker
        {
            self.header(&now, block, teller)?;
            *telling = DrawState { speaker: now, last: Piece::Header };
        }
        let piece = piece_of(block, self.shown.is_full, self.shown.has_thinking);
        if telling.last != Piece::Header && (telling.last, piece) != (Piece::Line, Piece::Line) {
            self.page.gap();
        }
        self.page.indent(None, Span::plain("  "))?;
        self.block(block, results, depth)?;
        self.page.dedent();
        telling.last = piece;
        Ok(())
    }

    /// Marks the start or end of blocks off the active path.
    fn turn_off_path(&mut self, is_inactive: bool, outer: Style) -> io::Result<()> {
        self.page.gap();
        if is_inactive {
            self.page.indent(None, Span::new("┊ ", DIM))?;
            let mark = "no longer in the context: rewound, edited or compacted";
            self.page.wide(&[Span::new(mark, ODD)])?;
            self.page.set_base(DIM);
        } else {
            self.page.dedent();
            self.page.set_base(outer);
        }
        self.page.gap();
        Ok(())
    }

    fn header(&mut self, now: &Speaker, block: &Block, teller: ConversationKind) -> io::Result<()> {
        let (name, style) = match (now, teller) {
            (Speaker::Person, ConversationKind::Main) => ("You", PERSON),
            (Speaker::Person, ConversationKind::Subagent) => ("Prompt", PERSON),
            (Speaker::Model(_), _) => ("Assistant", MODEL),
            (Speaker::Nobody, _) => ("", BOLD),
        };
        let mut facts = String::new();
        if let Speaker::Model(Some(model)) = now {
            facts.push_str(&format!(" · {model}"));
        }
        if let Some(time) = block.timestamp.as_deref().and_then(local_time) {
            let form = if self.day == Some(time.date()) { "%H:%M" } else { "%Y-%m-%d %H:%M" };
            self.day = Some(time.date());
            facts.push_str(&format!(" · {}", time.strftime(form)));
        }
        self.page.gap();
        self.page.wide(&[Span::new(name, style), Span::new(&facts, DIM)])?;
        self.page.tight();
        Ok(())
    }
}

/// Returns the result of a call; nothing for other blocks.
///
/// Looked up for each call: a session may be larger than memory, and only its first lines may be
/// looked at.
fn results_of(block: &Block, blocks: &Blocks<'_>) -> Results {
    let BlockBody::ToolUse(call) = &block.body else { return Results::new() };
    let result = blocks.result(&call.tool_use_id);
    result.map(|it| (call.tool_use_id.clone(), it.into_owned())).into_iter().collect()
}

/// Returns whether a block is drawn with its call.
fn is_answer(block: &Block, blocks: &Blocks<'_>) -> bool {
    let BlockBody::ToolResult(result) = &block.body else { return false };
    blocks.call(&result.tool_use_id).is_some()
}

/// Finds the model of each block in order: that of the next text.
#[derive(Default)]
struct ModelAhead {
    /// The model is the same for all blocks before this position.
    until: usize,
    model: Option<Arc<str>>,
}

impl ModelAhead {
    fn at(&mut self, position: usize, blocks: &Blocks<'_>) -> Option<Arc<str>> {
        if position >= self.until {
            self.look_ahead(position, blocks);
        }
        self.model.clone()
    }

    fn look_ahead(&mut self, start: usize, blocks: &Blocks<'_>) {
        self.model = None;
        self.until = start;
        while let Some(block) = blocks.get(self.until) {
            self.until += 1;
            match &block.body {
                BlockBody::UserMessage(_) => return,
                BlockBody::AssistantText(text) => {
                    self.model = text.model.clone().filter(|model| !model.starts_with('<'));
                    if self.model.is_some() {
                        return;
                    }
                }
                _ => {}
            }
        }
    }
}

fn speaker_of(block: &Block, model: Option<Arc<str>>, now: &Speaker) -> Option<Speaker> {
    match &block.body {
        BlockBody::UserMessage(_) => Some(Speaker::Person),
        BlockBody::AssistantText(_)
        | BlockBody::Thinking(_)
        | BlockBody::ToolUse(_)
        | BlockBody::Subagent(_) => Some(match (model, now) {
            (None, Speaker::Model(known)) => Speaker::Model(known.clone()),
            (model, _) => Speaker::Model(model),
        }),
        _ => None,
    }
}

/// Returns whether a block is drawn as one line or more.
fn piece_of(block: &Block, is_full: bool, has_thinking: bool) -> Piece {
    match &block.body {
        BlockBody::UserMessage(_) | BlockBody::AssistantText(_) | BlockBody::Error(_) => {
            Piece::Prose
        }
        BlockBody::Subagent(_) => Piece::Prose,
        BlockBody::Thinking(thought) if has_thinking && !thought.content.is_empty() => Piece::Prose,
        _ if is_full => Piece::Prose,
        _ => Piece::Line,
    }
}
