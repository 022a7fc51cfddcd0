//! The known gaps of Codex: what it reports in only one of stream and rollout.
//!
//! `known_gaps.txt` lists them.

use std::sync::LazyLock;

use threadfold_core::{Block, BlockBody, Fields, Json, ToolResultBlock};

use super::facts;
use crate::parity::{
    BlockPlace, CrossCheck, FieldPlace, KnownGap, ParityTable, PlaceNotice, RecordName, Side,
    Versions, parse,
};

pub(crate) const TABLE: ParityTable = ParityTable {
    known_gaps: || &KNOWN_GAPS,
    explain_block,
    explain_field: |_, _| None,
    is_shared: |_, _, _| true,
    paired: &["turn_start", "turn_end"],
    paired_if_stored: &[
        "item_id",
        "prompt",
        "stored_goal",
        "stored_limits",
        "stored_move",
        "stored_plan",
        "stored_token_report",
    ],
    paired_if_streamed: &[
        "agent_output",
        "agent_prompt",
        "agent_state",
        "change",
        "collab_agent_spawn_end",
        "collab_waiting_end",
        "command",
        "exec_command_end",
        "input",
        "late_item",
        "limits",
        "list",
        "mcp_tool_call_end",
        "move",
        "patch_apply_end",
        "plan",
        "reasoning_tokens",
        "response_id",
        "review",
        "search",
        "server_call",
        "server_text",
        "thread_id",
        "token_report",
        "tokens",
        "view_image_tool_call",
        "written_tokens",
    ],
    cause_of,
    // Whether the end of an interrupted command is stored depends on when its process ends.
    omission_of: |record| (record.kind == "late_item").then_some("late-ends-in-file"),
    facts: facts::reader,
    cross_check: |_, _| CrossCheck::default(),
    opens_turn: |_| false,
    stores_subagents_apart: true,
    // A record is written before it is reported.
    loses_end_at_kill: false,
    loses_end_at_signal: None,
    leaves_prompts_in_queue: None,
    loses_subagents_at_exit: None,
    disorders_lines: None,
    omits_background: None,
    // Recordings: `app_drop_after_tool@0.98.0`, `app_interrupt_subagent@0.98.0`.
    loses_results_at_cut: Some(Versions::seen("0.98.0", "0.98.0").before("0.128.0")),
    omits_after_interruption: Some(Versions::seen("0.98.0", "0.98.0").before("0.128.0")),
    is_unnamed: Some(super::agent::is_unnamed),
    line_place: None,
    field_gap,
};

/// Returns what a record follows from: if both sides have that, both have the record.
fn cause_of(record: &RecordName) -> Option<RecordName> {
    let form = |name: &str| Some(RecordName::new("form", name));
    match record.kind.as_str() {
        // Only one of the live views repeats prompts, tokens and limits.
        "prompt" => Some(RecordName::new("view", "app-server")),
        "stored_limits" => form("limits"),
        // Files without turns are of the first version, whose threads are not resumed.
        "stored_plan" => match record.id.split(' ').next().unwrap_or("") {
            "" => form("plans_without_turns"),
            turn => Some(RecordName::new("turn", turn)),
        },
        "stored_goal" | "stored_move" => Some(RecordName::new("view", "app-server alone")),
        "stored_token_report" => {
            let thread = record.id.split(' ').next().unwrap_or("");
            Some(RecordName::new("reported_usage", thread))
        }
        "turn_start" => Some(RecordName::new("turn", &record.id)),
        "turn_end" => Some(RecordName::new("begun_turn", &record.id)),
        "item_id" => {
            let turn = record.id.split(' ').next().unwrap_or("");
            Some(RecordName::new("item_turn", turn))
        }
        // Files of older versions lack these.
        "late_item" => Some(RecordName::new("aborted_call", &record.id)),
        "agent_output" => Some(facts::call_of(record)),
        "response_id" => form("response_ids"),
        "server_text" => form("server_texts"),
        "agent_state" => form("agent_states"),
        "command" => form("commands"),
        "reasoning_tokens" => form("reasoning_counts"),
        "written_tokens" => form("written_counts"),
        "patch_apply_end" | "mcp_tool_call_end" => form("events_of_some_calls"),
        "exec_command_end"
        | "collab_agent_spawn_end"
        | "collab_waiting_end"
        | "view_image_tool_call" => form("events_of_all_calls"),
        _ => None,
    }
}

static KNOWN_GAPS: LazyLock<Vec<KnownGap>> =
    LazyLock::new(|| parse(include_str!("known_gaps.txt")));

/// Returns whether the stream is of `codex exec`, which does not repeat prompts.
fn is_exec(has_prompts: bool) -> bool {
    !has_prompts
}

fn explain_block(place: &BlockPlace, block: &Block, side: Side) -> Option<&'static str> {
    match side {
        Side::Stream => explain_streamed(place, block),
        Side::Transcript => explain_stored(place, block),
    }
}

