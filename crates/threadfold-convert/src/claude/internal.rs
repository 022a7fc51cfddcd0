//! Claude Code's own helpers: conversations that it runs for itself, without a call.

use threadfold_core::{Payload, SubagentMarked};

use super::emitter::Emitter;
use super::wire::{Content, Line};

/// What the ids of helpers begin with. The ids of all other subagents are `a` and hexadecimal
/// digits, or `a` and a name that a person gave.
const HELPERS: [&str; 3] = ["aprompt_suggestion", "acompact", "aside_question"];

/// Marks the line's conversation as internal, if it is one of the agent's own helpers.
///
/// A helper's file is marked by its first line that shows it, and not by later ones.
pub(super) fn mark_internal(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    if emitter.memory.files.last.contains_key(&emitter.conversation) {
        return;
    }
    if is_helper(emitter.conversation.as_str()) || is_warmup(line) {
        emitter.emit(Payload::SubagentMarked(SubagentMarked { internal: true }));
    }
}

fn is_helper(agent: &str) -> bool {
    let after_name = |name: &str| agent.strip_prefix(name);
    HELPERS.into_iter().filter_map(after_name).any(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns whether the line is the prompt with which 2.0 starts agents before anybody needs them.
fn is_warmup(line: &Line<'_>) -> bool {
    let content = line.message.as_ref().map(|message| &message.content);
    line.parent_uuid.is_none() && matches!(content, Some(Content::Text(text)) if text == "Warmup")
}
