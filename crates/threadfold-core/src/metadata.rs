//! Facts about a session as a whole: title, model, times, tokens, cost.
//!
//! A separate fold beside the reducer, because none of this is part of the conversation.

mod messages;
mod totals;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::event::{Payload, Rank, SessionEvent};
use crate::id::{ConversationId, MessageId, SessionId};
use crate::json::{Fields, Json, JsonError};
use crate::state::SpillStore;
use messages::Messages;
use totals::{TokenSum, Totals};

/// Facts about a session as a whole.
///
/// For title, model and similar values the last report wins. A message's tokens are counted once,
/// in the conversation that reported them first, and the last report wins: agents repeat a message
/// on several lines, and copy whole histories into other conversations.
///
/// An agent may report tokens that none of its messages has: its stream shows no end of a subagent's
/// messages, and requests of its own (a compaction, a title) are no messages. Such a report of the
/// whole session counts where it is higher than the sum of the messages.
///
/// ```
/// use threadfold_core::{SessionEvent, SessionMetadata};
///
/// let mut metadata = SessionMetadata::default();
/// for tokens in [r#"{"input_tokens":10,"output_tokens":1}"#, r#"{"input_tokens":10,"output_tokens":7}"#] {
///     let line = format!(
///         r#"{{"type":"metadata:update","payload":{{"metadata":{{"usage":{{"messageId":"m1","tokens":{tokens}}}}}}}}}"#
///     );
///     metadata.apply(&SessionEvent::from_json(&line)?);
/// }
/// assert_eq!((metadata.usage().input, metadata.usage().output), (10, 7));
/// # Ok::<(), threadfold_core::DecodeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionMetadata {
    facts: Facts,
    totals: Totals,
}

/// The complete data. [`SessionMetadata`] shows only a part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    session_id: Option<SessionId>,
    title: Option<Arc<str>>,
    model: Option<Arc<str>>,
    cwd: Option<Arc<str>>,
    version: Option<Arc<str>>,
    cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_reason: Option<Arc<str>>,
    started_at: Option<Arc<str>>,
    ended_at: Option<Arc<str>>,
    /// The tokens of the whole session, as the agent reported them.
    #[serde(default, skip_serializing_if = "TokenUsage::is_empty")]
    reported_usage: TokenUsage,
    messages: Messages,
}

/// What is shown of the metadata, without the tokens of each message.
#[derive(Serialize, Deserialize)]
struct MetadataHead {
    facts: Facts,
    totals: Totals,
}

/// A count of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Input tokens that were not read from a cache.
    #[serde(rename = "inputTokens")]
    pub input: u64,
    /// Output tokens.
    #[serde(rename = "outputTokens")]
    pub output: u64,
    /// Input tokens read from the provider's cache.
    #[serde(rename = "cacheReadTokens")]
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    #[serde(rename = "cacheCreationTokens")]
    pub cache_creation: u64,
}

/// The tokens of one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct MessageUsage {
    conversation: ConversationId,
    rank: Rank,
    tokens: TokenUsage,
}

impl SessionMetadata {
    /// Applies one event. Every event updates the session's times; only a few update anything else.
    pub fn apply(&mut self, event: &SessionEvent) {
        let context = &event.context;
        if let Some(session) = &context.session_id {
            self.facts.session_id.get_or_insert_with(|| session.clone());
        }
        if let Some(timestamp) = &context.timestamp {
            self.apply_time(timestamp);
        }
        match &event.payload {
            Payload::MetadataUpdate(update) => {
                update.metadata.iter().for_each(|(name, value)| self.update(event, name, value));
            }
            Payload::TurnStarted(payload) if context.conversation_id.is_main() => {
                self.facts.model = Some(payload.model.clone());
            }
            Payload::TurnAnswered(payload) => {
                if let Some(tokens) = payload.usage.as_ref().and_then(tokens_of) {
                    let conversation = &context.conversation_id;
                    let name = format!("turn:{conversation}:{}", payload.turn);
                    self.count(event, name.into(), tokens);
                }
            }
            _ => {}
        }
    }

    fn update(&mut self, event: &SessionEvent, name: &str, value: &Json) {
        let is_main = event.context.conversation_id.is_main();
        match name {
            "title" => set_text(&mut self.facts.title, value),
            "model" if is_main => set_text(&mut self.facts.model, value),
            "cwd" if is_main => set_text(&mut self.facts.cwd, value),
            "version" => set_text(&mut self.facts.version, value),
            "costUsd" => {
                let cost: Option<f64> = value.as_str().parse().ok();
                self.facts.cost_usd =
                    cost.filter(|it| it.is_finite() && *it >= 0.0).or(self.facts.cost_usd);
            }
            "usage" => self.apply_usage(event, value),
            "reportedUsage" => {
                if let Some(counts) = object(value) {
                    let reported = counts_of(&counts, TokenUsage::default());
                    self.facts.reported_usage = self.facts.reported_usage.max_of_each(reported);
                }
            }
            _ => {}
        }
    }