/// Returns the known gap of a block that only the stream has.
fn explain_streamed(place: &BlockPlace, block: &Block) -> Option<&'static str> {
    match &block.body {
        BlockBody::Permission(_) => Some("questions-in-stream"),
        BlockBody::Error(_) => Some("failures-in-stream"),
        BlockBody::System(notice) => match &*notice.subtype {
            "retry" => Some("retries-in-stream"),
            "warning" => Some("warnings-in-stream"),
            _ => None,
        },
        // What a script of the model calls has an id of its own.
        BlockBody::ToolUse(_) | BlockBody::ToolResult(_) => {
            let id = block.id.as_str().strip_prefix("result:").unwrap_or(block.id.as_str());
            match () {
                () if is_in_review(&place.notices) => Some("review-calls-in-stream"),
                () if is_in_script(id) => place.run.has_scripts.then_some("script-calls-in-stream"),
                // `codex exec` reports a resume as a wait.
                () if id.starts_with("exec:wait_agent:") => Some("resumes-in-stream"),
                () => None,
            }
        }
        _ => None,
    }
}

/// Returns whether a call may have been made by a script.
fn is_in_script(id: &str) -> bool {
    id.starts_with("exec-") || id.starts_with("exec:exec_command:")
}

/// Returns the known gap of a block that only the rollout has.
fn explain_stored(place: &BlockPlace, block: &Block) -> Option<&'static str> {
    let has = |name: &str| block.metadata.get(name).is_some();
    if place.is_uncalled {
        return Some("reviews-in-file");
    }
    if place.depth > 0 && is_exec(place.has_prompts) {
        return Some("subagents-in-file");
    }
    match &block.body {
        BlockBody::UserMessage(_) if is_exec(place.has_prompts) => Some("prompts-in-file"),
        BlockBody::System(notice) => match &*notice.subtype {
            "agent_message" => Some("mail-in-file"),
            "interrupted" if place.depth > 0 => Some("interrupted-subagents-in-file"),
            "notice" | "command" | "task_notification" => Some("harness-notes-in-file"),
            "compaction" | "interrupted" | "review_started" | "review_ended"
            | "subagent_activity" | "plan"
                if is_exec(place.has_prompts) =>
            {
                Some("notices-in-file")
            }
            _ => None,
        },
        // Texts that the thread's own file has of a review.
        BlockBody::AssistantText(_)
            if block.id.as_str().contains(":review_text:")
                && has_no_items(place.version.as_deref()) =>
        {
            Some("review-texts-in-file")
        }
        BlockBody::AssistantText(_) if has("unlisted") => Some("injected-texts-in-file"),
        BlockBody::Thinking(thinking)
            if (thinking.redacted || has("unsummarized")) && is_exec(place.has_prompts) =>
        {
            Some("hidden-reasoning-in-file")
        }
        BlockBody::ToolUse(_) | BlockBody::ToolResult(_) if has("unlisted") => {
            Some("unlisted-calls-in-file")
        }
        BlockBody::ToolUse(_) | BlockBody::ToolResult(_) if has("rejected") => {
            Some("rejected-calls-in-file")
        }
        BlockBody::ToolUse(_) if block.interrupted && has("aborted") => {
            Some("unstarted-calls-in-file")
        }
        BlockBody::ToolUse(call)
            if block.interrupted
                && &*call.tool_name == "exec_command"
                && minor(place.version.as_deref()).is_some_and(|it| it < 128) =>
        {
            Some("calls-that-never-ran")
        }
        BlockBody::ToolUse(call)
            if is_exec(place.has_prompts)
                && matches!(
                    &*call.tool_name,
                    "view_image" | "image_generation" | "resume_agent"
                ) =>
        {
            Some("calls-in-file")
        }
        // An image that was looked at, and a subagent that was resumed.
        BlockBody::ToolResult(result) if is_exec(place.has_prompts) && is_silent(block, result) => {
            Some("calls-in-file")
        }
        BlockBody::Subagent(_) if is_exec(place.has_prompts) => Some("subagents-in-file"),
        BlockBody::ToolResult(_) if is_exec(place.has_prompts) => Some("late-results-in-file"),
        BlockBody::ToolResult(_) if loses_ends(place.version.as_deref()) => {
            Some("late-results-in-file")
        }
        _ => None,
    }
}

