//! A small language for tests: short lines become events, and a state becomes short lines.
//!
//! ```text
//! prompt u1 Hi                 a user's message
//! start a1                     the model begins a text
//! a1+=Hello                    … and continues it; `a1+=lo@3` states the offset
//! say a1 Hello                 a whole text
//! think t1 Hm                  thinking
//! tool c1 Bash                 a tool call, pending
//! result c1 ok                 its result; `result c1 error: no` if it failed
//! input c1 {"a                 the call's input as it is written
//! spawn c2 agent=A type=x prompt=p background      also older=A, the agent's older name
//! done c2 agent=A output=o     or `done c2 error`
//! internal                     marks the conversation, as in `@A internal`
//! remove a1 abandoned
//! rewind a1                    also edit, revert, compaction, reset; the head may be absent
//! microcompaction a1 c1        the blocks that leave the context
//! ask q1 / answer q1 yes
//! idle
//! ```
//!
//! The verb may be preceded by `file` or `stream` (the source), `preview`, and `@name` (the
//! conversation), and followed by `after=ID` (`after=-`: the first) and `replaces=ID`.

use std::collections::BTreeMap;
use std::fmt::Write;

use threadfold_core::{
    AssistantTextBlock, Block, BlockBody, BlockDelta, BlockId, BlockRemove, BlockStatus,
    BlockUpsert, CompletedStatus, Content, ContextChange, ContextChanged, ConversationState,
    EmptyPayload, Json, Outcome, Payload, PermissionRequested, PermissionResolved, Placement,
    RemoveReason, SessionEvent, SourceKind, SubagentCompleted, SubagentMarked, SubagentRef,
    SubagentSpawned, TextField, ThinkingBlock, ToolResultBlock, ToolUseBlock, UserMessageBlock,
};

/// Folds a story and returns the printed state, with its anomalies.
pub fn play(story: &str) -> String {
    let mut state = ConversationState::default();
    let mut odd = String::new();
    for event in events(story) {
        let outcome = state.apply(&event);
        if let Some(anomaly) = outcome.anomaly() {
            let mark = if matches!(outcome, Outcome::Noted(_)) { '?' } else { '!' };
            writeln!(odd, "{mark} {anomaly}").expect("writing to a string cannot fail");
        }
    }
    format!("{}{odd}", show(&state))
}

/// Counts the blocks of all conversations by their type.
pub fn kinds(state: &ConversationState) -> BTreeMap<String, usize> {
    let subagents = state.subagents();
    let conversations =
        std::iter::once(state.blocks()).chain(subagents.iter().map(|it| it.blocks()));
    let mut kinds = BTreeMap::new();
    for block in conversations.flat_map(|blocks| blocks.iter()) {
        *kinds.entry(block.body.kind().to_owned()).or_default() += 1;
    }
    kinds
}

/// Returns the state after a story.
pub fn state(story: &str) -> ConversationState {
    threadfold_core::fold(&events(story))
}

/// Returns the events of a story, one a line.
///
/// # Panics
///
/// If a line does not parse, which is an error in the test.
pub fn events(story: &str) -> Vec<SessionEvent> {
    let lines = story.lines().flat_map(|line| line.split(';')).map(str::trim);
    lines.filter(|line| !line.is_empty()).map(event).collect()
}

fn event(line: &str) -> SessionEvent {
    let mut rest = line;
    let (mut source, mut conversation, mut preview) = (None, None, false);
    loop {
        let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "file" => source = Some(SourceKind::Transcript),
            "stream" => source = Some(SourceKind::Stream),
            "preview" => preview = true,
            _ => match word.strip_prefix('@') {
                Some(name) => conversation = Some(name),
                None => break,
            },
        }
        rest = tail;
    }
    let mut event = SessionEvent::new(payload(rest, preview));
    if let Some(kind) = source {
        event = event.from_source(kind);
    }
    match conversation {
        Some(name) => event.within(name),
        None => event,
    }
}

