//! The rules of Anthropic's Messages API.

use std::collections::BTreeSet;

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
    let mut check = Check { messages: read_messages(&read.messages), found: Vec::new() };
    check.calls();
    check.results();
    check.roles();
    check.contents();
    check.system(&read.fields);
    check.server_tools();
    check.marks(&read.fields);
    if request.len() > REQUEST_LIMIT {
        check.add(ProviderRule::A8, "", format!("a request of {} bytes", request.len()));
    }
    check.found
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

pub(super) fn read_messages<'a>(messages: &[&'a RawValue]) -> Vec<Message<'a>> {
    let read = |raw: &&'a RawValue| {
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
    };
    messages.iter().map(read).collect()
}

fn read_block(raw: &RawValue) -> Block<'_> {
    let fields = Item::read(raw);
    Block { kind: fields.string("type"), raw: Some(raw), fields, plain: None }
}

struct Check<'a> {
    messages: Vec<Message<'a>>,
    found: Vec<Violation>,
}

impl Check<'_> {
    fn add(&mut self, rule: ProviderRule, place: impl Into<String>, found: impl Into<String>) {
        self.found.push(Violation::new(rule, place, found));
    }

    fn ids(&self, message: usize, kind: &str, id: &str) -> Vec<String> {
        self.ids_of(message, |it| it == kind, id)
    }

    fn ids_of(&self, message: usize, is_kind: impl Fn(&str) -> bool, id: &str) -> Vec<String> {
        let blocks = self.messages.get(message).map_or(&[][..], |it| &it.blocks);
        blocks.iter().filter(|it| is_kind(&it.kind)).map(|it| it.fields.string(id)).collect()
    }

    fn calls(&mut self) {
        for at in 0..self.messages.len() {
            let calls = self.ids(at, "tool_use", "id");
            let results = self.ids(at + 1, "tool_result", "tool_use_id");
            for call in calls.iter().filter(|call| !results.contains(call)) {
                let found = format!("call `{call}` has no result in the next message");
                self.add(ProviderRule::A1, format!("messages.{at}"), found);
            }
            let kinds: Vec<_> = self.messages[at].blocks.iter().map(|it| &*it.kind).collect();
            let others = kinds.iter().position(|kind| *kind != "tool_result");
            let last = kinds.iter().rposition(|kind| *kind == "tool_result");
            if let (Some(other), Some(last)) = (others, last)
                && other < last
            {
                let found = format!("a result after `{}`", kinds[other]);
                self.add(ProviderRule::A1, format!("messages.{at}.content.{last}"), found);
            }
        }
    }

    fn results(&mut self) {
        let mut seen = BTreeSet::new();
        for at in 0..self.messages.len() {
            let place = format!("messages.{at}");
            let mut calls = self.ids(at, "tool_use", "id");
            calls.extend(self.ids_of(at, is_server_call, "id"));
            for call in calls {
                if !seen.insert(call.clone()) {
                    self.add(ProviderRule::A2, &place, format!("a second call `{call}`"));
                }
            }
            let made = match at {
                0 => Vec::new(),
                _ => self.ids(at - 1, "tool_use", "id"),
            };
            let mut answered = BTreeSet::new();
            for result in self.ids(at, "tool_result", "tool_use_id") {
                if !made.contains(&result) {
                    self.add(
                        ProviderRule::A2,
                        &place,
                        format!("a result for `{result}`, which the previous message did not call"),
                    );
                } else if !answered.insert(result.clone()) {
                    self.add(ProviderRule::A2, &place, format!("a second result for `{result}`"));
                }
            }
        }
    }

    fn system(&mut self, request: &Item<'_>) {
        for (at, block) in request.items("system").iter().enumerate() {
            if block.string("type") == "text" && block.string("text").trim().is_empty() {
                self.add(ProviderRule::A4, format!("system.{at}"), "an empty text");
            }
        }
        if request.get("messages").is_some() && self.messages.is_empty() {
            self.add(ProviderRule::A3, "messages", "an empty list of messages");
        }
    }

    fn roles(&mut self) {
        let mut found = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            let place = format!("messages.{at}");
            if !matches!(&*message.role, "user" | "assistant") {
                found.push((place.clone(), format!("the role `{}`", message.role)));
            }
            if at == 0 && message.role != "user" {
                found
                    .push((place.clone(), format!("the first message is from `{}`", message.role)));
            }
            if message.role == "assistant"
                && let Some(last) = message.blocks.last().filter(|it| it.is_thinking())
            {
                found.push((place, format!("the message ends with `{}`", last.kind)));
            }
        }
        found.into_iter().for_each(|(place, found)| self.add(ProviderRule::A3, place, found));
    }

    fn contents(&mut self) {
        let mut found = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            if message.blocks.is_empty() {
                found.push((ProviderRule::A4, format!("messages.{at}"), "no content".to_owned()));
            }
            for (index, block) in message.blocks.iter().enumerate() {
                let place = format!("messages.{at}.content.{index}");
                let wrong = check_block(&message.role, block);
                found.extend(wrong.into_iter().map(|(rule, found)| (rule, place.clone(), found)));
            }
        }
        found.into_iter().for_each(|(rule, place, found)| self.add(rule, place, found));
    }

    fn server_tools(&mut self) {
        let mut found = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            let mut open = BTreeSet::new();
            for (index, block) in message.blocks.iter().enumerate() {
                let place = format!("messages.{at}.content.{index}");
                if is_server_call(&block.kind) {
                    open.insert((block.fields.string("id"), place));
                } else if is_server_result(&block.kind) {
                    let id = block.fields.string("tool_use_id");
                    match open.iter().find(|(call, _)| *call == id).cloned() {
                        Some(call) => _ = open.remove(&call),
                        None => {
                            found.push((place, format!("a result for `{id}` without its call")))
                        }
                    }
                }
            }
            let orphans = open.into_iter();
            found.extend(orphans.map(|(id, place)| (place, format!("`{id}` has no result"))));
        }
        found.into_iter().for_each(|(place, found)| self.add(ProviderRule::A10, place, found));
    }

    fn marks(&mut self, request: &Item<'_>) {
        let is_marked = |item: &Item<'_>| item.get("cache_control").is_some();
        let mut marks = 0;
        for name in ["system", "tools"] {
            marks += request.items(name).iter().filter(|it| is_marked(it)).count();
        }
        for block in self.messages.iter().flat_map(|it| &it.blocks) {
            marks += usize::from(is_marked(&block.fields));
            marks += block.fields.items("content").iter().filter(|it| is_marked(it)).count();
        }
        if marks > MARK_LIMIT {
            self.add(ProviderRule::A9, "", format!("{marks} `cache_control` marks"));
        }
    }
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
