//! The kinds of lines that Codex writes and prints: a line of another kind cannot be compared.

/// The events of a rollout.
const EVENTS: &[&str] = &[
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "background_event",
    "collab_agent_interaction_begin",
    "collab_agent_interaction_end",
    "collab_agent_spawn_begin",
    "collab_agent_spawn_end",
    "collab_close_begin",
    "collab_close_end",
    "collab_resume_begin",
    "collab_resume_end",
    "collab_waiting_begin",
    "collab_waiting_end",
    "context_compacted",
    "dynamic_tool_call_request",
    "dynamic_tool_call_response",
    "entered_review_mode",
    "error",
    "exec_command_begin",
    "exec_command_end",
    "exited_review_mode",
    "image_generation_end",
    "item_completed",
    "item_started",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "patch_apply_begin",
    "patch_apply_end",
    "plan_update",
    "stream_error",
    "sub_agent_activity",
    "task_complete",
    "task_started",
    "thread_goal_updated",
    "thread_name_updated",
    "thread_rolled_back",
    "thread_settings_applied",
    "token_count",
    "turn_aborted",
    "user_message",
    "view_image_tool_call",
    "warning",
    "web_search_end",
];

/// The items of a conversation with a model.
const RESPONSE_ITEMS: &[&str] = &[
    "additional_tools",
    "agent_message",
    "compaction",
    "compaction_summary",
    "custom_tool_call",
    "custom_tool_call_output",
    "function_call",
    "function_call_output",
    "ghost_snapshot",
    "image_generation_call",
    "local_shell_call",
    "message",
    "reasoning",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];

/// The lines of a rollout that are of one kind.
const LINES: &[&str] = &[
    "compacted",
    "inter_agent_communication_metadata",
    "retained_context",
    "session_meta",
    "session_state",
    "token_usage_record",
    "turn_context",
    "world_state",
];

/// The messages of the app-server that name no thread.
const SERVER_METHODS: &[&str] = &[
    "account/login/completed",
    "account/rateLimits/updated",
    "account/updated",
    "app/list/updated",
    "authStatusChange",
    "command/exec/outputDelta",
    "configWarning",
    "deprecationNotice",
    "error",
    "externalAgentConfig/import/completed",
    "fs/changed",
    "fuzzyFileSearch/sessionCompleted",
    "fuzzyFileSearch/sessionUpdated",
    "guardianWarning",
    "hook/completed",
    "hook/started",
    "loginChatGptComplete",
    "mcpServer/elicitation/request",
    "mcpServer/oauthLogin/completed",
    "mcpServer/startupStatus/updated",
    "model/rerouted",
    "model/verification",
    "plugin/installed",
    "process/exited",
    "process/outputDelta",
    "rawResponseItem/completed",
    "remoteControl/status/changed",
    "serverRequest/resolved",
    "sessionConfigured",
    "skills/changed",
    "warning",
    "windows/worldWritableWarning",
    "windowsSandbox/setupCompleted",
    "account/chatgptAuthTokens/refresh",
];

/// Messages that are about a thread, behind the first part of their method.
const THREAD_METHODS: &[&str] = &[
    "item/agentMessage/delta",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "item/commandExecution/outputDelta",
    "item/commandExecution/requestApproval",
    "item/commandExecution/terminalInteraction",
    "item/completed",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/fileChange/requestApproval",
    "item/mcpToolCall/progress",
    "item/permissions/requestApproval",
    "item/plan/delta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "item/started",
    "item/tool/call",
    "item/tool/requestUserInput",
    "thread/archived",
    "thread/closed",
    "thread/compacted",
    "thread/environment/updated",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/queue/updated",
    "thread/readState/changed",
    "thread/realtime/closed",
    "thread/realtime/error",
    "thread/realtime/itemAdded",
    "thread/realtime/outputAudio/delta",
    "thread/realtime/sdp",
    "thread/realtime/started",
    "thread/realtime/transcript/delta",
    "thread/realtime/transcript/done",
    "thread/reverted",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
    "thread/tokenUsage/updated",
    "thread/unarchived",
    "turn/completed",
    "turn/diff/updated",
];

/// Further messages about a turn.
const TURN_METHODS: &[&str] = &["turn/plan/updated", "turn/started", "turn/moderationMetadata"];

/// The lines of `codex exec`.
const PRINTED: &[&str] = &[
    "error",
    "item.completed",
    "item.started",
    "item.updated",
    "thread.started",
    "turn.completed",
    "turn.failed",
    "turn.started",
];

/// Returns whether a rollout can have a line of this type with this type of payload.
pub(super) fn is_stored(kind: &str, detail: &str) -> bool {
    match kind {
        "event_msg" => EVENTS.contains(&detail),
        "response_item" => RESPONSE_ITEMS.contains(&detail),
        _ => LINES.contains(&kind),
    }
}

/// Returns whether the app-server can send a message with this method.
pub(super) fn is_sent(method: &str) -> bool {
    SERVER_METHODS.contains(&method)
        || THREAD_METHODS.contains(&method)
        || TURN_METHODS.contains(&method)
        // One version sends every event a second time, under another name.
        || method.starts_with("codex/event/")
}

/// Returns whether `codex exec` can print a line of this type.
pub(super) fn is_printed(kind: &str) -> bool {
    PRINTED.contains(&kind)
}