fn field_gap(place: &FieldPlace<'_>) -> Option<&'static str> {
    let is_exec = is_exec(place.has_prompts);
    let stored = place.blocks.map(|(_, stored)| &stored.body);
    let streamed = place.blocks.map(|(streamed, _)| streamed);
    let has =
        |name: &str| place.blocks.is_some_and(|(_, stored)| stored.metadata.get(name).is_some());
    let is_server_call =
        matches!(stored, Some(BlockBody::ToolUse(call)) if call.tool_name.starts_with("mcp__"));
    match (place.side, place.field) {
        (Some(Side::Transcript), "timestamp") => Some("times-in-file"),
        (Some(Side::Transcript), "input" | "metadata.input") => Some("arguments-in-file"),
        (Some(Side::Transcript), "signature") => Some("encrypted-reasoning-in-file"),
        (Some(Side::Transcript), "metadata.raw") if is_exec => Some("raw-reasoning-in-file"),
        (Some(Side::Transcript), "metadata.summary") => Some("summaries-in-file"),
        (Some(Side::Transcript), "metadata.modelOutput") => Some("model-outputs-in-file"),
        (Some(Side::Transcript), "metadata.aborted") => Some("interrupted-outputs-in-file"),
        (Some(Side::Transcript), "metadata.rejected" | "output") if has("rejected") => {
            Some("rejected-calls-in-file")
        }
        (Some(Side::Transcript), "durationMs" | "metadata.diffs") if is_exec => {
            Some("details-in-file")
        }
        (Some(Side::Transcript), "inactive") if is_exec => Some("notices-in-file"),
        (Some(Side::Stream), "durationMs" | "metadata.diffs") => match place.history {
            Some("legacy") => Some("legacy-details-in-stream"),
            _ => Some("details-in-stream"),
        },
        (Some(Side::Stream), "isError") => Some("server-failures-in-stream"),
        (None, "status") if is_server_call => Some("server-failures-in-stream"),
        // The end of a subagent that nobody waited for.
        (_, "status" | "output" | "interrupted")
            if is_exec && (place.blocks.is_none() || is_subagent(stored)) =>
        {
            Some("subagents-in-file")
        }
        (Some(Side::Stream), "interrupted")
            if (is_exec || loses_ends(place.version))
                && streamed.is_some_and(|it| it.interrupted) =>
        {
            Some("late-results-in-file")
        }
        (None, "input") if is_same_image(place) => Some("image-paths-in-stream"),
        (None, "output") | (Some(Side::Stream), "metadata.exitCode") if is_still_running(place) => {
            Some("later-outputs-in-stream")
        }
        (None, "output") if lacks_beginning(place) => Some("first-outputs-in-file"),
        _ => None,
    }
}

/// Returns whether the app-server of a version can lose the end of a command that takes longer than
/// a moment.
fn loses_ends(version: Option<&str>) -> bool {
    minor(version).is_some_and(|it| (110..140).contains(&it))
}

/// Returns whether files of a version have no items, and live views report a command late.
fn has_no_items(version: Option<&str>) -> bool {
    minor(version).is_some_and(|it| it < 157)
}

fn minor(version: Option<&str>) -> Option<u32> {
    version?.split('.').nth(1)?.parse().ok()
}

/// Returns whether both sides name one image: the live view by its absolute path, the file as the
/// model did.
fn is_same_image(place: &FieldPlace<'_>) -> bool {
    let path = |block: &Block| -> Option<String> {
        let BlockBody::ToolUse(call) = &block.body else { return None };
        let input: Fields = serde_json::from_str(call.input.as_ref()?.as_str()).ok()?;
        let is_image = &*call.tool_name == "view_image";
        serde_json::from_str(input.get("path").filter(|_| is_image)?.as_str()).ok()
    };
    place.blocks.and_then(|(streamed, stored)| Some((path(streamed)?, path(stored)?))).is_some_and(
        |(streamed, stored)| !stored.starts_with('/') && streamed.ends_with(&format!("/{stored}")),
    )
}

/// Returns whether the file has the result of a command that was still running.
fn is_still_running(place: &FieldPlace<'_>) -> bool {
    let has_ended = |block: &Block| block.metadata.get("exitCode").is_some();
    has_no_items(place.version)
        && place.blocks.is_some_and(|(streamed, stored)| has_ended(streamed) && !has_ended(stored))
}

/// Returns whether the streamed output is the end of the stored one.
fn lacks_beginning(place: &FieldPlace<'_>) -> bool {
    let output = |block: &Block| -> Option<String> {
        let BlockBody::ToolResult(result) = &block.body else { return None };
        let is_command = block.metadata.get("exitCode").is_some();
        serde_json::from_str(result.output.as_ref().filter(|_| is_command)?.as_str()).ok()
    };
    has_no_items(place.version)
        && place
            .blocks
            .and_then(|(streamed, stored)| Some((output(streamed)?, output(stored)?)))
            .is_some_and(|(streamed, stored)| {
                // What a command wrote at once, before it was reported, ends with its line.
                let beginning = stored.strip_suffix(&streamed);
                !streamed.is_empty() && beginning.is_some_and(|it| it.ends_with('\n'))
            })
}

/// Returns whether a place is inside a review, or beside one.
fn is_in_review(notices: &[PlaceNotice]) -> bool {
    let is_start = |it: &&PlaceNotice| it.subtype == "review_started";
    let (beside, earlier): (Vec<_>, Vec<_>) = notices.iter().partition(|it| it.is_beside);
    let last = earlier.into_iter().rfind(|it| it.subtype.starts_with("review_"));
    last.as_ref().is_some_and(is_start) || beside.iter().any(is_start)
}

/// Returns whether a result has no command output.
fn is_silent(block: &Block, result: &ToolResultBlock) -> bool {
    let is_resumed = |it: &Json| it.as_str().contains("\"pending_init\"");
    block.metadata.get("exitCode").is_none() && result.output.as_ref().is_none_or(is_resumed)
}

fn is_subagent(body: Option<&BlockBody>) -> bool {
    matches!(body, Some(BlockBody::Subagent(_)))
}
