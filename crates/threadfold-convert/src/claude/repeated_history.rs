//! History that a file contains twice: new records with the messages and calls of earlier ones.
//!
//! The blocks of the first records keep their places, and the later ones are reported. Words that
//! differ are kept beside the first. Everything is found by hash, so that a line costs the same
//! however long the history is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{
    Block, BlockId, ContextChange, ContextChanged, ConversationId, Payload, RemoveReason,
    SessionEvent,
};
use xxhash_rust::xxh3::xxh3_128;

use super::emitter::Emitter;
use super::key_map::KeyMap;
use super::memory::key;
use super::wire::{ContentBlock, Line};
use crate::hash_map::Map;

/// What the files of a session have contained so far, to recognize what they contain again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RepeatedHistory {
    /// What was read, by hash: where a text is within its message, and the words of a call or a
    /// result.
    known: KeyMap<u64>,
    /// The telling that each message belongs to, by hash; those of the first one are left out.
    messages: KeyMap<u32>,
    #[serde(with = "crate::pairs")]
    conversations: Map<ConversationId, ConversationRepetition>,
    /// The number of the latest telling.
    latest: u32,
    /// Calls whose latest telling has other words, with the block of that telling.
    #[serde(with = "crate::pairs", skip_serializing_if = "Map::is_empty")]
    reworded_calls: Map<Arc<str>, Arc<str>>,
}

/// How far a conversation repeats its history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConversationRepetition {
    /// The telling of the latest line.
    telling: u32,
    /// Texts in the user role that were read before in the same words. If a message follows that
    /// was read before as well, they belong to it.
    candidates: Vec<Candidate>,
    /// The message of the latest line of the model.
    message: Option<Arc<str>>,
    /// The block that was repeated last, while the history is repeated.
    last: Option<BlockId>,
}

/// A text in the user role that may be a repetition.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    blocks: Vec<BlockId>,
    line: u128,
    /// The conversation's last block before it.
    before: Option<BlockId>,
    /// The turn that it began, if it left another one by that.
    left: Option<u32>,
}

/// What a block of a new record is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// It was not read before.
    New,
    /// It was read before in the same words, as this block.
    Repeated(BlockId),
    /// It was read before in other words.
    Reworded,
}

/// Returns whether the line is a repetition that was recognized when it was read first.
pub(super) fn is_known_repetition(emitter: &Emitter<'_>, line: &Line<'_>) -> bool {
    let known = line.uuid.as_deref().and_then(|it| emitter.memory.files.lines.get(&key(it)));
    known.is_some_and(|known| known.retold)
}

/// Returns whether the line is a new record of a file, not an update of one.
pub(super) fn is_new_record(emitter: &Emitter<'_>, line: &Line<'_>) -> bool {
    let is_known = |uuid| emitter.memory.files.lines.contains_key(&key(uuid));
    !emitter.is_stream && !line.uuid.as_deref().is_some_and(is_known)
}

/// Returns the telling of a line: that of its parent, or else the conversation's latest one.
pub(super) fn telling_of(emitter: &Emitter<'_>, line: &Line<'_>) -> u32 {
    if let Some(telling) = emitter.telling {
        return telling;
    }
    let parent =
        line.parent_uuid.as_deref().and_then(|it| emitter.memory.files.lines.get(&key(it)));
    let current = emitter.memory.retellings.conversations.get(&emitter.conversation);
    parent.map_or_else(|| current.map_or(0, |it| it.telling), |it| it.telling)
}

/// Begins another telling with a text in the user role that may repeat an earlier one.
///
/// History that is repeated begins with a line without parent, or with words that are known.
pub(super) fn observe_text(emitter: &mut Emitter<'_>, line: &Line<'_>, words: &str) -> bool {
    let conversation = emitter.conversation.clone();
    let name = hash(&conversation, "user", "", &[words.as_bytes()]);
    let is_known = emitter.memory.retellings.known.insert(name, 0).is_some();
    let is_first = !emitter.memory.files.last.contains_key(&conversation);
    if is_known || (line.parent_uuid.is_none() && !is_first) {
        let retellings = &mut emitter.memory.retellings;
        retellings.latest += 1;
        let latest = retellings.latest;
        retellings.conversations.entry(conversation).or_default().telling = latest;
        emitter.telling = Some(latest);
    }
    is_known
}

