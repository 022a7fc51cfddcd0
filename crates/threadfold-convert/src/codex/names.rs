//! Names for what `codex exec` reports: it names nothing that a file names.
//!
//! What both have in common is the content: the text, the command, the arguments. A block of the
//! stream is the n-th with its content, and gets the name of the n-th with that content in the
//! files. Read before them, it has a name of its own, which the files' record replaces.
//!
//! The first versions mix the items of subagents into the stream. Their files have no turns, and what
//! they contain is found in the same way: the block belongs to the subagent's conversation, and if
//! the stream came first, the files move it there.

use std::sync::Arc;

use threadfold_core::work::visit;
use threadfold_core::{BlockId, BlockRemove, ConversationId, Payload, RemoveReason};

use super::emitter::Emitter;
use super::memory::{Names, StoredName};
use super::tools::ResultReport;

/// Returns the key of a content, without its number.
fn key_of(kind: &str, content: &str) -> String {
    let hash =
        content.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B)
        });
    format!("exec:{kind}:{hash:032x}")
}

/// The most results that are kept for the file.
const MOST_RESULTS: usize = 64;

/// What stands between two parts of a block.
pub(super) const PART_END: &str = "\n";

/// The distance between the positions of two blocks, so that others fit between them.
const ROOM: u64 = 1 << 16;

/// Notes that a file has a block with this content under this name. Returns the name that the stream
/// gave it, if the stream came first.
pub(super) fn store(
    emitter: &mut Emitter<'_>,
    kind: &str,
    content: &str,
    name: &str,
) -> Option<BlockId> {
    store_part(emitter, kind, content, name, None)
}

/// Notes that a file has a block, of which a stream may report this part apart.
pub(super) fn store_part(
    emitter: &mut Emitter<'_>,
    kind: &str,
    content: &str,
    name: &str,
    part: Option<u32>,
) -> Option<BlockId> {
    if emitter.is_stream || !emitter.memory.names.is_needed {
        return None;
    }
    let is_main = emitter.conversation.is_main();
    // Only versions whose files have no turns stream what subagents do.
    if !is_main && emitter.thread().turn.is_some() {
        return None;
    }
    let thread = Some(emitter.thread.clone()).filter(|_| !is_main);
    let stored = StoredName { name: name.into(), thread, part };
    let streamed = emitter.memory.names.store(kind, content, stored)?;
    if is_main {
        return Some(streamed);
    }
    let reason = RemoveReason::Superseded;
    let removal = BlockRemove { block_id: streamed, reason };
    emitter.emit_to(&ConversationId::main(), Payload::BlockRemove(removal));
    None
}

impl Names {
    /// Notes the file's name of a content. Returns the stream's, if the stream came first.
    fn store(&mut self, kind: &str, content: &str, stored: StoredName) -> Option<BlockId> {
        self.note_place(&stored);
        let key = key_of(kind, content);
        let count = self.stored_counts.entry(key.as_str().into()).or_default();
        *count += 1;
        let key: Arc<str> = format!("{key}:{count}").into();
        self.stored.insert(key.clone(), stored.clone());
        let is_streamed = self.streamed.remove(&key);
        if is_streamed {
            let names = if stored.thread.is_some() { &mut self.moved } else { &mut self.renamed };
            names.insert(stored.name.clone(), key.clone());
            self.renamings.push((key.clone(), stored));
        }
        is_streamed.then(|| BlockId::from(&*key))
    }

    /// Notes the position of a block of the main conversation in the files.
    pub(super) fn note_main_place(&mut self, name: &str) {
        if self.is_needed {
            self.note_place(&StoredName { name: name.into(), ..StoredName::default() });
        }
    }

    fn note_place(&mut self, stored: &StoredName) {
        let order = self.orders.entry(stored.thread.clone().unwrap_or_default()).or_default();
        if !order.places.contains_key(&stored.name) {
            let place = order.places.len() as u64 * ROOM;
            order.places.insert(stored.name.clone(), place);
        }
    }

    /// Notes that a block of the main conversation stands right after another one.
    pub(super) fn note_place_after(&mut self, before: &str, name: &str) {
        if !self.is_needed {
            return;
        }
        let order = self.orders.entry("".into()).or_default();
        let place = order.places.get(before).map_or(0, |it| it + 1);
        order.places.entry(name.into()).or_insert(place);
    }

    /// Forgets the last block with this content, because it never ran and no stream reports it.
    pub(super) fn forget(&mut self, kind: &str, content: &str, name: &str) {
        let key = key_of(kind, content);
        if let Some(count) = self.stored_counts.get_mut(key.as_str()) {
            let numbered = format!("{key}:{count}");
            if self.stored.get(numbered.as_str()).is_some_and(|it| *it.name == *name) {
                self.stored.remove(numbered.as_str());
                *count -= 1;
            }
        }
    }

    /// Returns the key of the stream's next block with this content.
    pub(super) fn next_key(&mut self, kind: &str, content: &str) -> Arc<str> {
        let key = key_of(kind, content);
        let count = self.streamed_counts.entry(key.as_str().into()).or_default();
        *count += 1;
        let key: Arc<str> = format!("{key}:{count}").into();
        if !self.stored.contains_key(&key) {
            self.streamed.insert(key.clone());
        }
        key
    }

    /// Returns the name of a block of the stream: the files' name, or its key.
    pub(super) fn resolve(&self, key: &Arc<str>) -> StoredName {
        let own = || StoredName { name: key.clone(), ..StoredName::default() };
        self.stored.get(key).cloned().unwrap_or_else(own)
    }

    /// Returns the block of the stream that precedes this one in the files; nothing if it is at the
    /// end, or the files do not have it.
    pub(super) fn place(&mut self, thread: &str, name: &str) -> Option<Option<BlockId>> {
        let order = self.orders.get_mut(thread)?;
        let place = *order.places.get(name)?;
        let is_last = order.placed.range(place..).next().is_none();
        let before = order.placed.range(..place).next_back().map(|(_, block)| block.clone());
        order.placed.insert(place, BlockId::from(name));
        (!is_last).then_some(before)
    }

    /// Returns the last block of the main conversation that the stream placed.
    pub(super) fn last_placed(&self) -> Option<BlockId> {
        self.orders.get("")?.placed.values().next_back().cloned()
    }

    /// Keeps the result of a call that no file has named yet. A file follows its stream closely, and all
    /// results of a long stream would make every snapshot larger.
    pub(super) fn keep_result(&mut self, key: &Arc<str>, result: &ResultReport) {
        if self.results.len() == MOST_RESULTS {
            self.results.pop_front();
        }
        self.results.push_back((key.clone(), result.clone()));
    }

    /// Returns the result of a call under the stream's name, once.
    pub(super) fn take_result(&mut self, key: &str) -> Option<ResultReport> {
        let at = self.results.iter().inspect(|_| visit()).position(|(known, _)| **known == *key)?;
        self.results.remove(at).map(|(_, result)| result)
    }

    /// Notes that the stream has reported one more part of a block. Returns where it begins behind the
    /// earlier ones; nothing if it is the first.
    pub(super) fn add_part(&mut self, name: &str, text: &str) -> Option<u64> {
        let begin = self.part_lengths.get(name).copied();
        let length = text.len() as u64 + begin.map_or(0, |it| it + PART_END.len() as u64);
        self.part_lengths.insert(name.into(), length);
        begin
    }
}
