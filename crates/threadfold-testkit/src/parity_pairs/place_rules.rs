//! Rules of order: which records may change places without a change of meaning, and why.
//!
//! A record without a rule has its place in a conversation, so a permutation of it must be detected.

use serde_json::Value;
use threadfold_convert::{Agent, claude, codex, opencode};
use threadfold_fold::parity::Side;

use super::permute::{Permutation, PermutationForm, PermutedRecord};

/// Why the order of two records has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceRule {
    /// They are about different conversations, which run at the same time.
    Conversations,
    /// They are copies of one object, or reports of it.
    OneObject,
    /// Calls of one answer run at the same time, and so do what they report and return.
    Parallel,
    /// A review is a turn inside the one that asks for it, and may end with it.
    Review,
    /// One completes an object that it names; the object has the place of its beginning.
    Completion,
    /// One is the state of an object that it names, whose place is a field of the object.
    State,
    /// One counts, sets or describes something, and is no part of a conversation.
    Bookkeeping,
    /// One is before the line that it continues: it names that line, and is compared behind it.
    FileOrder,
    /// Rows of a database have no order, and events may have a number: that says where they belong.
    Numbered,
}

impl PlaceRule {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conversations => "different conversations",
            Self::OneObject => "copies of one object",
            Self::Parallel => "calls that run at the same time",
            Self::Review => "turns of reviews",
            Self::Completion => "the end of an object that it names",
            Self::State => "the state of an object that it names",
            Self::Bookkeeping => "no part of a conversation",
            Self::FileOrder => "lines before the line that they continue",
            Self::Numbered => "rows and numbered events",
        }
    }
}

/// Records that complete an object which they name, by the beginning of their kind.
const COMPLETIONS: &[&str] = &[
    // Codex: calls return and end, and what was streamed of an item is put together by its id.
    "event_msg/collab_",
    "event_msg/exec_command_",
    "event_msg/image_generation_end",
    "event_msg/mcp_tool_call_",
    "event_msg/patch_apply_",
    "event_msg/view_image_tool_call",
    "event_msg/web_search_end",
    "item/CollabAgentToolCall",
    "item/CommandExecution",
    "item/DynamicToolCall",
    "item/FileChange",
    "item/ImageGeneration",
    "item/ImageView",
    "item/McpToolCall",
    "item/WebSearch",
    "item/completed/",
    "response_item/custom_tool_call_output",
    "response_item/function_call_output",
    "response_item/tool_search_output",
    "item.completed/command_execution",
    "item.completed/file_change",
    "item.completed/mcp_tool_call",
    "item.completed/collab_tool_call",
    "item.completed/web_search",
    // Claude Code: results name their calls.
    "tool_result",
];

/// Records that count, set or describe something, by the beginning of their kind.
const BOOKKEEPING: &[&str] =
    &["account/", "event_msg/token_count", "thread/tokenUsage/", "thread/status/"];

/// Returns whether a record has an id, so that it says the same if it is there twice.
pub fn is_named(record: &PermutedRecord) -> bool {
    let is_id = |id: &String| !["said ", "thought ", "ran "].iter().any(|it| id.starts_with(it));
    let own = ["uuid", "id"].iter().any(|it| record.object[*it].is_string());
    own || record.mutation.ids.iter().any(is_id)
}

