//! A strict provider's record of its answers.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{ResponseStorage, json::Value};

/// The answers so far.
#[derive(Default)]
pub(super) struct Memory {
    /// The answers, by the prefix of their request.
    answers: HashMap<Prefix, Vec<ThinkingAnswer>>,
    /// The signatures of all thinking.
    marks: HashSet<String>,
    /// The items of responses that may be sent back.
    items: Vec<GivenItem>,
    /// The positions of items by id, and of reasoning by encrypted content.
    by_name: HashMap<String, Vec<usize>>,
    /// The stored responses, with their calls.
    stored: HashMap<String, Vec<String>>,
}

/// Everything before a message: the system prompt, the tools and the messages, by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Prefix(u64);

impl Prefix {
    pub(super) fn start(request: &Value<'_>) -> Self {
        let spelt = |name| request.get(name).map(|it| it.text);
        Self(hash(&(spelt("system"), spelt("tools"))))
    }

    pub(super) fn then(self, message: &Value<'_>) -> Self {
        Self(hash(&(self.0, message.text)))
    }
}

fn hash(it: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    it.hash(&mut hasher);
    hasher.finish()
}

/// The thinking of an answer.
pub(super) struct ThinkingAnswer {
    /// The blocks up to the last thinking that is followed by something, as given.
    pub(super) blocks: Vec<String>,
    /// Its calls.
    pub(super) calls: Vec<String>,
}

/// An item of a response, and its neighbours there.
pub(super) struct GivenItem {
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) call: String,
    pub(super) encrypted: String,
    pub(super) is_stored: bool,
    /// The reasoning right before it.
    pub(super) before: Option<usize>,
    /// The item right after it.
    pub(super) after: Option<usize>,
}

impl Memory {
    pub(super) fn gave_message(&mut self, request: &Value<'_>, answer: &Value<'_>) {
        let prefix = request.items("messages").iter().fold(Prefix::start(request), Prefix::then);
        let blocks = answer.items("content");
        // Trailing thinking cannot be sent back, because no message may end with it, and neither
        // can empty text.
        let is_said = |it: &Value<'_>| {
            !is_thinking(it) && (it.word("type") != "text" || !it.word("text").trim().is_empty())
        };
        let said = blocks.iter().rposition(is_said).map_or(0, |last| last + 1);
        let thought = blocks[..said].iter().rposition(is_thinking).map_or(0, |last| last + 1);
        self.marks.extend(blocks.iter().filter_map(mark).map(str::to_owned));
        let calls = blocks.iter().filter(|it| it.word("type") == "tool_use");
        self.answers.entry(prefix).or_default().push(ThinkingAnswer {
            blocks: blocks[..thought].iter().map(|it| it.text.to_owned()).collect(),
            calls: calls.map(|it| it.word("id").to_owned()).collect(),
        });
    }

    /// Returns the answers for a prefix.
    pub(super) fn answers(&self, prefix: Prefix) -> &[ThinkingAnswer] {
        self.answers.get(&prefix).map_or(&[], Vec::as_slice)
    }

    /// Returns whether thinking with this signature was given.
    pub(super) fn gave_mark(&self, mark: &str) -> bool {
        self.marks.contains(mark)
    }

    pub(super) fn gave_response(&mut self, response: &Value<'_>, keeping: ResponseStorage) {
        let output = response.items("output");
        let first = self.items.len();
        for (place, item) in output.iter().enumerate() {
            let at = first + place;
            let is_reasoning = |it: &Value<'_>| it.word("type") == "reasoning";
            let is_behind_reasoning =
                !is_reasoning(item) && place > 0 && is_reasoning(&output[place - 1]);
            for name in [item.word("id"), item.word("encrypted_content")] {
                if !name.is_empty() {
                    self.by_name.entry(name.to_owned()).or_default().push(at);
                }
            }
            self.items.push(GivenItem {
                kind: item.word("type").to_owned(),
                id: item.word("id").to_owned(),
                call: item.word("call_id").to_owned(),
                encrypted: item.word("encrypted_content").to_owned(),
                is_stored: keeping == ResponseStorage::Stored,
                before: is_behind_reasoning.then(|| at - 1),
                after: (place + 1 < output.len()).then_some(at + 1),
            });
        }
        if keeping == ResponseStorage::Stored {
            let calls = output.iter().filter(|it| it.word("type") == "function_call");
            let calls = calls.map(|it| it.word("call_id").to_owned()).collect();
            self.stored.insert(response.word("id").to_owned(), calls);
        }
    }

    /// Returns the items with this id or this encrypted content.
    pub(super) fn items_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a GivenItem> {
        self.by_name.get(name).into_iter().flatten().map(|at| &self.items[*at])
    }

    pub(super) fn item(&self, at: Option<usize>) -> Option<&GivenItem> {
        self.items.get(at?)
    }

    /// Returns the calls of a stored response.
    pub(super) fn stored(&self, response: &str) -> Option<&[String]> {
        self.stored.get(response).map(Vec::as_slice)
    }
}

/// Returns whether a block is thinking, readable or redacted.
pub(super) fn is_thinking(block: &Value<'_>) -> bool {
    mark_name(block).is_some()
}

/// Returns the signature or data that identifies thinking.
pub(super) fn mark<'a>(block: &'a Value<'_>) -> Option<&'a str> {
    mark_name(block).map(|name| block.word(name))
}

fn mark_name(block: &Value<'_>) -> Option<&'static str> {
    match block.word("type") {
        "thinking" => Some("signature"),
        "redacted_thinking" => Some("data"),
        _ => None,
    }
}
