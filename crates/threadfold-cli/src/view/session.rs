//! A whole session: its title, the conversation, subagents that nobody called, and the sums.

use std::collections::HashSet;
use std::io::{self, Write};

use jiff::civil::Date;
use threadfold_core::{ConversationId, ConversationState, SessionMetadata, TokenUsage};

use super::conversation::Teller;
use super::page::Page;
use super::palette::{BOLD, DIM, ODD, TOOL};
use super::text::Span;
use super::words::{between, cost, count, duration, local_time, number};

/// How much is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// Inputs and outputs of tools, words of the system and unknown records, whole.
    pub(crate) is_full: bool,
    /// What the model thought.
    pub(crate) has_thinking: bool,
    /// What subagents said.
    pub(crate) has_subagents: bool,
}

/// A session as it is being drawn.
pub(super) struct Drawing<'a, W> {
    pub(super) page: &'a mut Page<W>,
    pub(super) state: &'a ConversationState,
    pub(super) metadata: &'a SessionMetadata,
    pub(super) shown: Shown,
    /// Conversations that are on the page.
    pub(super) drawn: HashSet<ConversationId>,
    /// The day that was told last.
    pub(super) day: Option<Date>,
}

/// Draws a session.
pub(crate) fn draw<W: Write>(
    page: &mut Page<W>,
    state: &ConversationState,
    metadata: &SessionMetadata,
    shown: Shown,
) -> io::Result<()> {
    let mut drawing = Drawing { page, state, metadata, shown, drawn: HashSet::new(), day: None };
    drawing.heading()?;
    drawing.conversation(state.blocks(), Teller::Main, 0)?;
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

    /// Draws the subagents that no block leads to.
    fn uncalled(&mut self) -> io::Result<()> {
        let left: Vec<_> = self
            .state
            .subagents()
            .into_iter()
            .filter(|it| !self.drawn.contains(it.conversation_id()) && !it.blocks().is_empty())
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        self.page.gap();
        if !self.shown.has_subagents {
            let told = count(
                left.len(),
                "subagent that no call here made",
                "subagents that no call here made",
            );
            return self.page.wide(&[Span::new(&told, DIM)]);
        }
        for subagent in left {
            if !self.drawn.insert(subagent.conversation_id().clone()) {
                continue;
            }
            self.page.gap();
            self.page.line(&[
                Span::new("● ", ODD),
                Span::new("Agent", TOOL),
                Span::plain(&format!("  {}", subagent.conversation_id())),
                Span::new("  no call here made it", DIM),
            ])?;
            self.page.indent(None, Span::new("│ ", DIM))?;
            self.page.tight();
            self.conversation(subagent.blocks(), Teller::Subagent, 1)?;
            self.page.dedent();
        }
        Ok(())
    }

    /// Draws what the session amounts to.
    fn sums(&mut self) -> io::Result<()> {
        let subagents = self.state.subagents();
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
        Ok(())
    }
}

fn tokens(usage: TokenUsage) -> String {
    let mut parts =
        vec![format!("{} in", number(usage.input)), format!("{} out", number(usage.output))];
    if usage.cache_read > 0 {
        parts.push(format!("{} read from cache", number(usage.cache_read)));
    }
    if usage.cache_creation > 0 {
        parts.push(format!("{} put into cache", number(usage.cache_creation)));
    }
    format!("tokens: {}", parts.join(" · "))
}
