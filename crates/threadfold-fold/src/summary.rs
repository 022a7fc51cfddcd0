//! The summary of a session, as lists show it.

use serde::{Deserialize, Serialize};
use threadfold_convert::Agent;
use threadfold_core::{
    BlockBody, Content, ConversationState, Effect, NextStep, PartBody, SessionEvent,
    SessionMetadata, TokenUsage, resume_plan,
};

use crate::fold::Fold;
use crate::source::{Source, SourceRole, SourceSpec};

/// The most characters of a prompt in a summary.
const PROMPT: usize = 2_000;

/// The summary of a session, as lists show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionSummary {
    /// The agent.
    pub agent: Option<String>,
    /// The path of its main file.
    pub path: Option<String>,
    /// The title that the agent or a person gave it.
    pub title: Option<String>,
    /// The first prompt, truncated.
    pub first_prompt: Option<String>,
    /// The first slash command, truncated.
    pub first_command: Option<String>,
    /// The last model of the main conversation.
    pub model: Option<String>,
    /// The agent's working directory.
    pub cwd: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// The earliest time of any event.
    pub started_at: Option<String>,
    /// The latest time of any event.
    pub ended_at: Option<String>,
    /// The cost in US dollars, as the agent reports it.
    pub cost_usd: Option<f64>,
    /// The tokens of the whole session.
    pub usage: TokenUsage,
    /// The number of blocks in all conversations that are not internal; nothing if the session was
    /// not folded.
    pub blocks: Option<usize>,
    /// The number of subagents that are not internal; nothing if the session was not folded.
    pub subagents: Option<usize>,
    /// The number of internal subagents: helpers of the agent itself, which nobody called.
    pub internal: usize,
    /// The hash of the conversation; nothing if the session was not folded.
    pub state_hash: Option<String>,
    /// It is a session of Threadfold's own agent loop with work left to do.
    pub is_unfinished: bool,
    /// The bytes of its line files that are in the log, to detect that a file has grown.
    pub line_bytes: u64,
}

impl SessionSummary {
    /// Returns the part of the summary that follows from conversation and metadata.
    pub fn of(state: &ConversationState, metadata: &SessionMetadata) -> Self {
        let subagents = state.subagents();
        let own = |text: Option<&str>| text.map(str::to_owned);
        let counted: Vec<_> = subagents.iter().filter(|it| !it.is_internal()).collect();
        let inside: usize = counted.iter().map(|it| it.blocks().len()).sum();
        // Some agents write times on blocks only, and none on other events.
        let (first, last) = match metadata.started_at() {
            Some(_) => (None, None),
            None => times_of(state),
        };
        Self {
            first_prompt: first_prompt(state),
            first_command: first_command(state),
            blocks: Some(state.blocks().len() + inside),
            subagents: Some(counted.len()),
            internal: subagents.len() - counted.len(),
            title: own(metadata.title()),
            model: own(metadata.model()),
            cwd: own(metadata.cwd()),
            version: own(metadata.version()),
            started_at: own(metadata.started_at()).or(first),
            ended_at: own(metadata.ended_at()).or(last),
            cost_usd: metadata.cost_usd(),
            usage: metadata.usage(),
            ..Self::default()
        }
    }
}

impl Fold {
    /// Returns the summary of the session.
    pub fn summary(&self) -> SessionSummary {
        self.summary_with(&self.settled(), self.state_hash(), self.agent())
    }

    /// Returns the summary of the session without copying the memory of the converter or the state.
    pub fn into_summary(self) -> SessionSummary {
        self.into_summary_with(|_| {})
    }

    /// Returns the summary of the session as [`into_summary`](Self::into_summary) does, and passes
    /// the events that follow because every source ends to `each`, in portions.
    pub fn into_summary_with(mut self, mut each: impl FnMut(&[SessionEvent])) -> SessionSummary {
        let (agent, hash) = (self.agent(), self.state_hash());
        let mut settling = self.begin_settling();
        self.end(|events| {
            settling.apply(events);
            each(events);
        });
        self.summary_with(&settling.state, hash, agent)
    }

    fn summary_with(
        &self,
        settled: &ConversationState,
        hash: String,
        agent: Option<Agent>,
    ) -> SessionSummary {
        let base = SessionSummary::of(settled, self.metadata());
        let path = |is_wanted: fn(&SourceSpec) -> bool| {
            self.sources().filter(|it| is_wanted(&it.spec)).find_map(|it| it.spec.path.clone())
        };
        let path = path(|it| it.kind == SourceRole::Main).or_else(|| path(|_| true));
        let turns = self.reported_turns();
        let is_loop = turns.last().is_some();
        let next = resume_plan(turns, |_| Effect::Unsafe).next;
        let agent = agent.map(|it| it.name()).or(is_loop.then_some("threadfold"));
        SessionSummary {
            agent: agent.map(str::to_owned),
            is_unfinished: is_loop && next != NextStep::Done,
            path,
            state_hash: Some(hash),
            line_bytes: self.line_bytes(),
            ..base
        }
    }
}

impl Fold {
    /// Returns the size of all line files, counting the latest part of each.
    fn line_bytes(&self) -> u64 {
        let is_latest = |it: &&Source| self.source(&it.spec).map(|it| it.number) == Some(it.number);
        // Other sources are not files whose size could be compared.
        let is_file = |it: &&Source| {
            !matches!(it.spec.kind, SourceRole::Stream | SourceRole::Rows | SourceRole::Events)
        };
        self.sources().filter(is_latest).filter(is_file).map(Source::line_bytes).sum()
    }
}

/// Returns the earliest and the latest time of any block.
///
/// Times compare as text, because one agent writes all of them in one format.
fn times_of(state: &ConversationState) -> (Option<String>, Option<String>) {
    let subagents = state.subagents();
    let inside = subagents.iter().flat_map(|it| it.blocks().iter());
    let (mut first, mut last): (Option<String>, Option<String>) = (None, None);
    for block in state.blocks().iter().chain(inside) {
        let Some(time) = block.timestamp.as_deref() else { continue };
        if first.as_deref().is_none_or(|it| time < it) {
            first = Some(time.to_owned());
        }
        if last.as_deref().is_none_or(|it| time > it) {
            last = Some(time.to_owned());
        }
    }
    (first, last)
}

fn first_prompt(state: &ConversationState) -> Option<String> {
    // A prompt that left the context is still what the session began with.
    state.blocks().of_kind("user_message").find_map(|block| match &block.body {
        BlockBody::UserMessage(message) => Some(truncate(&content_text(&message.content))),
        _ => None,
    })
}

fn first_command(state: &ConversationState) -> Option<String> {
    state.blocks().of_kind("system").find_map(|block| match &block.body {
        BlockBody::System(body) if &*body.subtype == "command" => {
            let text = body.message.as_ref()?.to_str();
            text.starts_with("<command-").then(|| truncate(&text))
        }
        _ => None,
    })
}

fn content_text(content: &Content) -> String {
    match content {
        Content::Text(text) => text.to_str().into_owned(),
        Content::Parts(parts) => {
            let texts = parts.iter().filter_map(|part| match &part.body {
                PartBody::Text(text) => Some(text.text.to_str()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

fn truncate(text: &str) -> String {
    text.chars().take(PROMPT).collect()
}
