//! A loader that is as fast as one can be written with `serde`, as a baseline: typed structures that
//! borrow from the line, into a vector and a map that are changed in place.
//!
//! It holds the same contents of a plain transcript as a state does, and nothing that a state has
//! beyond them: no old states, no second source, no order other than that of the file, no subagents,
//! no corrupt lines.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A conversation: its blocks in order, and their positions by id.
#[derive(Default)]
pub struct TypedSession {
    blocks: Vec<TypedBlock>,
    positions: HashMap<Box<str>, usize>,
    title: Option<Box<str>>,
}

/// One block.
pub struct TypedBlock {
    timestamp: Option<Box<str>>,
    message: Option<Box<str>>,
    is_open: bool,
    body: TypedBody,
}

enum TypedBody {
    Prompt(Box<str>),
    PromptParts(Vec<Box<str>>),
    Text { text: Box<str>, model: Option<Box<str>> },
    Thought { text: Box<str>, signature: Option<Box<str>> },
    Call { name: Box<str>, input: Option<Box<RawValue>> },
    Result { output: Option<Box<RawValue>>, structured: Option<Box<RawValue>>, is_error: bool },
    Other(Box<str>),
}

impl TypedSession {
    /// Loads a transcript.
    pub fn load(bytes: &[u8]) -> Self {
        let mut session = Self::default();
        // One check for all lines; each is then parsed as text.
        let text = simdutf8::basic::from_utf8(bytes).unwrap_or_default();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text.as_bytes()) {
            session.line(&text[start..end]);
            start = end + 1;
        }
        session.line(&text[start..]);
        session
    }

    /// Counts the blocks by their type.
    pub fn count(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for block in &self.blocks {
            *counts.entry(block.kind().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Returns how many bytes of content the blocks hold.
    pub fn content_length(&self) -> usize {
        self.title.as_deref().map_or(0, str::len)
            + self.blocks.iter().map(TypedBlock::content_length).sum::<usize>()
    }

    fn line(&mut self, text: &str) {
        let Ok(line) = serde_json::from_str::<Line<'_>>(text) else { return };
        match line.kind.as_deref() {
            Some("assistant") => self.assistant(line),
            Some("user") => self.user(line),
            Some("ai-title") => self.title = line.title.map(Str::into_box),
            _ => {}
        }
    }

    fn assistant(&mut self, line: Line<'_>) {
        let Some(message) = line.message else { return };
        let Content::Blocks(blocks) = message.content else { return };
        let id = message.id.as_deref().unwrap_or_default();
        let first = line.api_block_index.unwrap_or(0);
        for (block, index) in blocks.into_iter().zip(first..) {
            let (mut own, mut is_open) = (None, false);
            let body = match block.kind.as_deref() {
                Some("text") => TypedBody::Text {
                    text: boxed(block.text),
                    model: message.model.as_deref().map(Into::into),
                },
                Some("thinking") => TypedBody::Thought {
                    text: boxed(block.thinking),
                    signature: block.signature.map(Str::into_box),
                },
                Some("tool_use") => {
                    (own, is_open) = (block.id, true);
                    TypedBody::Call {
                        name: boxed(block.name),
                        input: block.input.map(ToOwned::to_owned),
                    }
                }
                _ => TypedBody::Other(boxed(block.kind)),
            };
            let name = own.map_or_else(|| format!("{id}:{index}").into(), Str::into_box);
            self.put(
                name,
                TypedBlock {
                    timestamp: line.timestamp.as_deref().map(Into::into),
                    message: Some(id.into()),
                    is_open,
                    body,
                },
            );
        }
    }

    fn user(&mut self, line: Line<'_>) {
        let Some(message) = line.message else { return };
        let timestamp = line.timestamp.as_deref();
        let made = |body| TypedBlock {
            timestamp: timestamp.map(Into::into),
            message: None,
            is_open: false,
            body,
        };
        let name = || boxed(line.uuid.clone());
        let blocks = match message.content {
            Content::Text(text) => {
                return self.put(name(), made(TypedBody::Prompt(text.into_box())));
            }
            Content::Blocks(blocks) => blocks,
            Content::None => return,
        };
        if !blocks.iter().any(|block| block.kind.as_deref() == Some("tool_result")) {
            let part = |block: ContentBlock<'_>| match block.source {
                Some(source) => source.get().into(),
                None => boxed(block.text),
            };
            let parts = blocks.into_iter().map(part).collect();
            return self.put(name(), made(TypedBody::PromptParts(parts)));
        }
        for block in blocks {
            let call = block.tool_use_id.as_deref().unwrap_or_default();
            if let Some(&at) = self.positions.get(call) {
                self.blocks[at].is_open = false;
            }
            let body = TypedBody::Result {
                output: block.content.map(ToOwned::to_owned),
                structured: line.tool_use_result.map(ToOwned::to_owned),
                is_error: block.is_error,
            };
            self.put(format!("result:{call}").into(), made(body));
        }
    }

    fn put(&mut self, id: Box<str>, block: TypedBlock) {
        match self.positions.get(&id) {
            Some(&at) => self.blocks[at] = block,
            None => {
                self.positions.insert(id, self.blocks.len());
                self.blocks.push(block);
            }
        }
    }
}

impl TypedBlock {
    fn kind(&self) -> &'static str {
        match &self.body {
            TypedBody::Prompt(_) | TypedBody::PromptParts(_) => "user_message",
            TypedBody::Text { .. } => "assistant_text",
            TypedBody::Thought { .. } => "thinking",
            TypedBody::Call { .. } => "tool_use",
            TypedBody::Result { .. } => "tool_result",
            TypedBody::Other(_) => "unknown",
        }
    }

    fn content_length(&self) -> usize {
        let texts: [&Option<Box<str>>; 2] = [&self.timestamp, &self.message];
        let raw = |it: &Option<Box<RawValue>>| it.as_ref().map_or(0, |it| it.get().len());
        let body = match &self.body {
            TypedBody::Prompt(text) | TypedBody::Other(text) => text.len(),
            TypedBody::PromptParts(parts) => parts.iter().map(|it| it.len()).sum(),
            TypedBody::Text { text, model: more }
            | TypedBody::Thought { text, signature: more } => {
                text.len() + more.as_deref().map_or(0, str::len)
            }
            TypedBody::Call { name, input } => name.len() + raw(input),
            TypedBody::Result { output, structured, is_error } => {
                raw(output) + raw(structured) + usize::from(*is_error)
            }
        };
        body + usize::from(self.is_open)
            + texts.map(|it| it.as_deref().map_or(0, str::len)).iter().sum::<usize>()
    }
}

