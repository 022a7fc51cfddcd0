//! Tokens and cost: for each message, the last reported value counts, once.
//!
//! The stream has the output tokens of a message's start on its lines, and those of its end only in
//! partial messages, and never for subagents. What its lines lack, the reports at the end of runs and
//! of subagents show: a run's report sums up its messages, and that of a subagent repeats its last one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_core::{ConversationId, Fields, Json, MetadataUpdate, Payload};

use super::emitter::Emitter;
use crate::hash_map::Map;

/// The tokens of one message, as `metadata:update` carries them.
#[derive(Serialize)]
pub(super) struct MessageUsage<'a> {
    #[serde(rename = "messageId")]
    pub(super) message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(rename = "stopReason", skip_serializing_if = "Option::is_none")]
    pub(super) stop_reason: Option<&'a str>,
    pub(super) tokens: &'a RawValue,
}

/// The output tokens that a stream has stated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StreamedUsage {
    /// The latest message of each conversation.
    #[serde(with = "crate::pairs")]
    latest: Map<ConversationId, LatestMessage>,
    /// The sum over the messages of the main conversation since the last report of a run.
    run: Sum,
}

/// A sum of [`Counts`]: all input, and output.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Sum {
    input: u64,
    output: u64,
}

/// The latest message of a conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LatestMessage {
    message: Arc<str>,
    counts: Counts,
}

/// The counts of a message, or of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Counts {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// The totals of one model, as a report of a run or an account in a file has them.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModelTotals {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

impl Counts {
    fn read(tokens: &RawValue) -> Self {
        serde_json::from_str(tokens.get()).unwrap_or_default()
    }

    fn output(self) -> u64 {
        self.output_tokens.unwrap_or(0)
    }

    fn input(self) -> u64 {
        let inputs =
            [self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens];
        inputs.into_iter().flatten().fold(0, u64::saturating_add)
    }

    fn has_same_input(self, other: Self) -> bool {
        Self { output_tokens: None, ..self } == Self { output_tokens: None, ..other }
    }
}

impl StreamedUsage {
    fn state(&mut self, conversation: &ConversationId, message: &str, counts: Counts) {
        let earlier = self.latest.get_mut(conversation).filter(|it| *it.message == *message);
        let before = earlier.as_ref().map_or_else(Counts::default, |it| it.counts);
        let counts = match counts.input_tokens {
            // The end of a message may repeat only some of its counts.
            None => Counts { output_tokens: counts.output_tokens, ..before },
            Some(_) => counts,
        };
        match earlier {
            Some(known) => known.counts = counts,
            None => {
                let latest = LatestMessage { message: message.into(), counts };
                self.latest.insert(conversation.clone(), latest);
            }
        }
        if conversation.is_main() {
            let Sum { input, output } = self.run;
            self.run = Sum {
                input: input.saturating_sub(before.input()).saturating_add(counts.input()),
                output: output.saturating_sub(before.output()).saturating_add(counts.output()),
            };
        }
    }
}

/// Emits the token counts of a message, and why it ended.
pub(super) fn emit_usage(emitter: &mut Emitter<'_>, usage: &MessageUsage<'_>) {
    // The harness writes these messages itself, with counts of zero; no model was called.
    if usage.model == Some("<synthetic>") {
        return;
    }
    if emitter.is_stream {
        let counts = Counts::read(usage.tokens);
        let stated = &mut emitter.memory.streamed_usage;
        stated.state(&emitter.conversation, usage.message_id, counts);
    }
    emit_metadata(emitter, "usage", Json::of(usage));
}

/// Emits the output tokens of the last message of the main conversation, if its end was not streamed
/// and the report of its run has more tokens than the messages that it sums up.
///
/// A report whose input is not that of the messages sums up others: a request that was cut off counts
/// in it, or one that no message shows.
pub(super) fn emit_usage_of_run(emitter: &mut Emitter<'_>, reported: &RawValue) {
    let streamed = &mut emitter.memory.streamed_usage;
    let (reported, run) = (Counts::read(reported), std::mem::take(&mut streamed.run));
    let missing = reported.output().saturating_sub(run.output);
    let is_sum = reported.input() == run.input && missing > 0;
    let main = ConversationId::main();
    let Some(latest) = streamed.latest.get(&main).cloned().filter(|_| is_sum) else { return };
    if emitter.memory.stream.ended.get(&main) != Some(&latest.message) {
        let output = latest.counts.output().saturating_add(missing);
        emit_output(emitter, &main, &latest, output);
    }
}

/// Emits the output tokens of a subagent's last message, which the result of its call repeats.
pub(super) fn emit_usage_of_subagent(
    emitter: &mut Emitter<'_>,
    names: [Option<&str>; 2],
    reported: Option<&RawValue>,
) {
    for name in names.into_iter().flatten().map(ConversationId::from) {
        let latest = emitter.memory.streamed_usage.latest.remove(&name);
        let (Some(latest), Some(reported)) = (latest, reported) else { continue };
        // The last message need not be streamed; then the latest one is another.
        let reported = Counts::read(reported);
        if latest.counts.has_same_input(reported) && latest.counts.output() < reported.output() {
            emit_output(emitter, &name, &latest, reported.output());
        }
    }
}

fn emit_output(
    emitter: &mut Emitter<'_>,
    conversation: &ConversationId,
    latest: &LatestMessage,
    output: u64,
) {
    let mut usage = Fields::default();
    usage.insert("messageId", Json::string(&latest.message));
    usage.insert("tokens", Json::of(&serde_json::json!({ "output_tokens": output })));
    let mut metadata = Fields::default();
    metadata.insert("usage", Json::of(&usage));
    emitter.emit_in(conversation, Payload::MetadataUpdate(MetadataUpdate { metadata }));
}

/// Emits the tokens of the whole session, which include the requests that no message shows.
pub(super) fn emit_totals(emitter: &mut Emitter<'_>, totals: &RawValue) {
    let models: BTreeMap<String, ModelTotals> =
        serde_json::from_str(totals.get()).unwrap_or_default();
    let sum = |count: fn(&ModelTotals) -> u64| {
        models.values().fold(0, |sum: u64, it| sum.saturating_add(count(it)))
    };
    let counts = Counts {
        input_tokens: Some(sum(|it| it.input_tokens)),
        cache_creation_input_tokens: Some(sum(|it| it.cache_creation_input_tokens)),
        cache_read_input_tokens: Some(sum(|it| it.cache_read_input_tokens)),
        output_tokens: Some(sum(|it| it.output_tokens)),
    };
    if !models.is_empty() {
        emit_metadata(emitter, "reportedUsage", Json::of(&counts));
    }
}

/// Emits one fact about the session as a whole.
pub(super) fn emit_metadata(emitter: &mut Emitter<'_>, name: &str, value: Json) {
    let mut metadata = Fields::default();
    metadata.insert(name, value);
    emitter.emit(Payload::MetadataUpdate(MetadataUpdate { metadata }));
}
