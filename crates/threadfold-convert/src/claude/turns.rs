//! Turns of a file: which prompt each line belongs to, and which turns a person left.

use threadfold_core::{BlockId, ContextChange, ContextChanged, Payload};

use super::emitter::Emitter;
use super::memory::{LineEntry, key};
use super::repeated_history::telling_of;
use super::wire::{Content, Line};

/// Begins a turn with a prompt, and returns its number.
///
/// A prompt that does not continue the latest turn leaves it: the person rewound or edited.
pub(super) fn begin_turn(emitter: &mut Emitter<'_>, line: &Line<'_>) -> u32 {
    let parent = line.parent_uuid.as_deref().map(key);
    let conversation = emitter.conversation.clone();
    let above = parent.and_then(|parent| emitter.memory.files.lines.get(&parent).cloned());
    let known = line.uuid.as_deref().and_then(|uuid| emitter.memory.files.lines.get(&key(uuid)));
    if let Some(known) = known {
        return known.turn;
    }
    let turns = emitter.memory.files.turns.entry(conversation).or_default();
    let current = turns.current();
    let from = match (&above, parent) {
        // A helper's file hangs below lines of another conversation, whose turns are not its own.
        (Some(above), _) => above.turn.min(current),
        // The very first prompt has no parent; a second one without parent, before any answer,
        // replaces it.
        (None, None) if !turns.is_answered() && turns.is_first_alone() => 0,
        // The parent is unknown, as in a truncated file: assume that the prompt continues.
        _ => current,
    };
    let is_edit = turns.has_prompt_below(parent);
    let leaves_latest = !turns.is_active(from) || from != current;
    let turn = turns.begin(from, parent);
    if leaves_latest {
        let kind = if is_edit { ContextChange::Edit } else { ContextChange::Rewind };
        let head = above.and_then(|above| above.block);
        emitter.emit(Payload::ContextChanged(ContextChanged {
            kind,
            head,
            summary: None,
            blocks: Vec::new(),
        }));
    }
    turn
}

/// Returns the turn of a line that is not a prompt: the turn of its parent line.
pub(super) fn turn_of(emitter: &Emitter<'_>, line: &Line<'_>) -> u32 {
    let files = &emitter.memory.files;
    let current = files.turns.get(&emitter.conversation).map_or(0, |turns| turns.current());
    let above = line.parent_uuid.as_deref().and_then(|parent| files.lines.get(&key(parent)));
    above.map_or(current, |above| above.turn.min(current))
}

/// Marks the blocks of the record as inactive, if a person left their turn.
///
/// The agent may still write lines of a turn after the prompt that left it.
pub(super) fn deactivate_left_turn(emitter: &mut Emitter<'_>, turn: u32) {
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

/// Remembers a line, so that its children find its turn and its block.
pub(super) fn remember_line(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    block: Option<BlockId>,
    turn: u32,
) {
    let Some(uuid) = line.uuid.as_deref() else { return };
    let (telling, retold) = (telling_of(emitter, line), emitter.is_retold);
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
    // A repeated line keeps its first entry: its turn does not change.
    let entry = LineEntry { block, turn, index, telling, retold };
    files.lines.insert_if_free(key(uuid), entry);
}

/// Remembers a line without blocks: it can still be the parent of others.
pub(super) fn remember_parent(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let turn = turn_of(emitter, line);
    remember_line(emitter, line, None, turn);
}