/// Remembers a text in the user role whose words were read before.
pub(super) fn remember_candidate(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    before: Option<BlockId>,
    left: Option<u32>,
) {
    let Some(uuid) = line.uuid.as_deref() else { return };
    let conversation = emitter.conversation.clone();
    let block = |event: &SessionEvent| match &event.payload {
        Payload::BlockUpsert(upsert) => Some(upsert.block.id.clone()),
        _ => None,
    };
    let blocks = emitter.out[emitter.from..].iter().filter_map(block).collect();
    let candidate = Candidate { blocks, line: key(uuid), before, left };
    let retelling = emitter.memory.retellings.conversations.entry(conversation).or_default();
    retelling.candidates.push(candidate);
}

/// Returns whether the line belongs to another telling of a message than the message's first line.
pub(super) fn repeats_message(emitter: &mut Emitter<'_>, line: &Line<'_>, message: &str) -> bool {
    let telling = telling_of(emitter, line);
    let name = hash(&emitter.conversation, "message", message, &[]);
    let retellings = &mut emitter.memory.retellings;
    match retellings.messages.get(&name) {
        Some(first) => *first != telling,
        None if retellings.known.contains_key(&name) => telling != 0,
        None => {
            retellings.known.insert(name, 0);
            if telling != 0 {
                retellings.messages.insert(name, telling);
            }
            false
        }
    }
}

/// Compares a text or thought with those of the same message.
///
/// Returns its index within the message, if it was read before in the same words.
pub(super) fn compare_text(
    emitter: &mut Emitter<'_>,
    name: u128,
    is_repeated: bool,
    index: u64,
) -> Option<u64> {
    let known = &mut emitter.memory.retellings.known;
    if is_repeated {
        return known.get(&name).copied();
    }
    known.insert_if_free(name, index);
    None
}

/// Returns the name of a text or thought of a message: it has no id, so its words are its name.
pub(super) fn text_name(emitter: &Emitter<'_>, message: &str, words: &[&[u8]]) -> u128 {
    hash(&emitter.conversation, "text", message, words)
}

/// Returns whether a text or thought was read before in the same message.
pub(super) fn is_known_text(emitter: &Emitter<'_>, name: u128) -> bool {
    emitter.memory.retellings.known.contains_key(&name)
}

/// Returns whether no other message was read in the conversation since this one.
pub(super) fn is_latest_message(emitter: &Emitter<'_>, message: &str) -> bool {
    let retelling = emitter.memory.retellings.conversations.get(&emitter.conversation);
    retelling.is_some_and(|it| it.message.as_deref() == Some(message))
}

/// Remembers the message that was read last.
pub(super) fn remember_latest_message(emitter: &mut Emitter<'_>, message: &Arc<str>) {
    let conversation = emitter.conversation.clone();
    let retelling = emitter.memory.retellings.conversations.entry(conversation).or_default();
    retelling.message = Some(message.clone());
}

/// Compares a call or a result, which has an id, with the one that was read before.
pub(super) fn compare_named(
    emitter: &mut Emitter<'_>,
    kind: &str,
    id: &str,
    block: BlockId,
    words: &[&[u8]],
) -> Novelty {
    let name = hash(&emitter.conversation, kind, id, &[]);
    let words = combine(name, words) as u64;
    match emitter.memory.retellings.known.get(&name) {
        None => {
            emitter.memory.retellings.known.insert(name, words);
            Novelty::New
        }
        Some(first) if *first == words => Novelty::Repeated(block),
        Some(_) => Novelty::Reworded,
    }
}

/// Compares the result of a call with the one that was read before.
pub(super) fn compare_result(
    emitter: &mut Emitter<'_>,
    call: &str,
    block: &ContentBlock<'_>,
) -> Novelty {
    let output = block.content.map_or("", |raw| raw.get());
    let is_error = if block.is_error == Some(true) { "error" } else { "" };
    let words = [output.as_bytes(), is_error.as_bytes()];
    compare_named(emitter, "result", call, ["result:", call].concat().into(), &words)
}

/// Ends the repetition: the line is the first to contain what it contains.
pub(super) fn end_repetition(emitter: &mut Emitter<'_>) {
    if let Some(retelling) = emitter.memory.retellings.conversations.get_mut(&emitter.conversation)
    {
        retelling.candidates.clear();
        retelling.last = None;
    }
}

