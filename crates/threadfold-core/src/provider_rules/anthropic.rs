//! The rules of Anthropic's Messages API.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdSet;
use serde_json::value::RawValue;

use super::request::{Item, Request, list, text};
use super::violation::{ProviderRule, Violation};

const REQUEST_LIMIT: usize = 32_000_000;
/// Counted in base64, so that the limit holds whichever way the provider counts.
pub(super) const IMAGE_LIMIT: usize = 5_000_000;
const MARK_LIMIT: usize = 4;

/// Checks a request to Anthropic's Messages API, or its list of messages, against every rule that a
/// single request can break.
///
/// ```
/// use threadfold_core::{ProviderRule, check_anthropic};
///
/// let broken = check_anthropic(br#"[{"role":"user","content":" "}]"#);
/// assert_eq!(broken[0].rule, ProviderRule::A4);
/// ```
pub fn check_anthropic(request: &[u8]) -> Vec<Violation> {
    let read = match Request::read(request, "messages") {
        Ok(read) => read,
        Err(violation) => return vec![violation],
    };
    let mut check = AnthropicCheck::default();
    read.messages.iter().for_each(|message| check.push(message));
    check.verdict(&read.fields, request.len())
}

pub(super) struct Message<'a> {
    pub(super) role: String,
    pub(super) blocks: Vec<Block<'a>>,
}

pub(super) struct Block<'a> {
    pub(super) kind: String,
    pub(super) raw: Option<&'a RawValue>,
    fields: Item<'a>,
    /// The text of a message whose content is a plain string.
    plain: Option<String>,
}

impl Block<'_> {
    pub(super) fn is_thinking(&self) -> bool {
        matches!(&*self.kind, "thinking" | "redacted_thinking")
    }

    /// Returns true for a text block without visible text.
    pub(super) fn is_blank(&self) -> bool {
        let text = || self.plain.clone().or_else(|| self.fields.text("text"));
        self.kind == "text" && text().is_none_or(|text| text.trim().is_empty())
    }
}

/// Returns true if a block of this kind is a server-side tool call: `server_tool_use`,
/// `mcp_tool_use`.
pub(super) fn is_server_call(kind: &str) -> bool {
    kind.ends_with("_tool_use")
}

/// Returns true if a block of this kind is the result of a server-side tool call.
pub(super) fn is_server_result(kind: &str) -> bool {
    kind.ends_with("_tool_result")
}

pub(super) fn read_message(raw: &RawValue) -> Message<'_> {
    let message = Item::read(raw);
    let content = message.get("content");
    let blocks = match (content.and_then(list), content.and_then(text)) {
        (Some(blocks), _) => blocks.into_iter().map(read_block).collect(),
        (None, Some(text)) => vec![Block {
            kind: "text".into(),
            raw: None,
            fields: Item::default(),
            plain: Some(text),
        }],
        (None, None) => Vec::new(),
    };
    Message { role: message.string("role"), blocks }
}

fn read_block(raw: &RawValue) -> Block<'_> {
    let fields = Item::read(raw);
    Block { kind: fields.string("type"), raw: Some(raw), fields, plain: None }
}

impl Message<'_> {
    fn ids(&self, is_kind: impl Fn(&str) -> bool, id: &str) -> Vec<String> {
        let blocks = self.blocks.iter().filter(|it| is_kind(&it.kind));
        blocks.map(|it| it.fields.string(id)).collect()
    }

    fn calls(&self) -> Vec<String> {
        self.ids(|kind| kind == "tool_use", "id")
    }

    fn results(&self) -> Vec<String> {
        self.ids(|kind| kind == "tool_result", "tool_use_id")
    }
}

/// The check of a request, message by message: what later messages are compared with, and what was
/// found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct AnthropicCheck {
    length: usize,
    calls: OrdSet<Arc<str>>,
    last: LastMessage,
    marks: usize,
    found: ViolationLists,
}

/// What the next message decides about the last one.
#[derive(Clone, Debug, Default)]
struct LastMessage {
    calls: Vec<String>,
    /// A result that does not come first.
    misplaced: Option<Violation>,
}

/// Violations in the order in which they are reported: by rule, then by message.
#[derive(Clone, Debug, Default)]
struct ViolationLists {
    calls: Vec<Violation>,
    results: Vec<Violation>,
    roles: Vec<Violation>,
    contents: Vec<Violation>,
    server_tools: Vec<Violation>,
}

