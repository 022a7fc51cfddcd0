//! Codex's JSON as types: lines of a rollout, of `codex exec` and of the app-server.
//!
//! The three views spell one object in two ways (`thread_id`, `threadId`), and one of them has a key
//! twice, so objects are read by name and not by a derived type.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::borrowed::Str;

mod elements;
mod item;
mod object;
mod payload;

pub(super) use item::{
    AgentState, Change, Item, ItemKind, agent_states, script_of, split_words, with_underscores,
};
pub(super) use object::Object;
pub(super) use payload::Payload;

/// A line of any of the three views.
///
/// Only the fields that identify it; the rest is read by kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    /// The kind of a line of a rollout or of `codex exec`.
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Str<'a>>,
    pub(super) ordinal: Option<u64>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
    /// The method of a message of the app-server.
    #[serde(borrow)]
    pub(super) method: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// A recorder's wrapper around a message of the app-server, with its direction.
    #[serde(borrow)]
    pub(super) msg: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) dir: Option<Str<'a>>,
    /// What a line of `codex exec` is about.
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thread_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
}

/// A line of a rollout, with its payload.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RolloutLine<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Str<'a>>,
    pub(super) ordinal: Option<u64>,
    #[serde(borrow)]
    pub(super) payload: Option<Payload<'a>>,
}

/// The first record of a rollout.
#[derive(Debug, Default)]
pub(super) struct SessionMeta<'a> {
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) parent: Option<Cow<'a, str>>,
    pub(super) is_review: bool,
    pub(super) is_exec: bool,
    pub(super) cwd: Option<Cow<'a, str>>,
    pub(super) version: Option<Cow<'a, str>>,
    /// The thread whose records up to an ordinal precede those of this file.
    pub(super) base: Option<(Cow<'a, str>, u64)>,
    /// The first ordinal that is not copied from the parent.
    pub(super) own_from: Option<u64>,
}

impl<'a> SessionMeta<'a> {
    pub(super) fn of(meta: &Object<'a>) -> Self {
        let source = meta.get("source");
        let subagent = source.and_then(Object::read).and_then(|it| it.get("subagent"));
        let spawn = subagent.and_then(Object::read).and_then(|it| it.object("thread_spawn"));
        let of_spawn = |name| spawn.as_ref().and_then(|it| it.text(name));
        let base = meta.object("history_base");
        Self {
            id: meta.text("id"),
            parent: meta.text("parent_thread_id").or_else(|| of_spawn("parent_thread_id")),
            is_review: subagent.is_some_and(|it| it.get() == "\"review\""),
            is_exec: source.is_some_and(|it| it.get() == "\"exec\""),
            cwd: meta.text("cwd"),
            version: meta.text("cli_version"),
            base: base
                .and_then(|it| Some((it.text("thread_id")?, it.number("end_ordinal_exclusive")?))),
            own_from: meta.number("subagent_history_start_ordinal"),
        }
    }
}

/// The counts of tokens of a thread or of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) cached: u64,
    pub(super) written: u64,
    pub(super) output: u64,
}

/// What `token_count` reports, in the spelling of rollouts.
#[derive(Deserialize)]
struct TokenInfo {
    total_token_usage: TokenUsage,
}

#[derive(Deserialize)]
struct TokenUsage {
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    cache_write_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

impl Tokens {
    /// Reads the total of a thread.
    ///
    /// The usual form is parsed at once: every answer of the model is followed by one.
    pub(super) fn read_total(info: &RawValue) -> Option<Self> {
        match serde_json::from_str::<TokenInfo>(info.get()) {
            Ok(TokenInfo { total_token_usage: usage }) => Some(Self {
                input: usage.input_tokens,
                cached: usage.cached_input_tokens,
                written: usage.cache_write_input_tokens,
                output: usage.output_tokens,
            }),
            Err(_) => Self::read(Object::read(info)?.get("total_token_usage")?),
        }
    }

    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let counts = Object::read(raw)?;
        Some(Self {
            input: counts.number("input_tokens")?,
            cached: counts.number("cached_input_tokens").unwrap_or(0),
            written: counts.number("cache_write_input_tokens").unwrap_or(0),
            output: counts.number("output_tokens").unwrap_or(0),
        })
    }
}

/// Returns the texts of a list of objects with `text`; nothing if the value is no list.
pub(super) fn part_texts(parts: &RawValue) -> Option<Vec<Cow<'_, str>>> {
    if !parts.get().starts_with('[') {
        return None;
    }
    let texts = elements::elements(parts.get()).filter_map(|it| elements::field(it, "text"));
    Some(texts.filter_map(object::text_of_str).collect())
}

/// Returns texts as one, with this between them.
pub(super) fn joined(mut texts: Vec<Cow<'_, str>>, between: &str) -> String {
    match texts.len() {
        1 => texts.remove(0).into_owned(),
        _ => texts.join(between),
    }
}

/// Returns the texts of a message's content: a list of objects with `text`, or a text.
pub(super) fn content_text(content: &RawValue) -> String {
    match part_texts(content) {
        Some(texts) => joined(texts, "\n"),
        None => object::text_of(content).unwrap_or_default().into_owned(),
    }
}
