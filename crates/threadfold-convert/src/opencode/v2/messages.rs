//! Stored messages, of every type.

use serde_json::value::RawValue;
use threadfold_core::{
    Block, ContextChange, ContextChanged, Json, Payload, SkillLoadBlock, UnknownBlock,
};

use super::blocks::{self, item_id};
use super::calls::{Call, CallOutcome, TypedCommand, end_background};
use super::places::Place;
use super::wire::{CallState, Item, Message, Prompt};
use crate::borrowed::Str;
use crate::opencode::emitter::Emitter;
use crate::opencode::messages::emit_usage;

/// Converts a message in its current state. One of an unknown type becomes a block that carries it.
pub(super) fn convert_message(
    emitter: &mut Emitter<'_>,
    place: &Place,
    kind: &str,
    message: &Message<'_>,
    raw: &RawValue,
) {
    let id = &*place.message;
    let created = message.time.created;
    let text = message.text.as_deref().unwrap_or("");
    match kind {
        "user" | "synthetic" => {
            let prompt: Prompt<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
            convert_prompt(emitter, place, kind, &prompt, created);
        }
        "assistant" => convert_assistant(emitter, place, message),
        "idle" => emitter.emit_idle(&place.conversation),
        "compaction" => {
            let compaction = Compaction {
                status: message.status.as_deref().unwrap_or("completed"),
                summary: message.summary.as_deref(),
                error: message.error,
                created,
            };
            compaction.emit(emitter, place);
            if let Some(tokens) = message.tokens {
                let model = message.model.as_ref().and_then(|it| it.id.as_deref());
                emit_usage(emitter, &place.conversation, id, model, tokens);
            }
        }
        "shell" => {
            let typed = TypedCommand {
                shell: message.shell.as_deref().unwrap_or(id),
                command: message.command.as_deref().unwrap_or(""),
                status: message.status.as_deref().unwrap_or("running"),
                exit: message.exit,
                output: message.output,
                time: message.time,
            };
            typed.emit(emitter, place);
        }
        "agent-switched" => {
            let words = switch_words("agent", message.agent.as_deref());
            show(emitter, place, blocks::notice(id, "switch", &words, created));
        }
        "model-switched" => {
            let model = message.model.as_ref().and_then(|it| it.id.as_deref());
            let words = switch_words("model", model);
            show(emitter, place, blocks::notice(id, "switch", &words, created));
        }
        "location-switched" => {
            let folder = message.location.as_ref().and_then(|it| it.directory.as_deref());
            let words = switch_words("folder", folder);
            show(emitter, place, blocks::notice(id, "switch", &words, created));
        }
        "system" => show(emitter, place, blocks::notice(id, "notice", text, created)),
        "skill" => {
            let name = message.name.as_deref().unwrap_or("");
            show(emitter, place, skill(id, name, text, created));
        }
        _ => show(emitter, place, Block::new(id, UnknownBlock { record: raw.into() })),
    }
}

/// Emits a message that is one block.
pub(super) fn show(emitter: &mut Emitter<'_>, place: &Place, block: Block) {
    emitter.emit_at(place, place.whole(), block);
}

/// Returns the words of a change of agent, model or folder.
pub(super) fn switch_words(what: &str, to: Option<&str>) -> String {
    format!("{what}: {}", to.unwrap_or("default"))
}

/// Returns a skill that was loaded.
pub(super) fn skill(id: &str, name: &str, text: &str, created: Option<f64>) -> Block {
    let body = SkillLoadBlock { skill_name: name.into(), content: Some(text.into()) };
    blocks::at(Block::new(id, body), created)
}

/// Converts a prompt of a person, or a text that no person typed.
pub(super) fn convert_prompt(
    emitter: &mut Emitter<'_>,
    place: &Place,
    kind: &str,
    prompt: &Prompt<'_>,
    created: Option<f64>,
) {
    if kind == "user" {
        show(emitter, place, blocks::prompt(&place.message, prompt, created));
        return;
    }
    show(emitter, place, blocks::synthetic(&place.message, prompt, created));
    end_background(emitter, prompt.text.as_deref(), prompt.metadata);
}

