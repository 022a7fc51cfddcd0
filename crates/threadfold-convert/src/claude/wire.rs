//! Claude Code's JSON as types: one flat type for all lines of stream and file.
//!
//! An enum that is tagged by `type` would make `serde` buffer every value before it knows the
//! variant, so `type` is a field like any other. Unknown fields are dropped here; the stored record
//! keeps them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::borrowed::Str;

mod content;
mod text;

pub(super) use content::{Content, ContentBlock, ImageSource, Message};
pub(super) use text::SharedText;

/// Returns a name, unless it is missing or empty.
pub(super) fn named<'a>(name: &'a Option<Str<'_>>) -> Option<&'a str> {
    name.as_deref().filter(|name| !name.is_empty())
}

/// One line of a stream or a transcript.
///
/// It is written and dropped once a line, so rare fields that are large are boxed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) subtype: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) uuid: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Str<'a>>,
    #[serde(borrow, rename = "sessionId")]
    pub(super) file_session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(borrow)]
    pub(super) event: Option<&'a RawValue>,

    #[serde(borrow, rename = "parentUuid")]
    pub(super) parent_uuid: Option<Str<'a>>,
    #[serde(rename = "isSidechain")]
    pub(super) is_sidechain: bool,
    #[serde(borrow, alias = "agentId")]
    pub(super) agent_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) parent_tool_use_id: Option<Str<'a>>,
    #[serde(borrow, alias = "toolUseResult")]
    pub(super) tool_use_result: Option<&'a RawValue>,
    #[serde(rename = "apiBlockIndex")]
    pub(super) api_block_index: Option<u64>,

    #[serde(rename = "isMeta")]
    pub(super) is_meta: bool,
    #[serde(rename = "isSynthetic")]
    pub(super) is_synthetic: bool,
    #[serde(rename = "isCompactSummary")]
    pub(super) is_compact_summary: bool,
    #[serde(rename = "isVisibleInTranscriptOnly")]
    pub(super) is_visible_in_transcript_only: bool,
    #[serde(borrow, rename = "promptSource")]
    pub(super) prompt_source: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) origin: Option<Kind<'a>>,
    #[serde(alias = "isAbortedMidStream")]
    pub(super) aborted: bool,
    #[serde(alias = "isApiErrorMessage")]
    pub(super) is_api_error_message: bool,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) supersedes: Vec<Str<'a>>,
    #[serde(borrow)]
    pub(super) abandoned_blocks: Option<Box<AbandonedBlocks<'a>>>,

    #[serde(borrow)]
    pub(super) task_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) task_type: Option<Str<'a>>,
    #[serde(borrow, alias = "toolUseID")]
    pub(super) tool_use_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) subagent_type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) prompt: Option<Str<'a>>,
    pub(super) is_backgrounded: bool,
    #[serde(borrow)]
    pub(super) parent_task_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) summary: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) patch: Option<Box<Patch<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,

    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) attachment: Option<Box<Attachment<'a>>>,
    #[serde(borrow)]
    pub(super) operation: Option<Str<'a>>,
    #[serde(borrow, alias = "compactMetadata")]
    pub(super) compact_metadata: Option<Box<CompactMetadata<'a>>>,
    #[serde(borrow, alias = "microcompactMetadata")]
    pub(super) microcompact_metadata: Option<Box<MicrocompactMetadata<'a>>>,
    #[serde(borrow)]
    pub(super) hook_event: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) hook_name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    pub(super) attempt: Option<u64>,
    #[serde(rename = "retryAttempt")]
    pub(super) retry_attempt: Option<u64>,

    #[serde(borrow)]
    pub(super) request: Option<Box<ControlRequest<'a>>>,
    #[serde(borrow)]
    pub(super) request_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,

    #[serde(borrow)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) cwd: Option<Str<'a>>,
    #[serde(borrow, alias = "claude_code_version")]
    pub(super) version: Option<Str<'a>>,
    #[serde(rename = "isReplay")]
    pub(super) is_replay: bool,
    pub(super) is_error: bool,
    pub(super) duration_ms: Option<f64>,
    pub(super) total_cost_usd: Option<f64>,
    #[serde(rename = "totalCostUSD")]
    pub(super) file_cost_usd: Option<f64>,
    #[serde(borrow, rename = "modelUsage")]
    pub(super) model_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) errors: Option<&'a RawValue>,
    #[serde(borrow, rename = "aiTitle", alias = "customTitle", alias = "title")]
    pub(super) title: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_name: Option<Str<'a>>,
}

/// `{ "kind": … }`.
#[derive(Debug, Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow)]
    pub(super) kind: Option<Str<'a>>,
}

