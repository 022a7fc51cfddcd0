//! A script: the model's answers, step by step.
//!
//! A script is data without a wire format, so that it can be played over every protocol.

use std::time::Duration;

use serde_json::{Value, json};

use super::fault::{Attempts, Fault, Place};

/// A named list of steps; a prompt that contains its [`directive`](Script::directive) selects it.
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

    /// Gives each step a token usage of its own, counted from `first`, in which a mix-up shows.
    #[must_use]
    pub fn distinct_usage(mut self, first: u64) -> Self {
        for (number, step) in (first..).zip(&mut self.steps) {
            step.usage = Usage {
                input: 1_000 + number,
                output: 30 + 3 * number,
                cache_read: 500 + 5 * number,
                cache_write: 70 + 7 * number,
            };
        }
        self
    }

    /// Returns the name used in a directive.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the directive that selects this script in a prompt.
    pub fn directive(&self) -> String {
        directive(&self.name)
    }
}

/// Returns the directive that selects the script `name` in a prompt.
pub(crate) fn directive(name: &str) -> String {
    format!("[[play:{name}]]")
}

/// One answer of the model: its blocks, its end, its timing, and its faults.
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
    /// Starts a step without blocks, with deltas of twelve characters and without delays.
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

    /// Adds a call of the tool `name`; its id is generated when the step is played.
    #[must_use]
    pub fn tool_use(self, name: impl Into<String>, input: Value) -> Self {
        self.block(Block::ToolUse { name: name.into(), input })
    }

    /// Adds a call of a tool that takes text, not JSON; only Responses has such tools.
    #[must_use]
    pub fn custom_tool_use(self, name: &str, input: &str) -> Self {
        let item = json!({ "type": "custom_tool_call", "name": name, "input": input });
        self.block(Block::Item(item))
    }

    /// Adds a call of a tool in a namespace; only Responses has namespaces.
    #[must_use]
    pub fn tool_use_in(self, namespace: &str, name: &str, input: &Value) -> Self {
        let arguments = input.to_string();
        let item = json!({ "type": "function_call", "namespace": namespace, "name": name,
            "arguments": arguments });
        self.block(Block::Item(item))
    }

    /// Adds a block.
    #[must_use]
    pub fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    /// Sets the stop reason; the default depends on whether a tool is called.
    #[must_use]
    pub fn stop(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Sets the token usage that the answer reports.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Adds a fault for the given attempts; if several match, the first one added wins.
    #[must_use]
    pub fn fault(mut self, attempts: Attempts, fault: Fault) -> Self {
        self.faults.push((attempts, fault));
        self
    }

    /// Stops the stream at `place` until [`release`](super::ScriptedModel::release) names `gate`.
    ///
    /// This lets a test act in the middle of an answer without relying on timing.
    #[must_use]
    pub fn hold(mut self, place: Place, gate: impl Into<String>) -> Self {
        self.holds.push((place, gate.into()));
        self
    }

    /// Sets the number of characters per delta; zero counts as one.
    #[must_use]
    pub fn chunk_chars(mut self, count: usize) -> Self {
        self.chunk_chars = count.max(1);
        self
    }

    /// Sets the delay before each delta.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Returns the blocks, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the stop reason.
    pub fn stop_reason(&self) -> StopReason {
        let calls_a_tool = || self.blocks.iter().any(Block::is_call);
        match self.stop_reason {
            Some(reason) => reason,
            None if calls_a_tool() => StopReason::ToolUse,
            None => StopReason::EndTurn,
        }
    }

    /// Returns the token usage that the answer reports.
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

    /// Splits `text` into deltas, between characters; an empty text has one empty delta.
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
    /// Text for the user.
    Text(String),
    /// Readable thinking.
    Thinking {
        /// The text.
        text: String,
        /// The provider's signature.
        signature: String,
    },
    /// Redacted thinking, as opaque data.
    RedactedThinking(String),
    /// A call of a tool.
    ToolUse {
        /// The tool's name.
        name: String,
        /// Its arguments.
        input: Value,
    },
    /// A tool call with the model's exact argument text.
    WrittenToolUse {
        /// The tool's name.
        name: String,
        /// The arguments, which need not be JSON.
        arguments: String,
    },
    /// A provider-specific item, such as a tool that ran on its side.
    ///
    /// Chat Completions has no equivalent.
    Item(Value),
}

impl Block {
    /// Returns whether it calls one of the agent's tools.
    pub(crate) fn is_call(&self) -> bool {
        match self {
            Self::ToolUse { .. } | Self::WrittenToolUse { .. } => true,
            Self::Item(item) => {
                item["type"] == "function_call" || item["type"] == "custom_tool_call"
            }
            _ => false,
        }
    }

    /// Returns the arguments of a tool call, as the model writes them.
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
    /// Tools must run.
    ToolUse,
    /// It reached the token limit.
    MaxTokens,
    /// The provider refused to continue.
    Refusal,
}

/// The token usage that an answer reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cache_read: 0, cache_write: 0 }
    }
}