/// A compaction, as far as it has come.
pub(super) struct Compaction<'a> {
    pub(super) status: &'a str,
    pub(super) summary: Option<&'a str>,
    pub(super) error: Option<&'a RawValue>,
    pub(super) created: Option<f64>,
}

impl Compaction<'_> {
    pub(super) fn emit(&self, emitter: &mut Emitter<'_>, place: &Place) {
        let id = &*place.message;
        let words = match self.status {
            "completed" => "The context was compacted",
            "failed" => "The context could not be compacted",
            _ => "The context is being compacted",
        };
        show(emitter, place, blocks::notice(id, "compaction", words, self.created));
        if let Some(error) = self.error {
            emitter.emit_at(place, place.last(), blocks::error(id, error, self.created));
        }
        if self.status != "completed" {
            return;
        }
        let summary = self.summary.filter(|it| !it.is_empty());
        if let Some(summary) = summary {
            let block = blocks::notice(&format!("summary:{id}"), "summary", summary, self.created);
            emitter.emit_at(place, place.after(0), block);
        }
        emitter.emit(
            &place.conversation,
            Payload::ContextChanged(ContextChanged {
                kind: ContextChange::Compaction,
                head: Some(id.into()),
                summary: summary.map(Into::into),
                blocks: Vec::new(),
            }),
        );
    }
}

fn convert_assistant(emitter: &mut Emitter<'_>, place: &Place, message: &Message<'_>) {
    let id = &*place.message;
    let model = message.model.as_ref().and_then(|it| it.id.as_deref());
    let created = message.time.created;
    let (mut texts, mut thoughts) = (0, 0);
    for (number, raw) in message.content.iter().flatten().enumerate() {
        let number = number as u64;
        let item: Item<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let text = item.text.as_deref().unwrap_or("");
        let kind = item.kind.as_deref().unwrap_or("");
        let ordinal = match kind {
            "text" => &mut texts,
            "reasoning" => &mut thoughts,
            _ => {
                let has_state = kind == "tool" && convert_call(emitter, place, number, &item);
                if !has_state {
                    let body = UnknownBlock { record: (*raw).into() };
                    let block = Block::new(format!("{id}:{number}"), body);
                    emitter.emit_at(place, place.numbered(number), block);
                }
                continue;
            }
        };
        let block_id = item_id(id, kind, *ordinal);
        *ordinal += 1;
        if text.is_empty() {
            // It is being streamed, or was when OpenCode was killed.
            continue;
        }
        let block = match kind {
            "text" => blocks::text(&block_id, text, model.map(Into::into), created),
            _ => blocks::thought(&block_id, text, item.state, item.time.created),
        };
        emitter.side().open.remove(&block_id.as_str().into());
        emitter.emit_at(place, place.numbered(number), block);
    }
    if let Some(tokens) = message.tokens {
        emit_usage(emitter, &place.conversation, id, model, tokens);
    }
    if let Some(error) = message.error {
        emitter.emit_at(place, place.last(), blocks::error(id, error, created));
    }
}

/// Converts a call. Returns whether its state is known.
fn convert_call(emitter: &mut Emitter<'_>, place: &Place, number: u64, item: &Item<'_>) -> bool {
    let state = item.state.map(|raw| serde_json::from_str::<CallState<'_>>(raw.get()));
    let (Some(call), Some(Ok(state))) = (item.id.as_deref(), state) else { return false };
    let content = state.content;
    let outcome = match state.status.as_deref() {
        Some("streaming" | "running") => None,
        Some("completed") => Some(CallOutcome::Completed { content }),
        Some("error") => Some(CallOutcome::Failed { error: state.error, content }),
        _ => return false,
    };
    let is_streaming = state.status.as_deref() == Some("streaming");
    let input_text: Option<Str<'_>> =
        state.input.filter(|_| is_streaming).and_then(|raw| serde_json::from_str(raw.get()).ok());
    let call = Call {
        id: call,
        name: item.name.as_deref().unwrap_or(""),
        input: state.input.filter(|_| !is_streaming).map(Json::from),
        input_text: input_text.as_deref().filter(|it| !it.is_empty()),
        metadata: state.metadata,
        executed: item.executed,
        time: item.time,
        outcome,
    };
    call.emit(emitter, place, number);
    true
}