/// Records that the line repeats `block`, and reports that once for a run of repeated lines.
pub(super) fn repeat(emitter: &mut Emitter<'_>, block: BlockId) {
    emitter.is_retold = true;
    let conversation = emitter.conversation.clone();
    let retelling = emitter.memory.retellings.conversations.entry(conversation).or_default();
    let is_reported = retelling.last.replace(block.clone()).is_some();
    if !is_reported {
        let what = format!("`{block}` was read before: repeated history keeps its first place");
        emitter.report_remark(&what);
    }
    remove_candidates(emitter);
}

/// Removes the prompts before a repeated message, which are repetitions, too.
fn remove_candidates(emitter: &mut Emitter<'_>) {
    let conversation = emitter.conversation.clone();
    let Some(retelling) = emitter.memory.retellings.conversations.get_mut(&conversation) else {
        return;
    };
    let candidates = std::mem::take(&mut retelling.candidates);
    let Some(first) = candidates.first() else { return };
    // The next block must not be placed after one that is removed.
    let before = first.before.clone();
    match &before {
        Some(before) => emitter.memory.files.last.insert(conversation.clone(), before.clone()),
        None => emitter.memory.files.last.remove(&conversation),
    };
    for candidate in candidates {
        for block in candidate.blocks {
            emitter.emit_remove_in(&conversation, block, RemoveReason::Superseded);
        }
        if let Some(entry) = emitter.memory.files.lines.get_mut(&candidate.line) {
            entry.retold = true;
            entry.block = before.clone();
        }
        if let Some(turn) = candidate.left {
            rejoin(emitter, &conversation, turn, before.clone());
        }
    }
}

/// Takes back that a prompt left the turn before it.
fn rejoin(
    emitter: &mut Emitter<'_>,
    conversation: &ConversationId,
    turn: u32,
    head: Option<BlockId>,
) {
    if let Some(turns) = emitter.memory.files.turns.get_mut(conversation) {
        turns.rejoin(turn);
    }
    let change =
        ContextChanged { kind: ContextChange::Rewind, head, summary: None, blocks: Vec::new() };
    emitter.emit(Payload::ContextChanged(change));
}

/// Remembers the block of a call's latest telling; nothing if it repeats the first one.
pub(super) fn remember_telling_of_call(
    emitter: &mut Emitter<'_>,
    call: &str,
    reworded: Option<&BlockId>,
) {
    let calls = &mut emitter.memory.retellings.reworded_calls;
    match reworded {
        Some(block) => {
            calls.insert(call.into(), block.as_str().into());
        }
        None => {
            calls.remove(call);
        }
    }
}

/// Returns the block of a call, if its latest telling has other words: the result that follows is that
/// call's.
pub(super) fn reworded_call(emitter: &Emitter<'_>, call: &str) -> Option<Arc<str>> {
    emitter.memory.retellings.reworded_calls.get(call).cloned()
}

/// Emits a block that was read before in other words: it stands beside the `first`.
pub(super) fn emit_reworded(emitter: &mut Emitter<'_>, block: Block, first: BlockId) {
    let what = format!("`{first}` was read before in other words: both are kept");
    emitter.report_remark(&what);
    emitter.is_retold = true;
    remove_candidates(emitter);
    let conversation = emitter.conversation.clone();
    let retelling = emitter.memory.retellings.conversations.entry(conversation).or_default();
    retelling.last = Some(block.id.clone());
    // What comes next follows both.
    if let Some(last) = emitter.memory.files.last.get_mut(&emitter.conversation)
        && *last == first
    {
        *last = block.id.clone();
    }
    emitter.emit_block_beside(block, first);
}

/// Returns the hash of something in a conversation.
///
/// All text of a session is hashed here, so a cryptographic hash would take a third of the time to
/// load it. It is not needed: whoever can write records with equal hashes can as well leave out the
/// words that these would hide, and every record stays in the log.
fn hash(conversation: &ConversationId, kind: &str, id: &str, words: &[&[u8]]) -> u128 {
    let names = [conversation.as_str(), kind, id].map(str::as_bytes);
    combine(combine(0, &names), words)
}

/// Returns a hash of `start` and `parts`, in this order.
fn combine(start: u128, parts: &[&[u8]]) -> u128 {
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    parts
        .iter()
        .fold(start, |hash, part| (hash.rotate_left(41) ^ xxh3_128(part)).wrapping_mul(FACTOR))
}