/// A text that is borrowed where it has no escapes, also within an `Option`.
#[derive(Clone, Deserialize)]
struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

impl Str<'_> {
    fn into_box(self) -> Box<str> {
        match self.0 {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl std::ops::Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

fn boxed(text: Option<Str<'_>>) -> Box<str> {
    text.map(Str::into_box).unwrap_or_default()
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    uuid: Option<Str<'a>>,
    #[serde(borrow)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow, rename = "toolUseResult")]
    tool_use_result: Option<&'a RawValue>,
    #[serde(rename = "apiBlockIndex")]
    api_block_index: Option<u64>,
    #[serde(borrow, rename = "aiTitle")]
    title: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    model: Option<Str<'a>>,
    #[serde(borrow, default)]
    content: Content<'a>,
}

#[derive(Deserialize)]
struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    thinking: Option<Str<'a>>,
    #[serde(borrow)]
    signature: Option<Str<'a>>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    name: Option<Str<'a>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<Str<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
}

/// A text or a list of blocks. An untagged enum would buffer all of it.
#[derive(Default)]
enum Content<'a> {
    #[default]
    None,
    Text(Str<'a>),
    Blocks(Vec<ContentBlock<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Content<'de>, E> {
                Ok(Content::Text(Str(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Content<'de>, E> {
                Ok(Content::Text(Str(Cow::Owned(text.to_owned()))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content<'de>, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = list.next_element()? {
                    blocks.push(block);
                }
                Ok(Content::Blocks(blocks))
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}
