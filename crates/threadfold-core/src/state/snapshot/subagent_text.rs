//! A spilled subagent as text: what a snapshot has of it, and what is derived from other subagents.

use std::io::{self, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::conversation::Conversation;
use super::super::entry::Residence;
use super::super::subagent::Subagent;
use super::restore::restore_rare;
use super::{BlockFacts, SubagentFacts, block_facts, subagent_facts};
use crate::block::Block;

/// How many bytes the text of a subagent may have. A larger one stays in memory, where its blocks
/// are spilled one by one: to write and read it whenever it changes would cost more than it saves.
pub(in super::super) const LARGEST_TEXT: usize = 4 << 10;

#[derive(Serialize, Deserialize)]
struct SubagentText {
    facts: SubagentFacts<Vec<BlockFacts>>,
    /// Its conversation is interrupted.
    interrupted: bool,
    /// Whether each of its runs is cut off.
    cut_off: Vec<bool>,
    /// The positions of the blocks that are open, or that only the interruption closed.
    open: Vec<usize>,
    /// The blocks that show subagents, by position: their own facts do not suffice to show them.
    shown: Vec<(usize, Arc<Block>)>,
}

/// Appends the text of a subagent, or returns false if it is too large.
pub(in super::super) fn write_subagent(texts: &mut Vec<u8>, subagent: &Subagent) -> bool {
    let conversation = &subagent.conversation;
    if is_large(conversation) {
        return false;
    }
    let of_call = |(position, entry): (usize, &super::super::Entry)| {
        entry.call().map(|_| (position, entry.shown().into_owned()))
    };
    let text = SubagentText {
        facts: subagent_facts(subagent, block_facts(conversation)),
        interrupted: conversation.is_interrupted,
        cut_off: subagent.runs.iter().map(|run| run.is_cut_off).collect(),
        open: conversation.open.iter().filter_map(|id| conversation.find(id)).collect(),
        shown: conversation.entries().enumerate().filter_map(of_call).collect(),
    };
    serde_json::to_writer(LengthLimit { texts, left: LARGEST_TEXT }, &text).is_ok()
}

/// Returns whether the text is too large, as far as that is known without writing it.
fn is_large(conversation: &Conversation) -> bool {
    let least = |residence: &Residence| match residence {
        Residence::InMemory(_) => FEWEST_BYTES,
        Residence::Spilled(spilled) => (spilled.end() - spilled.place()) as usize,
    };
    conversation.len() > LARGEST_TEXT / FEWEST_BYTES
        || conversation.entries().map(|it| least(&it.residence)).sum::<usize>() > LARGEST_TEXT
}

/// How many bytes the facts of a block have at least, roughly.
const FEWEST_BYTES: usize = 64;

/// Reads the text of a subagent; nothing if it is corrupt.
pub(in super::super) fn read_subagent(text: &[u8]) -> Option<Subagent> {
    let SubagentText { facts, interrupted, cut_off, open, shown } =
        serde_json::from_slice(text).ok()?;
    let mut subagent = facts.to_subagent();
    for (run, is_cut_off) in subagent.runs.iter_mut().zip(cut_off) {
        run.is_cut_off = is_cut_off;
    }
    let mut shown = shown.into_iter().peekable();
    let conversation = &mut subagent.conversation;
    conversation.is_interrupted = interrupted;
    for (position, BlockFacts { id, facts }) in facts.conversation.blocks.iter().enumerate() {
        let name = &conversation.name;
        let block = match shown.next_if(|(at, _)| *at == position) {
            Some((_, mut block)) => {
                Arc::make_mut(&mut block).conversation_id = name.clone();
                block
            }
            None => facts.show(id, name, None, interrupted),
        };
        conversation.insert(position, id.clone(), facts.clone(), block);
    }
    // A block that closed before the interruption looks as if the interruption had closed it.
    let ids = open.into_iter().filter_map(|at| facts.conversation.blocks.get(at));
    conversation.open = ids.map(|block| block.id.clone()).collect();
    restore_rare(conversation, &facts.conversation);
    Some(subagent)
}

/// Writes up to a number of bytes.
struct LengthLimit<'a> {
    texts: &'a mut Vec<u8>,
    left: usize,
}

impl Write for LengthLimit<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len());
        self.left = left.ok_or(io::ErrorKind::FileTooLarge)?;
        self.texts.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