/// Returns why the order of two records has no meaning.
pub fn why_placeless(agent: Agent, permutation: &Permutation) -> Option<PlaceRule> {
    let records = [&permutation.first, &permutation.second];
    let kinds = records.map(|it| it.mutation.kind.as_str());
    let begins =
        |list: &[&str]| kinds.iter().any(|kind| list.iter().any(|it| kind.starts_with(it)));
    let [first, second] = records.map(conversation);
    if first.is_some() && second.is_some() && first != second {
        return Some(PlaceRule::Conversations);
    }
    let is_row = kinds.iter().any(|kind| kind.starts_with("row/"));
    if is_row || records.iter().all(|it| it.is_numbered) {
        return Some(PlaceRule::Numbered);
    }
    if records.iter().any(|it| it.is_copy) || is_same_answer(records) {
        return Some(PlaceRule::OneObject);
    }
    let is_call = |kind: &str| CALLS.contains(&kind);
    let is_parallel = kinds.into_iter().all(is_call);
    if is_parallel && permutation.form == PermutationForm::Neighbours {
        return Some(PlaceRule::Parallel);
    }
    let [one, other] = records.map(calls);
    // What a call returned before it was made has a meaning: none.
    let is_same_call = one.iter().any(|call| other.contains(call));
    let is_end = |kind: &str| COMPLETIONS.iter().any(|it| kind.starts_with(it));
    let are_ends = kinds.into_iter().all(is_end);
    // The end of a message names none: it is of the message that streams.
    let is_beside = permutation.form == PermutationForm::Neighbours;
    let ends_message = is_beside && kinds.contains(&"stream_event/message_delta");
    if are_ends || ends_message || (begins(COMPLETIONS) && !is_same_call) {
        return Some(PlaceRule::Completion);
    }
    let is_turn = |kind: &str| kind.starts_with("event_msg/task_");
    if kinds.into_iter().all(is_turn) && records.iter().any(|it| it.has_review) {
        return Some(PlaceRule::Review);
    }
    if begins(BOOKKEEPING) {
        return Some(PlaceRule::Bookkeeping);
    }
    let is_state = |kind: &str| matches!(kind, "session" | "v2/session" | "message" | "part");
    let is_streamed = permutation.first.mutation.side == Side::Stream;
    if agent == opencode::AGENT && is_streamed && kinds.into_iter().any(is_state) {
        return Some(PlaceRule::State);
    }
    debug_assert!([claude::AGENT, codex::AGENT, opencode::AGENT].contains(&agent));
    None
}

/// Returns whether one record is a text or thought of a model of Codex, and the other one the agent's
/// item of it: they have one id, also where their texts differ or are hidden.
fn is_same_answer(records: [&PermutedRecord; 2]) -> bool {
    let of_kind = |kind: &str| records.into_iter().find(|it| it.mutation.kind == kind);
    let pairs = [
        ("item/AgentMessage", "response_item/message/assistant"),
        ("item/Reasoning", "response_item/reasoning"),
    ];
    pairs.into_iter().any(|(item, response)| {
        of_kind(item).zip(of_kind(response)).is_some_and(|(item, response)| {
            let id = &item.object["payload"]["item"]["id"];
            id.is_string() && *id == response.object["payload"]["id"]
        })
    })
}

/// The records with which calls begin.
const CALLS: [&str; 4] = [
    "response_item/custom_tool_call",
    "response_item/function_call",
    "item/started/commandExecution",
    "item.started/command_execution",
];

/// Returns the calls and items that a record names.
fn calls(record: &PermutedRecord) -> Vec<&str> {
    let object = &record.object;
    let content = object["message"]["content"].as_array().into_iter().flatten();
    let named = content.flat_map(|it| [&it["id"], &it["tool_use_id"]]);
    let own = [
        &object["payload"]["call_id"],
        &object["payload"]["item"]["id"],
        &object["params"]["item"]["id"],
        &object["params"]["itemId"],
        &object["item"]["id"],
    ];
    named.chain(own).filter_map(Value::as_str).collect()
}

/// Returns the conversation that a record names.
fn conversation(record: &PermutedRecord) -> Option<String> {
    let object = &record.object;
    let (params, data) = (&object["params"], &object["data"]);
    let names = [
        &params["threadId"],
        &params["thread"]["id"],
        &object["parent_tool_use_id"],
        &object["sessionID"],
        &object["properties"]["sessionID"],
        &data["sessionID"],
        &object["session_id"],
    ];
    names.into_iter().find_map(Value::as_str).map(str::to_owned)
}