/// The changes of a task update.
#[derive(Debug, Deserialize)]
pub(super) struct Patch<'a> {
    #[serde(borrow)]
    pub(super) status: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Str<'a>>,
}

/// The blocks of a message that the agent abandoned: all from an index on.
#[derive(Debug, Deserialize)]
pub(super) struct AbandonedBlocks<'a> {
    #[serde(borrow)]
    pub(super) api_message_id: Option<Str<'a>>,
    pub(super) from_block_index: Option<u64>,
}

/// A request from the agent to its host.
#[derive(Debug, Deserialize)]
pub(super) struct ControlRequest<'a> {
    #[serde(borrow)]
    pub(super) subtype: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) permission_suggestions: Option<&'a RawValue>,
}

/// Something that the harness attached to the conversation.
#[derive(Debug, Deserialize)]
pub(super) struct Attachment<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) prompt: Option<&'a RawValue>,
    #[serde(borrow, rename = "commandMode")]
    pub(super) command_mode: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) source_uuid: Option<Str<'a>>,
    #[serde(borrow, rename = "hookEvent")]
    pub(super) hook_event: Option<Str<'a>>,
    #[serde(borrow, rename = "hookName")]
    pub(super) hook_name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, rename = "blockingError")]
    pub(super) blocking_error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stderr: Option<&'a RawValue>,
}

/// The metadata of a compaction.
#[derive(Debug, Deserialize)]
pub(super) struct CompactMetadata<'a> {
    #[serde(borrow, alias = "preservedSegment")]
    pub(super) preserved_segment: Option<PreservedSegment<'a>>,
}

/// The metadata of a microcompaction: the calls whose outputs left the context.
#[derive(Debug, Deserialize)]
pub(super) struct MicrocompactMetadata<'a> {
    #[serde(borrow, default, alias = "compactedToolIds")]
    pub(super) compacted_tool_ids: Vec<&'a RawValue>,
}

/// The lines that a compaction preserved; they begin with `head_uuid`.
#[derive(Debug, Deserialize)]
pub(super) struct PreservedSegment<'a> {
    #[serde(borrow, alias = "headUuid")]
    pub(super) head_uuid: Option<Str<'a>>,
}

/// A streaming event of the model's API.
#[derive(Debug, Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) message: Option<MessageStart<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<ContentBlock<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// The message that starts to stream.
#[derive(Debug, Deserialize)]
pub(super) struct MessageStart<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
}

/// Text that is appended to a block, or the end of a message.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Str<'a>>,
}

/// The input of a call that starts a subagent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentInput<'a> {
    #[serde(borrow)]
    pub(super) prompt: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) subagent_type: Option<Str<'a>>,
    pub(super) run_in_background: bool,
}

/// The input of a call that sends a message to a subagent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessageInput<'a> {
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) summary: Option<Str<'a>>,
}

/// The structured result of a subagent's call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentResult<'a> {
    #[serde(borrow, rename = "agentId")]
    pub(super) agent_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Str<'a>>,
    #[serde(rename = "isAsync")]
    pub(super) is_async: bool,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(rename = "harnessNoteCount")]
    pub(super) harness_note_count: usize,
    #[serde(rename = "totalDurationMs")]
    pub(super) total_duration_ms: Option<u64>,
    #[serde(borrow, rename = "resumedAgentId")]
    pub(super) resumed_agent_id: Option<Str<'a>>,
    /// The tokens of the subagent's last message.
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// The structured result of a tool that changes files.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FileResult<'a> {
    /// `create` or `update`, of a whole file that was written.
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow, rename = "filePath")]
    pub(super) file_path: Option<Str<'a>>,
    #[serde(borrow, rename = "structuredPatch")]
    pub(super) structured_patch: Option<&'a RawValue>,
    #[serde(borrow, rename = "originalFile")]
    pub(super) original_file: Option<&'a RawValue>,
    #[serde(borrow, rename = "oldString")]
    pub(super) old_string: Option<Str<'a>>,
    #[serde(borrow, alias = "notebookPath")]
    pub(super) notebook_path: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Str<'a>>,
}

/// The metadata file beside a subagent's file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentMeta<'a> {
    #[serde(borrow, rename = "agentType")]
    pub(super) agent_type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow, rename = "toolUseId")]
    pub(super) tool_use_id: Option<Str<'a>>,
    #[serde(borrow, rename = "parentAgentId")]
    pub(super) parent_agent_id: Option<Str<'a>>,
    #[serde(borrow, rename = "requestShape")]
    pub(super) request_shape: Option<Str<'a>>,
}