    fn apply_usage(&mut self, event: &SessionEvent, value: &Json) {
        let Some(used) = object(value) else { return };
        let Some(message) = used.get("messageId").and_then(Json::to_text) else { return };
        let Some(tokens) = used.get("tokens").and_then(object) else { return };
        if let Some(model) = used.get("model").filter(|_| event.context.conversation_id.is_main()) {
            set_text(&mut self.facts.model, model);
        }
        let stop_reason =
            used.get("stopReason").filter(|_| event.context.conversation_id.is_main());
        if let Some(reason) = stop_reason {
            set_text(&mut self.facts.stop_reason, reason);
        }
        let message = MessageId::from(message);
        // The end of a message may repeat only some of the counts that its start reported.
        let known =
            self.facts.messages.get(&message).map_or_else(TokenUsage::default, |it| it.tokens);
        self.count(event, message, counts_of(&tokens, known));
    }

    /// Counts the tokens of a message, or of a turn under a synthetic message id.
    fn count(&mut self, event: &SessionEvent, name: MessageId, tokens: TokenUsage) {
        let rank = event.context.rank();
        let is_new = self.facts.messages.get(&name).is_none();
        let conversation = event.context.conversation_id.clone();
        let first = MessageUsage { conversation, rank, tokens };
        let known = self.facts.messages.get_or_insert(name, first);
        // The conversation is not updated: a copied message counts where it was reported first.
        if is_new {
            self.totals.add(&known.conversation, tokens);
        } else if rank >= known.rank {
            self.totals.replace(&known.conversation, known.tokens, tokens);
            (known.rank, known.tokens) = (rank, tokens);
        }
    }

    fn apply_time(&mut self, timestamp: &Arc<str>) {
        let Some(key) = time_key(timestamp) else { return };
        let is_before = |it: &Arc<str>| time_key(it).is_none_or(|known| key < known);
        let is_after = |it: &Arc<str>| time_key(it).is_none_or(|known| key > known);
        if self.facts.started_at.as_ref().is_none_or(is_before) {
            self.facts.started_at = Some(timestamp.clone());
        }
        if self.facts.ended_at.as_ref().is_none_or(is_after) {
            self.facts.ended_at = Some(timestamp.clone());
        }
    }

    /// Returns the complete data, for [`from_facts`](Self::from_facts).
    pub fn facts(&self) -> Json {
        Json::of(&self.facts)
    }

    /// Restores the metadata from its complete data.
    pub fn from_facts(facts: &Json) -> Result<Self, JsonError> {
        let facts: Facts = facts.read()?;
        let mut totals = Totals::default();
        facts.messages.values().for_each(|used| totals.add(&used.conversation, used.tokens));
        Ok(Self { facts, totals })
    }

    /// Returns all that is shown, for [`from_head`](Self::from_head): unlike the facts, it does not
    /// grow with the number of messages.
    pub fn head(&self) -> Json {
        let facts = Facts { messages: Messages::default(), ..self.facts.clone() };
        Json::of(&MetadataHead { facts, totals: self.totals.clone() })
    }

    /// Restores the metadata from what is shown. The complete data is in `text`, `length` bytes at
    /// `place`; it is read when the next tokens are reported.
    ///
    /// If that fails, the metadata is invalid: the owner of the text must check it.
    pub fn from_head(
        head: &Json,
        text: Arc<dyn SpillStore>,
        place: u64,
        length: usize,
    ) -> Result<Self, JsonError> {
        let MetadataHead { facts, totals } = head.read()?;
        let facts = Facts { messages: Messages::stored(text, place, length), ..facts };
        Ok(Self { facts, totals })
    }

    /// Returns the session's id, as first reported.
    pub fn session_id(&self) -> Option<&SessionId> {
        self.facts.session_id.as_ref()
    }

    /// Returns the title, set by the agent or a person.
    pub fn title(&self) -> Option<&str> {
        self.facts.title.as_deref()
    }

    /// Returns the last model of the main conversation.
    pub fn model(&self) -> Option<&str> {
        self.facts.model.as_deref()
    }

    /// Returns the agent's working directory.
    pub fn cwd(&self) -> Option<&str> {
        self.facts.cwd.as_deref()
    }

    /// Returns the agent's version.
    pub fn version(&self) -> Option<&str> {
        self.facts.version.as_deref()
    }

    /// Returns the cost in US dollars, as the agent reported it.
    pub fn cost_usd(&self) -> Option<f64> {
        self.facts.cost_usd
    }

    /// Returns why the last message of the main conversation ended, as the provider reported it.
    pub fn stop_reason(&self) -> Option<&str> {
        self.facts.stop_reason.as_deref()
    }

