//! The known gaps of Claude Code: what it reports in only one of stream and file.
//!
//! `known_gaps.txt` lists them; here is how a block on one side only is assigned to one.

use std::sync::LazyLock;

use threadfold_core::{Block, BlockBody, Json};

use super::{cross_check, facts, line_place};
use crate::parity::{BlockPlace, KnownGap, ParityTable, RecordName, Side, Versions, parse};

pub(crate) const TABLE: ParityTable = ParityTable {
    known_gaps: || &KNOWN_GAPS,
    explain_block,
    explain_field,
    is_shared,
    paired: &["system/api_retry", "tool_result", facts::CONTEXT],
    // The stream also has the hooks of subagents, which files omit.
    paired_if_stored: &["hook"],
    paired_if_streamed: &[],
    cause_of: |record| match record.kind.as_str() {
        "tool_result" => Some(RecordName::new("assistant", &record.id)),
        // Hooks of most events are streamed only if the host asks for them.
        "hook" => Some(facts::hooks_of_event(&record.id)),
        _ => None,
    },
    omission_of: |_| None,
    facts: facts::reader,
    cross_check: cross_check::compare,
    opens_turn,
    stores_subagents_apart: false,
    loses_end_at_kill: true,
    loses_end_at_signal: Some(Versions::seen("2.1.50", "2.1.325").after("2.0.76")),
    leaves_prompts_in_queue: Some(Versions::seen("2.1.50", "2.1.75").before("2.1.120")),
    loses_subagents_at_exit: Some(
        Versions::seen("2.1.50", "2.1.50").after("2.1.30").before("2.1.75"),
    ),
    // Sessions of 2.1.105 to 2.1.129 have such lines as well.
    disorders_lines: Some(Versions::seen("2.1.50", "2.1.50").after("2.1.30").before("2.1.160")),
    omits_background: Some(Versions::seen("2.1.50", "2.1.100").after("2.0.76").before("2.1.160")),
    loses_results_at_cut: None,
    omits_after_interruption: None,
    is_unnamed: None,
    line_place: Some(line_place::line_place),
    field_gap: |_| None,
};

static KNOWN_GAPS: LazyLock<Vec<KnownGap>> =
    LazyLock::new(|| parse(include_str!("known_gaps.txt")));