fn payload(line: &str, preview: bool) -> Payload {
    if let Some((id, text)) = line.split_once("+=") {
        return delta(id, text, TextField::Content);
    }
    let mut words: Vec<&str> = line.split(' ').collect();
    let option = |words: &mut Vec<&str>, name: &str| -> Option<String> {
        let at = words.iter().position(|word| word.starts_with(&format!("{name}=")))?;
        Some(words.remove(at)[name.len() + 1..].to_owned())
    };
    let after = match option(&mut words, "after").as_deref() {
        None => Placement::Unspecified,
        Some("-") => Placement::First,
        Some(id) => Placement::After(id.into()),
    };
    let replaces = option(&mut words, "replaces").map(BlockId::from);
    let agent_id = option(&mut words, "agent").map(Into::into);
    let subagent_id = option(&mut words, "older").map(Into::into);
    let prompt = option(&mut words, "prompt").map(Into::into);
    let subagent_type = option(&mut words, "type").map(Into::into);
    let output = option(&mut words, "output").map(|text| Json::string(&text));
    let id = words.get(1).copied().unwrap_or("");
    let text = words.get(2..).unwrap_or(&[]).join(" ");
    let upsert = |block: Block| {
        Payload::BlockUpsert(BlockUpsert {
            block,
            after: after.clone(),
            replaces: replaces.clone(),
            preview,
        })
    };
    let speech = || AssistantTextBlock { content: text.as_str().into(), model: None };
    match words[0] {
        "prompt" => {
            upsert(Block::new(id, UserMessageBlock { content: Content::from(text.as_str()) }))
        }
        "say" => upsert(Block::new(id, speech())),
        "start" => upsert(pending(Block::new(id, speech()))),
        "think" => upsert(Block::new(
            id,
            ThinkingBlock { content: text.as_str().into(), signature: None, redacted: false },
        )),
        "tool" => upsert(pending(Block::new(id, tool_use(id, &text)))),
        "result" => {
            let body = ToolResultBlock {
                tool_use_id: id.into(),
                is_error: text.starts_with("error"),
                output: Some(Json::string(&text)),
                duration_ms: None,
            };
            upsert(Block::new(format!("result:{id}"), body))
        }
        "input" => delta(id, &text, TextField::Input),
        "remove" => Payload::BlockRemove(BlockRemove {
            block_id: id.into(),
            reason: match text.as_str() {
                "abandoned" => RemoveReason::Abandoned,
                "superseded" => RemoveReason::Superseded,
                _ => RemoveReason::Deleted,
            },
        }),
        "spawn" => Payload::SubagentSpawned(SubagentSpawned {
            agent_id,
            subagent_id,
            prompt,
            subagent_type,
            background: text.contains("background"),
            unplaced: text.contains("unplaced"),
            ..SubagentSpawned::by(id)
        }),
        "done" => Payload::SubagentCompleted(SubagentCompleted {
            tool_use_id: id.into(),
            agent_id,
            subagent_id,
            status: match text.contains("error") {
                true => CompletedStatus::Error,
                false => CompletedStatus::Completed,
            },
            output,
            duration_ms: None,
            unplaced: text.contains("unplaced"),
        }),
        "ask" => Payload::PermissionRequested(PermissionRequested {
            request_id: id.into(),
            tool_use_id: None,
            question: Some(Json::string(&text)),
            options: None,
        }),
        "answer" => Payload::PermissionResolved(PermissionResolved {
            request_id: id.into(),
            answer: Some(Json::string(&text)),
        }),
        "internal" => Payload::SubagentMarked(SubagentMarked { internal: true }),
        "idle" => Payload::SessionIdle(EmptyPayload {}),
        other => Payload::ContextChanged(ContextChanged {
            kind: match other {
                "rewind" => ContextChange::Rewind,
                "edit" => ContextChange::Edit,
                "revert" => ContextChange::Revert,
                "compaction" => ContextChange::Compaction,
                "microcompaction" => ContextChange::Microcompaction,
                "reset" => ContextChange::Reset,
                _ => panic!("`{line}` is not a valid story line"),
            },
            head: (!id.is_empty() && other != "microcompaction").then(|| id.into()),
            summary: None,
            blocks: match other {
                "microcompaction" => {
                    text.split_whitespace().chain([id]).map(BlockId::from).collect()
                }
                _ => Vec::new(),
            },
        }),
    }
}

