//! Blocks that are not drawn because they have nothing to read, and the line that counts them.

use std::io::{self, Write};

use threadfold_core::{Block, BlockBody};

use super::notice::is_silent;
use super::numbers::count;
use super::palette::DIM;
use super::session::{Drawing, ViewOptions};
use super::text::Span;

/// How many blocks were not drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FoldedCounts {
    hooks: usize,
    thoughts: usize,
    notices: usize,
    /// Helpers of the agent itself.
    pub(super) helpers: usize,
}

/// Why a block is not drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoldedKind {
    /// A text without words, which an agent writes around its calls.
    Nothing,
    /// A hook without output.
    Hook,
    /// Thinking whose text the provider withheld.
    Thought,
    /// A command without output, or a fixed text of the harness.
    Notice,
}

/// Returns why a block is not drawn; none if it is drawn.
pub(super) fn folded_kind(block: &Block, shown: ViewOptions) -> Option<FoldedKind> {
    if block.interrupted {
        return None;
    }
    match &block.body {
        BlockBody::AssistantText(text) if text.content.to_str().trim().is_empty() => {
            Some(FoldedKind::Nothing)
        }
        _ if shown.is_full => None,
        BlockBody::Thinking(thought) if !shown.has_thinking && !block.status.is_open() => {
            let is_hidden = thought.redacted || thought.content.to_str().trim().is_empty();
            is_hidden.then_some(FoldedKind::Thought)
        }
        BlockBody::System(notice) if is_silent(notice) => Some(match &*notice.subtype {
            "hook" => FoldedKind::Hook,
            _ => FoldedKind::Notice,
        }),
        _ => None,
    }
}

impl<W: Write> Drawing<'_, W> {
    /// Returns whether a block is not drawn, and counts it.
    pub(super) fn fold_away(&mut self, block: &Block) -> bool {
        let kind = folded_kind(block, self.shown);
        match kind {
            Some(FoldedKind::Hook) => self.folded.hooks += 1,
            Some(FoldedKind::Thought) => self.folded.thoughts += 1,
            Some(FoldedKind::Notice) => self.folded.notices += 1,
            Some(FoldedKind::Nothing) | None => {}
        }
        kind.is_some()
    }

    /// Draws how many blocks and helpers were not drawn, and how to see them.
    pub(super) fn folded_line(&mut self) -> io::Result<()> {
        let FoldedCounts { hooks, thoughts, notices, helpers } = self.folded;
        let counts = [
            (hooks, "empty hook", "empty hooks"),
            (thoughts, "hidden thought", "hidden thoughts"),
            (notices, "empty notice", "empty notices"),
        ];
        let told: Vec<String> = counts
            .iter()
            .filter(|(amount, ..)| *amount > 0)
            .map(|(amount, one, many)| count(*amount, one, many))
            .collect();
        if !told.is_empty() {
            let told = format!("not shown: {} (`--full` shows them)", told.join(" · "));
            self.page.prose(&[Span::new(&told, DIM)])?;
        }
        if helpers > 0 {
            let told = count(helpers, "helper of the agent itself", "helpers of the agent itself");
            let told = format!("not shown: {told} (`--internal` shows them)");
            self.page.prose(&[Span::new(&told, DIM)])?;
        }
        Ok(())
    }
}
