//! Codex's row of the table of agents.

use super::CodexConverter;
use super::layout::{self, RolloutRole};
use super::wire::{Line, Object};
use crate::agent::{AgentModule, OrderedFile, SessionFile};
use crate::bundle::{self, BundleStart};
use crate::{Agent, FeedKind, Format, Shape, memory};

/// OpenAI's Codex.
pub const AGENT: Agent = Agent::new(&AgentModule {
    name: "codex",
    other_names: &[],
    title: "Codex",
    formats: FORMATS,
    recognize_record,
    recognize_opening,
    converter: |session| match session {
        Some(session) => Box::new(CodexConverter::of_session(session.as_str())),
        None => Box::new(CodexConverter::default()),
    },
    resume: |memory| Ok(Box::new(memory::read::<CodexConverter>(memory)?)),
    unpack: bundle::unpack_list,
    is_session_name: layout::is_thread_id,
    part_name: |_| None,
    title_marks: &["thread_name"],
    has_one_main_file: false,
    reading_order,
});

const FORMATS: &[Format] = &[
    Format { name: "codex-exec", help: "Stream of `codex exec --json`", shape: Shape::Stream },
    Format {
        name: "codex-app-server",
        help: "Messages of `codex app-server` (JSON-RPC, one per line)",
        shape: Shape::Stream,
    },
    Format {
        name: "codex-rollout",
        help: "Session file of Codex (`rollout-*.jsonl`)",
        shape: Shape::Transcript,
    },
];

const EXEC: &Format = &FORMATS[0];
const APP_SERVER: &Format = &FORMATS[1];
const ROLLOUT: &Format = &FORMATS[2];

fn recognize_record(line: &[u8]) -> Option<&'static Format> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    if is_rollout(&line) {
        return Some(ROLLOUT);
    }
    if is_exec(&line) {
        return Some(EXEC);
    }
    let inner = line.msg.filter(|_| line.dir.is_some());
    let is_message = match inner {
        Some(inner) => {
            serde_json::from_str::<Line<'_>>(inner.get()).is_ok_and(|it| is_message(&it))
        }
        None => is_message(&line),
    };
    is_message.then_some(APP_SERVER)
}

/// Returns whether a line is of `codex exec`, which names nothing that a rollout names.
pub(super) fn is_unnamed(line: &[u8]) -> bool {
    recognize_record(line) == Some(EXEC)
}

/// Returns whether a line is a record of a rollout: other agents have `type` and `payload`, too, so
/// the payload must be of the kind that the type names.
pub(super) fn is_rollout(line: &Line<'_>) -> bool {
    let (Some(kind), Some(payload)) = (line.kind.as_deref(), line.payload) else { return false };
    let Some(payload) = Object::read(payload) else { return false };
    let has = |name: &str| payload.get(name).is_some();
    let is_one = match kind {
        "session_meta" => has("id") && (has("cli_version") || has("originator")),
        "response_item" => payload.text("type").is_some_and(|it| is_response_kind(&it)),
        "event_msg" => payload.text("type").is_some_and(|it| is_event_kind(&it)),
        "turn_context" => has("cwd") && has("model") && has("approval_policy"),
        "compacted" => payload.text("message").is_some() && payload.text("type").is_none(),
        "world_state" => has("state") && has("full"),
        "token_usage_record" => has("thread_id") && has("usage"),
        _ => false,
    };
    is_one && line.timestamp.is_some()
}

fn is_response_kind(kind: &str) -> bool {
    let kinds = ["message", "reasoning", "agent_message", "additional_tools", "ghost_snapshot"];
    kinds.contains(&kind) || kind.ends_with("_call") || kind.ends_with("_output")
}

fn is_event_kind(kind: &str) -> bool {
    [
        "task_started",
        "task_complete",
        "turn_aborted",
        "token_count",
        "item_completed",
        "user_message",
        "agent_message",
        "agent_reasoning",
        "thread_settings_applied",
        "context_compacted",
        "thread_rolled_back",
    ]
    .contains(&kind)
}

fn is_exec(line: &Line<'_>) -> bool {
    match line.kind.as_deref() {
        Some("thread.started") => line.thread_id.is_some(),
        Some("item.started" | "item.updated" | "item.completed") => {
            let item = line.item.and_then(Object::read);
            item.is_some_and(|it| it.text("type").is_some() && it.text("id").is_some())
        }
        Some("turn.completed") => line.usage.is_some(),
        Some("turn.failed") => {
            line.error.and_then(Object::read).is_some_and(|it| it.get("message").is_some())
        }
        _ => false,
    }
}

/// Returns whether a message is one of the app-server: its methods name a thread.
fn is_message(line: &Line<'_>) -> bool {
    if let Some(result) = line.result.and_then(Object::read) {
        return result.get("user_agent").is_some() && result.get("codex_home").is_some();
    }
    let Some(method) = line.method.as_deref() else { return false };
    let is_named = ["thread/", "turn/", "item/"].iter().any(|it| method.starts_with(it));
    let params = line.params.and_then(Object::read);
    is_named && params.is_some_and(|it| it.get("thread_id").or_else(|| it.get("thread")).is_some())
}

/// Recognizes a list of records.
fn recognize_opening(head: &[u8]) -> Option<&'static Format> {
    match bundle::opening(head)? {
        BundleStart::List(first) => recognize_record(first.as_bytes()),
        BundleStart::Object => None,
    }
}

/// Returns the files of the session of the first file among these.
///
/// A rollout that names no thread is read as it is.
fn reading_order(files: &[SessionFile<'_>]) -> Vec<OrderedFile> {
    let name_of = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
    let mut heads: Vec<(String, layout::RolloutHead, usize)> = Vec::new();
    let mut others = Vec::new();
    for (index, file) in files.iter().enumerate() {
        match layout::head_of(file.bytes) {
            Some(head) => heads.push((name_of(file.path), head, index)),
            None => others.push(OrderedFile::new(index, FeedKind::Main, file.path)),
        }
    }
    // A fork may stand before the thread that it continues.
    let first = heads.first().map(|(_, head, _)| head.thread.clone());
    heads.sort_by(|a, b| a.0.cmp(&b.0));
    let indexes: Vec<usize> = heads.iter().map(|(_, _, index)| *index).collect();
    let heads: Vec<_> = heads.into_iter().map(|(name, head, _)| (name, head)).collect();
    let Some(root) = first.map(|it| layout::root_of(&heads, &it)) else { return others };
    let order = layout::RolloutIndex::new(&heads).session_files(&root);
    let file = |(at, role): (usize, RolloutRole)| {
        let kind = match role {
            RolloutRole::Main | RolloutRole::Base => FeedKind::Main,
            RolloutRole::Subagent(thread) => FeedKind::Subagent(thread.as_str().into()),
        };
        OrderedFile::new(indexes[at], kind, files[indexes[at]].path)
    };
    let mut ordered: Vec<_> = order.into_iter().map(file).collect();
    ordered.extend(others);
    ordered
}
