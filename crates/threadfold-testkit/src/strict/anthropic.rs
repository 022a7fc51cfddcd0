//! Validates requests to Anthropic's Messages.

use std::collections::HashSet;

use super::{
    Refusal,
    json::{self, Value},
    memory::{Memory, Prefix, ThinkingAnswer, is_thinking, mark},
};

/// Decimal megabytes: the stricter reading of the documented limit.
const MEGABYTE: usize = 1_000_000;
const REQUEST_BYTES: usize = 32 * MEGABYTE;
const IMAGE_BYTES: usize = 5 * MEGABYTE;
const MARKS: usize = 4;

pub(super) fn judge(request: &Value<'_>, memory: &Memory) -> Vec<Refusal> {
    let mut walk = Walk {
        memory,
        prefix: Prefix::start(request),
        cycle: 0,
        at: 0,
        waiting: Vec::new(),
        names: HashSet::new(),
        marks: 0,
        refusals: Vec::new(),
    };
    walk.head(request);
    let messages = request.items("messages");
    let is_prompt = |message: &Value<'_>| {
        message.word("role") == "user" && blocks(message).iter().any(|it| it.kind != "tool_result")
    };
    walk.cycle = messages.iter().rposition(is_prompt).unwrap_or_default();
    for message in messages {
        walk.message(message);
    }
    walk.unanswered();
    if walk.marks > MARKS {
        let found = format!("{} marks `cache_control`, {MARKS} are allowed", walk.marks);
        walk.refuse("A9", found);
    }
    walk.refusals
}

/// A block, or the text in place of one.
struct Block<'v, 'a> {
    kind: &'v str,
    text: Option<&'v str>,
    value: &'v Value<'a>,
}

/// Returns the blocks of a message, of a tool's output or of a system prompt.
fn blocks<'v, 'a>(holder: &'v Value<'a>) -> Vec<Block<'v, 'a>> {
    let Some(content) = holder.get("content") else { return Vec::new() };
    list_blocks(content)
}

fn list_blocks<'v, 'a>(content: &'v Value<'a>) -> Vec<Block<'v, 'a>> {
    if let Some(text) = content.as_text() {
        return vec![Block { kind: "text", text: Some(text), value: content }];
    }
    let block = |value: &'v Value<'a>| {
        let text = value.get("text").and_then(Value::as_text);
        Block { kind: value.word("type"), text, value }
    };
    content.as_list().unwrap_or_default().iter().map(block).collect()
}

struct Walk<'m, 'v> {
    memory: &'m Memory,
    /// The prefix before the current message.
    prefix: Prefix,
    /// The last prompt: thinking after it belongs to the current tool cycle.
    cycle: usize,
    at: usize,
    /// The calls of the previous message.
    waiting: Vec<&'v str>,
    names: HashSet<&'v str>,
    marks: usize,
    refusals: Vec<Refusal>,
}

