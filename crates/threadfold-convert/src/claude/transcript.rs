//! The files: what Claude Code keeps of a session, one JSON object a line.

use threadfold_core::{
    AgentId, BlockId, ContextChange, ContextChanged, ConversationId, Json, Payload,
};

use super::emitter::Emitter;
use super::live::notice;
use super::memory::{LineEntry, key};
use super::message::{assistant, harness_word, user};
use super::subagents::{call_of_opening, notified, spawned, tell_if_known};
use super::usage::update;
use super::wire::{Content, Line};

/// Converts one line of a file. Says whether it was understood.
pub(super) fn convert(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    text: &str,
    subagent: Option<&AgentId>,
) -> bool {
    let Some(kind) = line.kind.as_deref() else { return false };
    if subagent.is_none() && !line.is_sidechain {
        tell_of_session(emitter, line);
    }
    emitter.conversation = conversation(emitter, line, subagent);
    match kind {
        "assistant" => {
            let first = assistant(emitter, line, text);
            let turn = turn_of(emitter, line);
            off_path(emitter, turn);
            let conversation = emitter.conversation.clone();
            emitter.memory.files.turns.entry(conversation).or_default().answered = true;
            remember(emitter, line, first, turn);
            tell_of_calls(emitter, line);
        }
        "user" => user_line(emitter, line, subagent),
        "system" => return system(emitter, line),
        "attachment" => attachment(emitter, line),
        "queue-operation" => {
            let words = line.content.and_then(|raw| Json::from(raw).to_text());
            if let (Some("enqueue"), Some(words)) = (line.operation.as_deref(), words)
                && words.starts_with("<task-notification>")
            {
                notified(emitter, &words);
            }
        }
        "ai-title" | "custom-title" => {
            if let Some(title) = line.title.as_deref() {
                update(emitter, "title", Json::string(title));
            }
        }
        "cost-state" => {
            if let Some(cost) = line.file_cost_usd {
                update(emitter, "costUsd", Json::of(&cost));
            }
        }
        "progress" => follow(emitter, line),
        "summary"
        | "file-history-snapshot"
        | "last-prompt"
        | "permission-mode"
        | "mode"
        | "agent-name"
        | "agent-color"
        | "agent-setting"
        | "pr-link"
        | "bridge-session"
        | "tag"
        | "tools-used"
        | "atis-latch"
        | "api-request"
        | "api-request-blob"
        | "api-request-shape"
        | "worktree-state"
        | "content-replacement"
        | "marble-origami-commit"
        | "marble-origami-snapshot"
        | "task-summary"
        | "attribution-snapshot"
        | "speculation-accept"
        | "result"
        | "started"
        | "fork-context-ref"
        | "session-name" => {}
        _ => return false,
    }
    true
}

/// Says where the session works and which version it is, when that is new.
fn tell_of_session(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    for (place, (name, value)) in
        [("cwd", &line.cwd), ("version", &line.version)].into_iter().enumerate()
    {
        if let Some(value) = value.as_deref()
            && emitter.memory.told[place].as_deref() != Some(value)
        {
            emitter.memory.told[place] = Some(value.into());
            update(emitter, name, Json::string(value));
        }
    }
}

fn conversation(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    subagent: Option<&AgentId>,
) -> ConversationId {
    if let Some(agent) = subagent {
        return ConversationId::from(agent.bare());
    }
    if !line.is_sidechain {
        return emitter.conversation.clone();
    }
    sidechain(emitter, line)
}

/// Returns the conversation of a line that is a subagent's, though it stands in the main file.
fn sidechain(emitter: &mut Emitter<'_>, line: &Line<'_>) -> ConversationId {
    let uuid = line.uuid.as_deref().unwrap_or("");
    let above = line
        .parent_uuid
        .as_deref()
        .and_then(|parent| emitter.memory.sidechains.get(&key(parent)).cloned());
    let conversation = above.unwrap_or_else(|| {
        let words = opening(line);
        let call = words.as_deref().and_then(|words| call_of_opening(emitter, words));
        match call {
            Some(call) => {
                emitter.conversation = ConversationId::main();
                spawned(emitter, &call, None);
                ConversationId::from(&*call)
            }
            None => ConversationId::from(line.agent_id.as_deref().unwrap_or(uuid)),
        }
    });
    emitter.memory.sidechains.insert(key(uuid), conversation.clone());
    conversation
}