impl AnthropicCheck {
    /// Adds a message at the end.
    pub(super) fn push(&mut self, raw: &RawValue) {
        let at = self.length;
        let message = read_message(raw);
        self.check_roles(at, &message);
        self.check_contents(at, &message);
        self.check_server_tools(at, &message);
        self.count_marks(&message);
        let results = message.results();
        self.check_results(at, &message, &results);
        let missing = self.unanswered(|call| results.contains(call));
        self.found.calls.extend(missing);
        let misplaced = misplaced_result(at, &message);
        self.last = LastMessage { calls: message.calls(), misplaced };
        self.length += 1;
    }

    /// Returns the rules that a request with these messages, these fields and this size breaks.
    pub(super) fn verdict(&self, fields: &Item<'_>, size: usize) -> Vec<Violation> {
        let ViolationLists { calls, results, roles, contents, server_tools } = &self.found;
        let mut found = calls.clone();
        found.extend(self.unanswered(|_| false));
        found.extend([results, roles, contents].into_iter().flatten().cloned());
        self.check_fields(fields, &mut found);
        found.extend(server_tools.iter().cloned());
        let marks = self.marks + marks_of_fields(fields);
        if marks > MARK_LIMIT {
            let marks = format!("{marks} `cache_control` marks");
            found.push(Violation::new(ProviderRule::A9, "", marks));
        }
        if size > REQUEST_LIMIT {
            let size = format!("a request of {size} bytes");
            found.push(Violation::new(ProviderRule::A8, "", size));
        }
        found
    }

    /// Returns what is wrong with the calls and results of the last message.
    fn unanswered(&self, is_answered: impl Fn(&String) -> bool) -> Vec<Violation> {
        let place = || format!("messages.{}", self.length.saturating_sub(1));
        let missing = self.last.calls.iter().filter(|call| !is_answered(call)).map(|call| {
            let found = format!("call `{call}` has no result in the next message");
            Violation::new(ProviderRule::A1, place(), found)
        });
        missing.chain(self.last.misplaced.clone()).collect()
    }

    fn check_results(&mut self, at: usize, message: &Message<'_>, results: &[String]) {
        let mut add = |found: String| {
            let place = format!("messages.{at}");
            self.found.results.push(Violation::new(ProviderRule::A2, place, found));
        };
        let mut calls = message.calls();
        calls.extend(message.ids(is_server_call, "id"));
        for call in calls {
            if self.calls.insert(call.as_str().into()).is_some() {
                add(format!("a second call `{call}`"));
            }
        }
        let mut answered = BTreeSet::new();
        for result in results {
            if !self.last.calls.contains(result) {
                add(format!("a result for `{result}`, which the previous message did not call"));
            } else if !answered.insert(result) {
                add(format!("a second result for `{result}`"));
            }
        }
    }

    fn check_fields(&self, request: &Item<'_>, found: &mut Vec<Violation>) {
        for (at, block) in request.items("system").iter().enumerate() {
            if block.string("type") == "text" && block.string("text").trim().is_empty() {
                let place = format!("system.{at}");
                found.push(Violation::new(ProviderRule::A4, place, "an empty text"));
            }
        }
        if request.get("messages").is_some() && self.length == 0 {
            let empty = "an empty list of messages";
            found.push(Violation::new(ProviderRule::A3, "messages", empty));
        }
    }

    fn check_roles(&mut self, at: usize, message: &Message<'_>) {
        let mut add = |found: String| {
            let place = format!("messages.{at}");
            self.found.roles.push(Violation::new(ProviderRule::A3, place, found));
        };
        if !matches!(&*message.role, "user" | "assistant") {
            add(format!("the role `{}`", message.role));
        }
        if at == 0 && message.role != "user" {
            add(format!("the first message is from `{}`", message.role));
        }
        if message.role == "assistant"
            && let Some(last) = message.blocks.last().filter(|it| it.is_thinking())
        {
            add(format!("the message ends with `{}`", last.kind));
        }
    }

