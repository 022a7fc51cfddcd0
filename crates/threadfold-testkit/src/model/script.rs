//! A script: what the model says, step by step.
//!
//! A script is data and knows no wire format, so that one script is played over every protocol.

use std::time::Duration;

use serde_json::Value;

use super::fault::{Attempts, Fault, Place};

/// A named list of steps; a prompt that contains its [`directive`](Script::directive) picks it.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    name: String,
    steps: Vec<Step>,
}

impl Script {
    /// Starts an empty script.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), steps: Vec::new() }
    }

    /// Adds the next step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Returns the name that a directive says.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns what a prompt must contain for this script to be played.
    pub fn directive(&self) -> String {
        directive(&self.name)
    }
}

/// Returns what a prompt must contain for the script `name` to be played.
pub(crate) fn directive(name: &str) -> String {
    format!("[[play:{name}]]")
}

/// One answer of the model: its blocks, how it ends, how it comes, and what goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    blocks: Vec<Block>,
    stop_reason: Option<StopReason>,
    usage: Usage,
    faults: Vec<(Attempts, Fault)>,
    holds: Vec<(Place, String)>,
    chunk_chars: usize,
    delay: Duration,
}

impl Default for Step {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            stop_reason: None,
            usage: Usage::default(),
            faults: Vec::new(),
            holds: Vec::new(),
            chunk_chars: 12,
            delay: Duration::ZERO,
        }
    }
}

impl Step {
    /// Starts a step without blocks, whose deltas have twelve characters and come at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text block.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.block(Block::Text(text.into()))
    }

    /// Adds a thinking block with its signature.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        self.block(Block::Thinking { text: text.into(), signature: signature.into() })
    }

    /// Adds a redacted thinking block.
    #[must_use]
    pub fn redacted_thinking(self, data: impl Into<String>) -> Self {
        self.block(Block::RedactedThinking(data.into()))
    }

    /// Adds a call of the tool `name`; its id is made when the step is played.
    #[must_use]
    pub fn tool_use(self, name: impl Into<String>, input: Value) -> Self {
        self.block(Block::ToolUse { name: name.into(), input })
    }

    /// Adds a block.
    #[must_use]
    pub fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    /// Sets the stop reason, which otherwise follows from whether a tool is called.
    #[must_use]
    pub fn stop(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Sets the tokens that the answer claims to have used.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Makes `fault` happen on the given attempts; of several that fit, the first one said wins.
    #[must_use]
    pub fn fault(mut self, attempts: Attempts, fault: Fault) -> Self {
        self.faults.push((attempts, fault));
        self
    }

    /// Stops the stream at `place` until [`release`](super::ScriptedModel::release) names `gate`.
    ///
    /// This is how a test does something in the middle of an answer without guessing a time.
    #[must_use]
    pub fn hold(mut self, place: Place, gate: impl Into<String>) -> Self {
        self.holds.push((place, gate.into()));
        self
    }

    /// Sets how many characters a delta has; zero counts as one.
    #[must_use]
    pub fn chunk_chars(mut self, count: usize) -> Self {
        self.chunk_chars = count.max(1);
        self
    }

    /// Sets how long the model waits before each delta.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Returns the blocks, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns how the answer ends.
    pub fn stop_reason(&self) -> StopReason {
        let calls_a_tool = || self.blocks.iter().any(Block::is_call);
        match self.stop_reason {
            Some(reason) => reason,
            None if calls_a_tool() => StopReason::ToolUse,
            None => StopReason::EndTurn,
        }
    }

    /// Returns the tokens that the answer claims to have used.
    pub fn tokens(&self) -> Usage {
        self.usage
    }

    /// Returns the fault of the given attempt, the first of which is 1.
    pub(crate) fn fault_of(&self, attempt: u32) -> Option<&Fault> {
        self.faults.iter().find(|(attempts, _)| attempts.include(attempt)).map(|(_, fault)| fault)
    }

    pub(crate) fn holds(&self) -> &[(Place, String)] {
        &self.holds
    }

    pub(crate) fn pause(&self) -> Duration {
        self.delay
    }

    /// Cuts `text` into deltas, between characters; an empty text has one empty delta.
    pub(crate) fn chunks(&self, text: &str) -> Vec<String> {
        let characters: Vec<char> = text.chars().collect();
        if characters.is_empty() {
            return vec![String::new()];
        }
        characters.chunks(self.chunk_chars).map(|it| it.iter().collect()).collect()
    }
}

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Words to the user.
    Text(String),
    /// Thinking that may be read.
    Thinking {
        /// What was thought.
        text: String,
        /// What proves that the provider made it.
        signature: String,
    },
    /// Thinking that may not be read, as opaque data.
    RedactedThinking(String),
    /// A call of a tool.
    ToolUse {
        /// The tool's name.
        name: String,
        /// What it is called with.
        input: Value,
    },
    /// A call of a tool, with arguments in the very words of the model.
    WrittenToolUse {
        /// The tool's name.
        name: String,
        /// The arguments, which need not be JSON.
        arguments: String,
    },
    /// An item of the provider's own, such as a tool that ran at its side.
    ///
    /// Chat Completions has no place for it.
    Item(Value),
}

impl Block {
    /// Says whether it calls a tool of the agent's.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self, Self::ToolUse { .. } | Self::WrittenToolUse { .. })
    }

    /// Returns what a tool is called with, as the model writes it.
    pub(crate) fn arguments(&self) -> String {
        match self {
            Self::ToolUse { input, .. } => input.to_string(),
            Self::WrittenToolUse { arguments, .. } => arguments.clone(),
            _ => String::new(),
        }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was complete.
    EndTurn,
    /// Tools are to be run.
    ToolUse,
    /// It was as long as it may be.
    MaxTokens,
    /// The provider would not go on.
    Refusal,
}

/// How many tokens an answer claims to have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens put into the provider's cache.
    pub cache_write: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cache_read: 0, cache_write: 0 }
    }
}
