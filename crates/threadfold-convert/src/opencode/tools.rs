//! Tool parts: one part is a call, and its result once it has ended.

use serde_json::value::RawValue;
use threadfold_core::{Block, BlockStatus, ConversationId, Json, ToolResultBlock, ToolUseBlock};

use super::emitter::{Emitter, key, key_after};
use super::files::FileCall;
use super::tasks;
use super::time::iso;
use super::wire::{Part, ToolState};

/// Converts a tool part, whatever its status.
pub(super) fn convert_tool(
    emitter: &mut Emitter<'_>,
    part: &Part<'_>,
    id: &str,
    message: &str,
    conversation: &ConversationId,
) {
    let none = ToolState::default();
    let state = part.state.as_ref().unwrap_or(&none);
    let status = state.status.as_deref().unwrap_or("pending");
    let call = part.call_id.as_deref().unwrap_or(id);
    let name = part.tool.as_deref().unwrap_or("");
    let mut block = Block::new(
        id,
        ToolUseBlock {
            tool_name: name.into(),
            tool_use_id: call.into(),
            // A pending call has an empty object for input, whatever the model will send.
            input: state.input.filter(|_| status != "pending").map(Json::from),
            input_text: None,
            display_name: None,
            description: state.title.as_deref().map(Into::into),
        },
    );
    block.status = BlockStatus::Pending;
    block.timestamp = state.time.and_then(|time| time.start).and_then(iso);
    emitter.emit_block(conversation, key(message, id), block);
    if tasks::is_task(name) && tasks::convert_task(emitter, conversation, call, state) {
        return;
    }
    let (output, is_error) = match status {
        "completed" => (state.output, false),
        "error" => (state.error, true),
        _ => return,
    };
    let mut result = Block::new(
        format!("result:{id}"),
        ToolResultBlock {
            tool_use_id: call.into(),
            output: output.map(Json::from),
            is_error,
            duration_ms: duration(state),
        },
    );
    result.timestamp = state.time.and_then(|time| time.end).and_then(iso);
    if let Some(metadata) = state.metadata {
        result.metadata.insert("structured", metadata.into());
    }
    // Pictures that a tool returned; the output is text only.
    if let Some(attachments) = state.attachments {
        result.metadata.insert("attachments", attachments.into());
    }
    emitter.emit_block(conversation, key_after(message, id), result);
    if !is_error {
        let file_call = FileCall {
            tool: name,
            call,
            input: state.input.map(RawValue::get),
            metadata: state.metadata.map(RawValue::get),
            output: state.output.map(RawValue::get),
            ended: state.time.and_then(|time| time.end),
        };
        file_call.emit(emitter, conversation);
    }
}

/// Returns how long a tool ran, in milliseconds.
pub(super) fn duration(state: &ToolState<'_>) -> Option<u64> {
    let time = state.time?;
    Some((time.end? - time.start?).max(0.0) as u64)
}