fn tool_use(id: &str, name: &str) -> ToolUseBlock {
    ToolUseBlock {
        tool_name: name.into(),
        tool_use_id: id.into(),
        input: None,
        input_text: None,
        display_name: None,
        description: None,
    }
}

fn pending(mut block: Block) -> Block {
    block.status = BlockStatus::Pending;
    block
}

fn delta(id: &str, text: &str, field: TextField) -> Payload {
    let (delta, offset) = match text.rsplit_once('@').map(|(text, at)| (text, at.parse().ok())) {
        Some((text, Some(offset))) => (text, Some(offset)),
        _ => (text, None),
    };
    Payload::BlockDelta(BlockDelta { block_id: id.into(), delta: delta.into(), field, offset })
}

/// Prints a state, one line per block.
pub fn show(state: &ConversationState) -> String {
    let mut out = String::new();
    for block in state.blocks().iter() {
        writeln!(out, "{}", line(&block)).expect("writing to a string cannot fail");
    }
    for subagent in state.subagents() {
        writeln!(out, "{}", header(&subagent)).expect("writing to a string cannot fail");
        for block in subagent.blocks().iter() {
            writeln!(out, "  {}", line(&block)).expect("writing to a string cannot fail");
        }
    }
    out
}

fn line(block: &Block) -> String {
    let mut out = format!("{} {}", block.id, block.body.kind());
    if block.status != BlockStatus::Complete {
        write!(out, " {}", block.status).expect("writing to a string cannot fail");
    }
    for (mark, name) in [(block.interrupted, "interrupted"), (block.inactive, "inactive")] {
        if mark {
            write!(out, " {name}").expect("writing to a string cannot fail");
        }
    }
    let words = match &block.body {
        BlockBody::UserMessage(body) => match &body.content {
            Content::Text(text) => text.to_string(),
            Content::Parts(parts) => format!("{} parts", parts.len()),
        },
        BlockBody::AssistantText(body) => body.content.to_string(),
        BlockBody::Thinking(body) => body.content.to_string(),
        BlockBody::ToolUse(body) => match &body.input_text {
            Some(text) => format!("{} {text}", body.tool_name),
            None => body.tool_name.to_string(),
        },
        BlockBody::ToolResult(body) => json(&body.output),
        BlockBody::Subagent(body) => [json(&body.input), json(&body.output)].join(" -> "),
        BlockBody::Permission(body) => [json(&body.question), json(&body.answer)].join(" -> "),
        _ => String::new(),
    };
    write!(out, " {words:?}").expect("writing to a string cannot fail");
    out
}

fn json(value: &Option<Json>) -> String {
    value.as_ref().map_or(String::new(), |it| it.to_text().unwrap_or_else(|| it.to_string()))
}

fn header(subagent: &SubagentRef<'_>) -> String {
    let shown = subagent.header();
    // The subagent's own id, then its call: the name that it is shown under depends on which of
    // its names came first.
    let call = shown.runs.first().map(|run| &run.tool_use_id).or(shown.tool_use_id.as_ref());
    let conversation = subagent.conversation_id();
    let name = match (&shown.agent_id, call) {
        (Some(agent), _) => agent.as_str(),
        (None, Some(call)) => call.as_str(),
        (None, None) => conversation.as_str(),
    };
    let mut out = format!("[{name}");
    if shown.unplaced {
        out.push_str(" unplaced");
    }
    if let Some(call) = &shown.tool_use_id {
        write!(out, " call {call}").expect("writing to a string cannot fail");
    }
    let internal = if shown.internal { " internal" } else { "" };
    write!(out, " {}{internal}]", shown.status).expect("writing to a string cannot fail");
    if let Some(prompt) = &shown.prompt {
        write!(out, " {prompt:?}").expect("writing to a string cannot fail");
    }
    if shown.output.is_some() {
        write!(out, " -> {:?}", json(&shown.output)).expect("writing to a string cannot fail");
    }
    if !shown.runs.is_empty() {
        let calls: Vec<_> = shown.runs.iter().map(|run| run.tool_use_id.as_str()).collect();
        write!(out, " runs {}", calls.join(", ")).expect("writing to a string cannot fail");
    }
    out
}