    fn check_contents(&mut self, at: usize, message: &Message<'_>) {
        let contents = &mut self.found.contents;
        if message.blocks.is_empty() {
            let place = format!("messages.{at}");
            contents.push(Violation::new(ProviderRule::A4, place, "no content"));
        }
        for (index, block) in message.blocks.iter().enumerate() {
            for (rule, found) in check_block(&message.role, block) {
                let place = format!("messages.{at}.content.{index}");
                contents.push(Violation::new(rule, place, found));
            }
        }
    }

    fn check_server_tools(&mut self, at: usize, message: &Message<'_>) {
        let mut add = |place: String, found: String| {
            self.found.server_tools.push(Violation::new(ProviderRule::A10, place, found));
        };
        let mut open = BTreeSet::new();
        for (index, block) in message.blocks.iter().enumerate() {
            let place = || format!("messages.{at}.content.{index}");
            if is_server_call(&block.kind) {
                open.insert((block.fields.string("id"), place()));
            } else if is_server_result(&block.kind) {
                let id = block.fields.string("tool_use_id");
                match open.iter().find(|(call, _)| *call == id).cloned() {
                    Some(call) => _ = open.remove(&call),
                    None => add(place(), format!("a result for `{id}` without its call")),
                }
            }
        }
        open.into_iter().for_each(|(id, place)| add(place, format!("`{id}` has no result")));
    }

    fn count_marks(&mut self, message: &Message<'_>) {
        for block in &message.blocks {
            self.marks += usize::from(is_marked(&block.fields));
            self.marks += block.fields.items("content").iter().filter(|it| is_marked(it)).count();
        }
    }
}

fn is_marked(item: &Item<'_>) -> bool {
    item.get("cache_control").is_some()
}

/// Returns how many marks are outside of the messages.
fn marks_of_fields(request: &Item<'_>) -> usize {
    let lists = ["system", "tools"].into_iter();
    lists.map(|name| request.items(name).iter().filter(|it| is_marked(it)).count()).sum()
}

/// Returns the violation of a message in which a result follows other content.
fn misplaced_result(at: usize, message: &Message<'_>) -> Option<Violation> {
    let kinds: Vec<_> = message.blocks.iter().map(|it| &*it.kind).collect();
    let other = kinds.iter().position(|kind| *kind != "tool_result")?;
    let last = kinds.iter().rposition(|kind| *kind == "tool_result").filter(|it| other < *it)?;
    let found = format!("a result after `{}`", kinds[other]);
    Some(Violation::new(ProviderRule::A1, format!("messages.{at}.content.{last}"), found))
}

/// Checks a block by itself.
fn check_block(role: &str, block: &Block<'_>) -> Vec<(ProviderRule, String)> {
    let fields = &block.fields;
    let is_blank = |text: Option<String>| text.is_none_or(|text| text.trim().is_empty());
    match &*block.kind {
        "text" if block.is_blank() => vec![(ProviderRule::A4, "an empty text".to_owned())],
        "tool_result" => check_output(fields),
        "thinking" | "redacted_thinking" => {
            let mark = if block.kind == "thinking" { "signature" } else { "data" };
            let mut found = Vec::new();
            if is_blank(fields.text(mark)) {
                found.push((ProviderRule::A5, format!("`{}` without `{mark}`", block.kind)));
            }
            if fields.get("cache_control").is_some() {
                found.push((ProviderRule::A5, format!("`{}` with `cache_control`", block.kind)));
            }
            if role != "assistant" {
                found.push((
                    ProviderRule::A5,
                    format!("`{}` outside an assistant message", block.kind),
                ));
            }
            found
        }
        "image" => check_image(fields).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn check_output(fields: &Item<'_>) -> Vec<(ProviderRule, String)> {
    let empty = || (ProviderRule::A4, "an empty output".to_owned());
    if let Some(text) = fields.text("content") {
        return if text.trim().is_empty() { vec![empty()] } else { Vec::new() };
    }
    let parts = fields.items("content");
    if parts.is_empty() {
        return vec![empty()];
    }
    let mut found = Vec::new();
    for part in &parts {
        match &*part.string("type") {
            "text" if part.string("text").trim().is_empty() => found.push(empty()),
            "image" => found.extend(check_image(part)),
            _ => {}
        }
    }
    found
}

fn check_image(fields: &Item<'_>) -> Option<(ProviderRule, String)> {
    let size = Item::read(fields.get("source")?).text("data")?.len();
    (size > IMAGE_LIMIT).then(|| (ProviderRule::A8, format!("an image of {size} bytes in base64")))
}