impl<'v> Walk<'_, 'v> {
    fn refuse(&mut self, rule: &'static str, found: impl Into<String>) {
        self.refusals.push(Refusal::new(rule, format!("messages.{}: {}", self.at, found.into())));
    }

    fn head(&mut self, request: &'v Value<'_>) {
        if request.text.len() > REQUEST_BYTES {
            self.refuse("A8", format!("a request of {} bytes", request.text.len()));
        }
        if request.word("model").is_empty() || request.get("max_tokens").is_none() {
            self.refusals.push(Refusal::shape("`model` or `max_tokens` is not there"));
        }
        self.marks += usize::from(is_marked(request));
        self.marks += request.items("tools").iter().filter(|it| is_marked(it)).count();
        let system = request.items("system");
        self.marks += system.iter().filter(|it| is_marked(it)).count();
        if system.iter().any(|it| it.word("text").trim().is_empty()) {
            self.refuse("A4", "an empty text in the system prompt");
        }
        if request.items("messages").is_empty() {
            self.refuse("A3", "no message");
        }
    }

    fn message(&mut self, message: &'v Value<'_>) {
        let blocks = blocks(message);
        let role = message.word("role");
        if self.at == 0 && role != "user" {
            self.refuse("A3", format!("the first message is from `{role}`"));
        }
        if blocks.is_empty() {
            self.refuse("A4", "a message without content");
        }
        self.marks += blocks.iter().filter(|it| is_marked(it.value)).count();
        match role {
            "user" => self.user(&blocks),
            "assistant" => {
                self.unanswered();
                self.thinking(&blocks);
                self.assistant(&blocks);
            }
            _ => self.refuse("A3", format!("the role `{role}`")),
        }
        self.prefix = self.prefix.then(message);
        self.at += 1;
    }

    /// Refuses calls that have no result.
    fn unanswered(&mut self) {
        for call in std::mem::take(&mut self.waiting) {
            self.refuse("A1", format!("`{call}` of the previous message has no result here"));
        }
    }

    fn user(&mut self, blocks: &[Block<'v, '_>]) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut answered = HashSet::new();
        let mut is_behind = false;
        for block in blocks {
            match block.kind {
                "tool_result" => {
                    let call = block.value.word("tool_use_id");
                    if !waiting.contains(&call) {
                        self.refuse("A2", format!("a result of `{call}`, which is not open"));
                    } else if !answered.insert(call) {
                        self.refuse("A2", format!("two results of `{call}`"));
                    }
                    if is_behind {
                        self.refuse("A1", format!("the result of `{call}` is not at the front"));
                    }
                    self.output(block.value);
                }
                "text" | "image" | "document" | "search_result" => {
                    is_behind = true;
                    self.said(block);
                }
                "thinking" | "redacted_thinking" => {
                    self.refuse("A5", "thinking that is not the model's");
                }
                kind => {
                    let found = format!("messages.{}: a block `{kind}` of the user", self.at);
                    self.refusals.push(Refusal::shape(found));
                }
            }
        }
        self.waiting = waiting.into_iter().filter(|call| !answered.contains(call)).collect();
        self.unanswered();
    }

    /// Validates text and images.
    fn said(&mut self, block: &Block<'_, '_>) {
        if block.kind == "text" && block.text.is_none_or(|it| it.trim().is_empty()) {
            self.refuse("A4", "a blank text");
        }
        let source = block.value.get("source");
        let size = source.map_or(0, |it| it.word("data").len());
        if block.kind == "image" && size > IMAGE_BYTES {
            self.refuse("A8", format!("an image of {size} bytes"));
        }
        if block.kind == "image" && source.is_none_or(|it| it.word("type").is_empty()) {
            self.refusals.push(Refusal::shape("an image without its `source`"));
        }
    }

    fn output(&mut self, result: &'v Value<'_>) {
        let parts = blocks(result);
        if parts.is_empty() {
            self.refuse("A4", "a blank output");
        }
        for part in &parts {
            self.marks += usize::from(is_marked(part.value));
            self.said(part);
        }
    }

    fn assistant(&mut self, blocks: &[Block<'v, '_>]) {
        let mut running: Vec<&str> = Vec::new();
        for block in blocks {
            let id = block.value.word("id");
            match block.kind {
                "text" => self.said(block),
                "thinking" | "redacted_thinking" => self.signed(block.value),
                "tool_use" => {
                    self.name(id);
                    self.call(block.value);
                    self.waiting.push(id);
                }
                "server_tool_use" | "mcp_tool_use" => {
                    self.name(id);
                    running.push(id);
                }
                kind if kind.ends_with("_tool_result") => {
                    let call = block.value.word("tool_use_id");
                    match running.iter().position(|it| *it == call) {
                        Some(place) => _ = running.swap_remove(place),
                        None => {
                            self.refuse("A10", format!("`{kind}` of `{call}`, which never ran"))
                        }
                    }
                }
                kind => {
                    let found = format!("messages.{}: a block `{kind}` of the model", self.at);
                    self.refusals.push(Refusal::shape(found));
                }
            }
        }
        for call in running {
            self.refuse("A10", format!("`{call}` ran and has no result"));
        }
        if blocks.last().is_some_and(|it| is_thinking(it.value)) {
            self.refuse("A3", "thinking at the end of the message");
        }
    }

    fn name(&mut self, id: &'v str) {
        if !self.names.insert(id) {
            self.refuse("A2", format!("a second call `{id}`"));
        }
    }

    fn call(&mut self, call: &Value<'_>) {
        let is_whole = !call.word("id").is_empty()
            && !call.word("name").is_empty()
            && call.get("input").is_some_and(Value::is_object);
        if !is_whole {
            self.refusals
                .push(Refusal::shape(format!("messages.{}: a call that is none", self.at)));
        }
    }

    fn signed(&mut self, block: &Value<'_>) {
        let is_whole = mark(block).is_some_and(|it| !it.is_empty())
            && (block.word("type") != "thinking" || block.get("thinking").is_some());
        if !is_whole {
            self.refuse("A5", "thinking without its signature or its text");
        }
        if is_marked(block) {
            self.refuse("A5", "thinking with `cache_control`");
        }
    }

    /// Compares the thinking of a message with the answer given for the same prefix.
    fn thinking(&mut self, blocks: &[Block<'_, '_>]) {
        let answers = self.memory.answers(self.prefix);
        let mut returned = blocks.iter().filter_map(|it| mark(it.value)).peekable();
        if returned.peek().is_some() {
            if answers.iter().any(|answer| is_faithful(answer, blocks)) {
                return;
            }
            let is_strange = returned.any(|mark| !mark.is_empty() && !self.memory.gave_mark(mark));
            if is_strange || !answers.is_empty() {
                self.refuse("A5", "thinking that differs from the original");
            } else {
                self.refuse("A6", "the prefix of the thinking changed");
            }
        } else if self.at > self.cycle {
            let mut owed = answers.iter().filter(|answer| made_calls(answer, blocks)).peekable();
            if owed.peek().is_some() && !owed.any(|answer| is_faithful(answer, blocks)) {
                self.refuse("A5", "the thinking of the calls is missing");
            }
        }
    }
}

/// Returns whether a message has an answer's thinking up to its first changed block, and none
/// after it, because later thinking was based on the original.
fn is_faithful(answer: &ThinkingAnswer, blocks: &[Block<'_, '_>]) -> bool {
    let given: Vec<_> =
        answer.blocks.iter().filter_map(|it| json::read(it.as_bytes()).ok()).collect();
    let same = given.iter().zip(blocks).take_while(|(given, block)| *given == block.value).count();
    let is_kept = !given.get(same).is_some_and(is_thinking);
    is_kept && !blocks[same..].iter().any(|it| is_thinking(it.value))
}

fn made_calls(answer: &ThinkingAnswer, blocks: &[Block<'_, '_>]) -> bool {
    let is_made = |block: &Block<'_, '_>| {
        block.kind == "tool_use" && answer.calls.iter().any(|id| id == block.value.word("id"))
    };
    blocks.iter().any(is_made)
}

fn is_marked(value: &Value<'_>) -> bool {
    value.get("cache_control").is_some()
}