fn explain_block(place: &BlockPlace, block: &Block, side: Side) -> Option<&'static str> {
    // This comes first: every kind of block of such a subagent is missing in the stream.
    if side == Side::Transcript && place.is_uncalled {
        return is_helper(place).then_some("uncalled-agents");
    }
    match (&block.body, side) {
        (BlockBody::Permission(_), Side::Stream) => Some("questions-in-stream"),
        (BlockBody::UserMessage(_), Side::Transcript) if place.depth == 0 => {
            (!place.has_prompts && is_turn_of_run(place)).then_some("prompt")
        }
        (BlockBody::UserMessage(_), Side::Transcript) => {
            let is_opening = place.is_first && place.opening == place.called_with;
            let name =
                if place.is_background { "subagent-opening" } else { "subagent-opening-1.0" };
            is_opening.then_some(name)
        }
        (BlockBody::AssistantText(body), Side::Transcript)
            if body.model.as_deref() == Some("<synthetic>") =>
        {
            let is_filler = body.content.to_str() == "No response requested.";
            let is_resumed = place.run.was_resumed || (place.is_earlier && !place.is_first);
            (is_filler && is_resumed).then_some("resume-filler")
        }
        (BlockBody::System(body), Side::Transcript) => match &*body.subtype {
            "command" | "notice" | "task_notification" => {
                let text = body.message.as_ref().map(|text| text.to_str()).unwrap_or_default();
                let is_cleared = &*body.subtype == "command" && is_output_of_clear(place, &text);
                let is_reset = place.run.has_reset && is_of_clear(&text);
                let is_supported = match is_command(Some(&text)) {
                    _ if is_reset => true,
                    true => is_turn_of_run(place),
                    false => is_followed(place),
                };
                let is_unstreamed = is_unstreamed(&text)
                    || (&*body.subtype == "notice" && is_command(place.after.as_deref()))
                    || (&*body.subtype == "command" && is_typed_command(&text));
                let is_unstreamed = is_unstreamed && is_supported;
                is_cleared.then_some("output-of-clear").or(is_unstreamed.then_some("harness-lines"))
            }
            "api_error" => Some("api-errors-in-file"),
            "hook" => Some("hooks-in-file"),
            _ => None,
        },
        (BlockBody::System(body), Side::Stream) => match &*body.subtype {
            // The numbers of a retry are compared as a record, where the file has it.
            "api_retry" => Some("api-retries-in-stream"),
            "hook" => Some("hooks-in-stream"),
            "permission_denied" => Some("denials-in-stream"),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether a block opens a turn: a prompt, or a command that a person ran.
fn opens_turn(block: &Block) -> bool {
    match &block.body {
        BlockBody::UserMessage(_) => true,
        BlockBody::System(body) => {
            let text = body.message.as_ref().map(|text| text.to_str());
            &*body.subtype == "command" && is_command(text.as_deref())
        }
        _ => false,
    }
}

/// Returns whether something that both sides have follows a line of the main conversation, or may have
/// been lost: what nobody answered was not sent to the model.
fn is_followed(place: &BlockPlace) -> bool {
    let run = &place.run;
    place.depth > 0 || place.is_answered || place.is_earlier || run.lost_end
}

/// Returns whether a block of the file opens a turn that the stream shows, or one of a run before it:
/// a turn has one opening, which the agent takes from its queue. Runs before the stream need not have
/// reported their queue.
///
/// A prompt that was delivered while the agent was at work is part of the turn at work; that it was
/// queued and answered is checked with the queue.
fn is_turn_of_run(place: &BlockPlace) -> bool {
    let run = &place.run;
    let (since, all) = place.openers_before;
    let is_shown = place.is_earlier || run.turns == 0 || since < run.turns;
    let is_taken = run.dequeued == 0 || place.has_earlier || all < run.dequeued.max(run.turns);
    is_followed(place) && (place.depth > 0 || place.is_delivered || (is_shown && is_taken))
}

/// Returns whether the harness does not stream a line that begins like this.
///
/// Others, such as the request to continue an answer that was cut off, are streamed as well.
fn is_unstreamed(text: &str) -> bool {
    let openings = [
        "<task-notification>",
        "<command-",
        "<local-command-caveat>",
        "<system-reminder>",
        "[Image: source",
        "The coordinator sent a message",
    ];
    openings.iter().any(|opening| text.trim_start().starts_with(opening))
}

/// Returns whether a line of the harness is a command that a person ran. The prompt that the command
/// stands for follows it.
fn is_command(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.starts_with("<command-"))
}

/// Returns whether a line is an unknown command, as it was typed. Its output follows it.
fn is_typed_command(text: &str) -> bool {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_:".contains(letter);
    text.strip_prefix('/').is_some_and(|name| !name.is_empty() && name.chars().all(is_name))
}

/// Returns whether a line is the command `/clear`, or the caveat before it: nothing follows it until
/// the next prompt.
fn is_of_clear(text: &str) -> bool {
    text.contains("<command-name>/clear</command-name>")
        || text.starts_with("<local-command-caveat>")
}

/// Returns whether a line is the empty output of `/clear`.
fn is_output_of_clear(place: &BlockPlace, text: &str) -> bool {
    text == "(no content)" && place.after.as_deref().is_some_and(is_of_clear)
}

/// Returns whether a subagent that no call started is one of the agent's own.
fn is_helper(place: &BlockPlace) -> bool {
    let names = ["aprompt_suggestion", "aside_question", "acompact"];
    let openings = ["Warmup", "[Workflow harness"];
    let opening = place.opening.as_deref().unwrap_or("");
    names.iter().any(|name| place.conversation.starts_with(name))
        || openings.iter().any(|it| opening.starts_with(it))
}

fn explain_field(block_type: Option<&Json>, field: &str) -> Option<&'static str> {
    let is = |kind: &str| block_type.and_then(Json::to_text).as_deref() == Some(kind);
    match field {
        "timestamp" if is("system") => Some("compaction-timestamp"),
        "timestamp" if is("tool_result") || is("user_message") => Some("timestamp-of-results"),
        "timestamp" => Some("timestamp"),
        "metadata.structured" if is("tool_result") => Some("structured-result"),
        "output" | "durationMs" if block_type.is_none() || is("subagent") => {
            Some("background-outcome")
        }
        _ => None,
    }
}

/// Fields of a thought that the stream has since this version, if no subagent thinks.
const THINKING: [&str; 2] = ["thinkingDurationMs", "thinkingDisplay"];
const NEWEST: Versions = Versions::seen("2.1.325", "2.1.325").after("2.1.280");

/// Returns whether stream and file both have a field of a line or message.
fn is_shared(record: &str, field: &str, version: Option<&str>) -> bool {
    let is_conversation = matches!(record, "assistant" | "user" | "tool_result");
    let is_below = |name: &str| {
        let rest = field.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    match record {
        "session" | "hook" | facts::CONTEXT => true,
        _ if field == "sessionId" => true,
        "assistant" if THINKING.contains(&field) => version.is_some() && NEWEST.include(version),
        _ if is_conversation => [
            "message.content",
            "message.id",
            "message.model",
            "message.role",
            "message.type",
            "message.stopReason",
            "message.stopReasonOnLine",
            "message.stopSequence",
            "message.usage.inputTokens",
            "message.usage.outputTokens",
            "message.usage.cacheCreationInputTokens",
            "message.usage.cacheReadInputTokens",
            "message.usage.serviceTier",
            "toolUseResult",
            "uuid",
            "timestamp",
            "sessionId",
            "requestId",
            "agentId",
            "error",
            "apiError",
            "apiErrorType",
            "apiErrorStatus",
            "isApiErrorMessage",
            "isAbortedMidStream",
        ]
        .iter()
        .any(|name| is_below(name)),
        "system/api_retry" => true,
        "system/compact_boundary" => [
            "compactMetadata.cumulativeDroppedTokens",
            "compactMetadata.durationMs",
            "compactMetadata.postTokens",
            "compactMetadata.preTokens",
            "compactMetadata.preservedMessages",
            "compactMetadata.preservedSegment",
            "compactMetadata.trigger",
            "logicalParentUuid",
            "uuid",
        ]
        .iter()
        .any(|name| is_below(name)),
        _ => false,
    }
}