/// Returns the words that a subagent's conversation opens with.
fn opening(line: &Line<'_>) -> Option<String> {
    match &line.message.as_ref()?.content {
        Content::Text(words) => Some(words.to_string()),
        Content::Blocks(blocks) => {
            blocks.iter().find_map(|it| Some(it.text.as_deref()?.to_owned()))
        }
        Content::None => None,
    }
}

fn user_line(emitter: &mut Emitter<'_>, line: &Line<'_>, subagent: Option<&AgentId>) {
    let words = opening(line);
    let is_result = match line.message.as_ref().map(|message| &message.content) {
        Some(Content::Blocks(blocks)) => {
            blocks.iter().any(|block| block.kind.as_deref() == Some("tool_result"))
        }
        _ => false,
    };
    let is_word_of_harness = words.as_deref().is_some_and(|it| harness_word(line, it).is_some());
    if is_result || is_word_of_harness {
        if let Some(words) = words.filter(|words| words.starts_with("<task-notification>")) {
            notified(emitter, &words);
        }
        let first = user(emitter, line);
        let turn = turn_of(emitter, line);
        off_path(emitter, turn);
        remember(emitter, line, first, turn);
        return;
    }
    let conversation = emitter.conversation.clone();
    if emitter.is_repeated {
        // The turn that it began ended when it was told first.
    } else if emitter.memory.files.last.contains_key(&conversation) {
        emitter.emit_idle_in(&conversation);
    } else if let (Some(agent), Some(words)) = (subagent, words) {
        emitter.memory.openings.insert(agent.bare().into(), words.into());
    }
    let turn = begin_turn(emitter, line);
    let first = user(emitter, line);
    remember(emitter, line, first, turn);
}

/// Begins a turn with a prompt. One that does not go on from the latest turn left it.
fn begin_turn(emitter: &mut Emitter<'_>, line: &Line<'_>) -> u32 {
    let parent = line.parent_uuid.as_deref().map(key);
    let conversation = emitter.conversation.clone();
    let above = parent.and_then(|parent| emitter.memory.files.lines.get(&parent).cloned());
    let again = line.uuid.as_deref().and_then(|uuid| emitter.memory.files.lines.get(&key(uuid)));
    if let Some(again) = again {
        return again.turn;
    }
    let turns = emitter.memory.files.turns.entry(conversation).or_default();
    let current = turns.current();
    let from = match (&above, parent) {
        (Some(above), _) => above.turn,
        // The very first prompt, said anew before it was answered.
        (None, None) if current == 1 && !turns.answered && turns.parents == [None] => 0,
        _ => current,
    };
    let edited = turns.parents.contains(&parent);
    let left = !turns.is_active(from) || from != current;
    turns.from.push(from);
    turns.parents.push(parent);
    turns.answered = false;
    let turn = turns.current();
    if left {
        let kind = if edited { ContextChange::Edit } else { ContextChange::Rewind };
        let head = above.and_then(|above| above.block);
        emitter.emit(Payload::ContextChanged(ContextChanged { kind, head, summary: None }));
    }
    turn
}

/// Returns the turn of a line that is no prompt: that of the line it hangs below.
fn turn_of(emitter: &Emitter<'_>, line: &Line<'_>) -> u32 {
    let files = &emitter.memory.files;
    let current = files.turns.get(&emitter.conversation).map_or(0, |turns| turns.current());
    let above = line.parent_uuid.as_deref().and_then(|parent| files.lines.get(&key(parent)));
    above.map_or(current, |above| above.turn)
}

/// Marks what this line said as off the active path, if its turn was left.
fn off_path(emitter: &mut Emitter<'_>, turn: u32) {
    let Some(turns) = emitter.memory.files.turns.get(&emitter.conversation) else { return };
    if turns.is_active(turn) {
        return;
    }
    let from = emitter.from;
    for event in emitter.out[from..].iter_mut() {
        if let Payload::BlockUpsert(upsert) = &mut event.payload
            && event.context.conversation_id == emitter.conversation
        {
            upsert.block.inactive = true;
        }
    }
}

