//! Draws a whole session: title, conversation, subagents without a call, and totals.

use std::collections::HashSet;
use std::io::{self, Write};

use jiff::civil::Date;
use threadfold_core::{ConversationId, ConversationState, SessionMetadata, TokenUsage};

use super::conversation::ConversationKind;
use super::folded::FoldedCounts;
use super::numbers::{between, cost, count, duration, local_time, number};
use super::page::Page;
use super::palette::{BOLD, DIM};
use super::text::Span;

/// The level of detail.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ViewOptions {
    /// Complete tool inputs and outputs, system messages and unknown records.
    pub(crate) is_full: bool,
    /// The model's thinking.
    pub(crate) has_thinking: bool,
    /// Subagents' conversations.
    pub(crate) has_subagents: bool,
    /// Helpers of the agent itself, which nobody called.
    pub(crate) has_internal: bool,
}

/// The state of drawing a session.
pub(super) struct Drawing<'a, W> {
    pub(super) page: &'a mut Page<W>,
    pub(super) state: &'a ConversationState,
    pub(super) metadata: &'a SessionMetadata,
    pub(super) shown: ViewOptions,
    /// Conversations that are already on the page.
    pub(super) drawn: HashSet<ConversationId>,
    /// The last date shown.
    pub(super) day: Option<Date>,
    /// What was not drawn.
    pub(super) folded: FoldedCounts,
}

impl<'a, W: Write> Drawing<'a, W> {
    /// Starts a drawing with an empty page.
    pub(super) fn new(
        page: &'a mut Page<W>,
        state: &'a ConversationState,
        metadata: &'a SessionMetadata,
        shown: ViewOptions,
    ) -> Self {
        let (drawn, folded) = (HashSet::new(), FoldedCounts::default());
        Self { page, state, metadata, shown, drawn, day: None, folded }
    }
}

/// Draws a session.
pub(crate) fn draw<W: Write>(
    page: &mut Page<W>,
    state: &ConversationState,
    metadata: &SessionMetadata,
    shown: ViewOptions,
) -> io::Result<()> {
    let mut drawing = Drawing::new(page, state, metadata, shown);
    drawing.heading()?;
    drawing.conversation(state.blocks(), ConversationKind::Main, 0)?;
    drawing.uncalled()?;
    drawing.sums()
}

impl<W: Write> Drawing<'_, W> {
    fn heading(&mut self) -> io::Result<()> {
        if let Some(title) = self.metadata.title() {
            self.page.prose(&[Span::new(title, BOLD)])?;
        }
        let when = self.metadata.started_at().and_then(local_time);
        if let Some(id) = self.metadata.session_id() {
            self.page.prose(&[Span::new(&format!("session {id}"), DIM)])?;
        }
        let facts = [
            self.metadata.cwd().map(str::to_owned),
            when.map(|when| when.strftime("%Y-%m-%d %H:%M").to_string()),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        if !facts.is_empty() {
            self.page.prose(&[Span::new(&facts.join(" · "), DIM)])?;
        }
        self.day = self.metadata.started_at().and_then(local_time).map(|when| when.date());
        self.page.gap();
        Ok(())
    }

    /// Draws the totals of the session.
    fn sums(&mut self) -> io::Result<()> {
        let mut subagents = self.state.subagents();
        subagents.retain(|it| self.shown.has_internal || !it.is_internal());
        let blocks: usize =
            self.state.blocks().len() + subagents.iter().map(|it| it.blocks().len()).sum::<usize>();
        let mut facts = vec![count(blocks, "block", "blocks")];
        if !subagents.is_empty() {
            facts.push(count(subagents.len(), "subagent", "subagents"));
        }
        let times = self.metadata.started_at().zip(self.metadata.ended_at());
        facts.extend(times.and_then(|(start, end)| between(start, end)).map(duration));
        facts.extend(self.metadata.cost_usd().map(cost));
        self.page.gap();
        self.page.rule(DIM)?;
        self.page.prose(&[Span::new(&facts.join(" · "), DIM)])?;
        let usage = self.metadata.usage();
        if !usage.is_empty() {
            self.page.prose(&[Span::new(&tokens(usage), DIM)])?;
        }
        self.folded_line()
    }
}

fn tokens(usage: TokenUsage) -> String {
    let mut parts =
        vec![format!("{} in", number(usage.input)), format!("{} out", number(usage.output))];
    if usage.cache_read > 0 {
        parts.push(format!("{} read from cache", number(usage.cache_read)));
    }
    if usage.cache_creation > 0 {
        parts.push(format!("{} written to cache", number(usage.cache_creation)));
    }
    format!("tokens: {}", parts.join(" · "))
}