    /// Returns the earliest time of any event, verbatim.
    pub fn started_at(&self) -> Option<&str> {
        self.facts.started_at.as_deref()
    }

    /// Returns the latest time of any event, verbatim.
    pub fn ended_at(&self) -> Option<&str> {
        self.facts.ended_at.as_deref()
    }

    /// Returns the tokens of the whole session, including subagents: the sum of its messages, or what
    /// the agent reported for the session where that is more.
    pub fn usage(&self) -> TokenUsage {
        self.totals.session.tokens().max_of_each(self.facts.reported_usage)
    }

    /// Returns the tokens of one conversation, under the name that its events carried: the sum of its
    /// messages.
    pub fn usage_of(&self, conversation: &ConversationId) -> TokenUsage {
        self.totals.conversations.get(conversation).map(TokenSum::tokens).unwrap_or_default()
    }

    /// Returns the tokens of each conversation that used any.
    pub fn usage_by_conversation(&self) -> BTreeMap<ConversationId, TokenUsage> {
        let sums = self.totals.conversations.iter();
        sums.map(|(conversation, sum)| (conversation.clone(), sum.tokens())).collect()
    }
}

impl TokenUsage {
    /// Returns true if no tokens were used.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the higher one of each count.
    fn max_of_each(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: self.cache_read.max(other.cache_read),
            cache_creation: self.cache_creation.max(other.cache_creation),
        }
    }
}

/// Returns the counts that a report contains, and those that were known for the others.
fn counts_of(report: &Fields, known: TokenUsage) -> TokenUsage {
    let count = |name, known| -> u64 {
        report.get(name).and_then(|it| it.as_str().parse().ok()).unwrap_or(known)
    };
    TokenUsage {
        input: count("input_tokens", known.input),
        output: count("output_tokens", known.output),
        cache_read: count("cache_read_input_tokens", known.cache_read),
        cache_creation: count("cache_creation_input_tokens", known.cache_creation),
    }
}

fn set_text(slot: &mut Option<Arc<str>>, value: &Json) {
    if let Some(text) = value.to_text() {
        *slot = Some(text.into());
    }
}

fn object(value: &Json) -> Option<Fields> {
    serde_json::from_str(value.as_str()).ok()
}

/// Returns the token usage of a turn, from either provider's format.
///
/// OpenAI includes cached tokens in the input count, Anthropic does not.
fn tokens_of(usage: &Json) -> Option<TokenUsage> {
    let usage = object(usage)?;
    let count = |fields: &Fields, name| -> Option<u64> { fields.get(name)?.as_str().parse().ok() };
    let either = |one, other| count(&usage, one).or_else(|| count(&usage, other)).unwrap_or(0);
    let details = usage.get("input_tokens_details").or_else(|| usage.get("prompt_tokens_details"));
    let cached = details.and_then(object).and_then(|it| count(&it, "cached_tokens")).unwrap_or(0);
    Some(TokenUsage {
        input: either("input_tokens", "prompt_tokens").saturating_sub(cached),
        output: either("output_tokens", "completion_tokens"),
        cache_read: count(&usage, "cache_read_input_tokens").unwrap_or(cached),
        cache_creation: count(&usage, "cache_creation_input_tokens").unwrap_or(0),
    })
}

/// Returns a sort key for a timestamp: `2026-01-02T03:04:05.678`.
///
/// Sources write times in UTC. Returns `None` for text that is not a timestamp.
fn time_key(timestamp: &str) -> Option<&str> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let fits = |(found, wanted): (&u8, &u8)| match wanted {
        b'0' => found.is_ascii_digit(),
        wanted => found == wanted,
    };
    let bytes = timestamp.as_bytes();
    let is_time = bytes.len() >= SHAPE.len() && bytes.iter().zip(SHAPE).all(fits);
    is_time.then(|| timestamp.trim_end_matches('Z'))
}

impl Serialize for SessionMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Usage {
            #[serde(flatten)]
            total: TokenUsage,
            conversations: BTreeMap<ConversationId, TokenUsage>,
        }
        let mut map = serializer.serialize_map(None)?;
        let texts = [
            ("sessionId", self.facts.session_id.as_ref().map(SessionId::as_str)),
            ("title", self.title()),
            ("model", self.model()),
            ("cwd", self.cwd()),
            ("version", self.version()),
            ("stopReason", self.stop_reason()),
            ("startedAt", self.started_at()),
            ("endedAt", self.ended_at()),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                map.serialize_entry(name, text)?;
            }
        }
        if let Some(cost) = self.facts.cost_usd {
            map.serialize_entry("costUsd", &cost)?;
        }
        let conversations = self.usage_by_conversation();
        map.serialize_entry("usage", &Usage { total: self.usage(), conversations })?;
        map.end()
    }
}

#[cfg(test)]
mod tests;