fn remember(emitter: &mut Emitter<'_>, line: &Line<'_>, block: Option<BlockId>, turn: u32) {
    let Some(uuid) = line.uuid.as_deref() else { return };
    let files = &mut emitter.memory.files;
    let above = || {
        let parent = files.lines.get(&key(line.parent_uuid.as_deref()?))?;
        parent.block.clone()
    };
    let block = block.or_else(above);
    let next =
        line.message.as_ref().and_then(|message| files.counts.get(message.id.as_deref()?).copied());
    let count = match line.message.as_ref().map(|message| &message.content) {
        Some(Content::Blocks(blocks)) => blocks.len() as u64,
        Some(Content::Text(_)) => 1,
        _ => 0,
    };
    let index = next.unwrap_or(0).saturating_sub(count);
    files.lines.entry(key(uuid)).or_insert(LineEntry { block, turn, index });
}

/// Remembers a line that shows nothing: others hang below it.
fn follow(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let turn = turn_of(emitter, line);
    remember(emitter, line, None, turn);
}

fn tell_of_calls(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    if let Some(Content::Blocks(blocks)) = line.message.as_ref().map(|message| &message.content) {
        for call in blocks.iter().filter_map(|block| block.id.as_deref()) {
            tell_if_known(emitter, call);
        }
    }
}

fn system(emitter: &mut Emitter<'_>, line: &Line<'_>) -> bool {
    let subtype = line.subtype.as_deref().unwrap_or("notice");
    let words = line.content.and_then(|raw| Json::from(raw).to_text());
    let mut shown = None;
    match (subtype, words) {
        ("compact_boundary" | "microcompact_boundary", _) => {
            super::compaction::boundary(emitter, line);
            shown = line.uuid.as_deref().map(BlockId::from);
        }
        ("api_error", _) => {
            let attempt = line.retry_attempt.unwrap_or(0);
            let words = format!("attempt {attempt} failed and is made again");
            notice(emitter, line, "api_error", words);
            shown = line.uuid.as_deref().map(BlockId::from);
        }
        ("turn_duration" | "stop_hook_summary" | "away_summary" | "bridge_status", _) => {}
        (subtype, Some(words)) => {
            let subtype = if subtype == "local_command" { "command" } else { subtype };
            notice(emitter, line, subtype, words);
            shown = line.uuid.as_deref().map(BlockId::from);
        }
        _ => return false,
    }
    let turn = turn_of(emitter, line);
    remember(emitter, line, shown, turn);
    true
}

fn attachment(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let Some(attached) = &line.attachment else { return follow(emitter, line) };
    let words =
        |raw: Option<&serde_json::value::RawValue>| raw.and_then(|raw| Json::from(raw).to_text());
    match attached.kind.as_deref() {
        Some("queued_command") => {
            let prompt = words(attached.prompt);
            let is_prompt = attached.command_mode.as_deref().is_none_or(|mode| mode == "prompt");
            match prompt {
                Some(prompt) if prompt.starts_with("<task-notification>") => {
                    notified(emitter, &prompt);
                }
                Some(prompt) if is_prompt => queued_prompt(emitter, line, &prompt),
                _ => {}
            }
        }
        Some("hook_success" | "hook_blocking_error" | "hook_error" | "hook_non_blocking_error") => {
            let event = attached.hook_event.as_deref().unwrap_or("");
            let name = attached.hook_name.as_deref().unwrap_or(event);
            let said_by_hook = words(attached.content).unwrap_or_default();
            notice(emitter, line, "hook", format!("{name}: {said_by_hook}"));
        }
        _ => {}
    }
    follow(emitter, line);
}

/// A prompt that was queued while the agent worked. It may stand as a line of its own, too.
fn queued_prompt(emitter: &mut Emitter<'_>, line: &Line<'_>, prompt: &str) {
    let own = line.uuid.as_deref();
    let source = line.attachment.as_ref().and_then(|it| it.source_uuid.as_deref());
    let Some(id) = source.or(own) else { return };
    if emitter.memory.files.lines.contains_key(&key(id)) {
        return;
    }
    let content = threadfold_core::Content::from(prompt);
    emitter.emit_block(threadfold_core::Block::new(id, threadfold_core::UserMessage { content }));
}
