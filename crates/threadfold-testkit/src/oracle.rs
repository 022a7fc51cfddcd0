//! An oracle for states: what the raw records of a session contain, read without the converters.
//!
//! Every text, thought, call, input, output, image and id of the records must be in the state,
//! unaltered, once, and in its own conversation; and the state must contain nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use threadfold_core::ConversationState;

use crate::sessions_on_disk::SessionOnDisk;

mod claude;
mod codex;
mod opencode;
mod shown;

use shown::ShownContent;

/// A piece of content, in the records or in a state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// The conversation: `main`, or a name of a subagent.
    pub conversation: String,
    /// What it is: `text`, `thinking`, `call`, `result`, `user`, `image` and so on.
    pub kind: &'static str,
    /// The id that the records give it, or its message's.
    pub name: String,
    /// The content.
    pub words: String,
}

/// How often a piece must be in the state: at least and at most.
type Bounds = (usize, usize);

/// What the records of a session contain.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedContent {
    pieces: BTreeMap<Piece, Bounds>,
    /// Texts of people and of the harness that are in the state as their records have them.
    matched: usize,
    /// The records that can be a person's words, by conversation and id.
    persons: BTreeSet<(String, String)>,
    /// Results of subagents that arrive apart from their call's result: any output is accepted.
    free: BTreeSet<(&'static str, String)>,
}

impl ExpectedContent {
    /// Adds a piece that must be in the state.
    pub(crate) fn add(&mut self, piece: Piece) {
        let (_, most) = self.pieces.entry(piece).or_insert((1, 0));
        *most += 1;
    }

    /// Adds a piece that may be in the state: a record replaced it, or it may be repeated history.
    pub(crate) fn allow(&mut self, piece: Piece) {
        self.pieces.entry(piece).or_insert((0, 0)).1 += 1;
    }
}

/// A difference between the records of a session and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The records contain it, and the state does not.
    Missing(Piece),
    /// The state contains it more often than the records.
    Surplus(Piece),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, piece) = match self {
            Self::Missing(piece) => ("missing", piece),
            Self::Surplus(piece) => ("surplus", piece),
        };
        let Piece { conversation, kind, name, words } = piece;
        let short: String = words.chars().take(60).collect();
        write!(f, "{what} {kind} `{name}` in `{conversation}`: {short:?} ({} bytes)", words.len())
    }
}

/// Returns the differences between the raw records of a session and its state, and how many pieces
/// were compared.
pub fn compare(session: &SessionOnDisk, state: &ConversationState) -> (usize, Vec<Difference>) {
    if session.agent == threadfold_convert::codex::AGENT {
        return codex::compare(session, state);
    }
    let shown = ShownContent::of(state);
    let expected = match &session.root {
        Some(root) => opencode::expected(session, root, &shown),
        None => claude::expected(session, &shown),
    };
    (expected.pieces.len() + expected.matched, differences(&expected, &shown))
}

fn differences(expected: &ExpectedContent, shown: &ShownContent) -> Vec<Difference> {
    let mut found = Vec::new();
    for (piece, (least, _)) in &expected.pieces {
        if shown.pieces.get(piece).copied().unwrap_or(0) < *least {
            found.push(Difference::Missing(piece.clone()));
        }
    }
    for (piece, count) in &shown.pieces {
        let most = expected.pieces.get(piece).map_or(0, |(_, most)| *most);
        let is_free = expected.free.contains(&(piece.kind, piece.name.clone()));
        if *count > most && !is_free {
            found.push(Difference::Surplus(piece.clone()));
        }
    }
    for (conversation, block) in &shown.persons {
        let key = (conversation.clone(), block.clone());
        if !expected.persons.contains(&key) && !block.starts_with("line:") {
            let words = shown.texts.get(&key).cloned().unwrap_or_default();
            let (conversation, name) = key;
            found.push(Difference::Surplus(Piece { conversation, kind: "user", name, words }));
        }
    }
    found
}

/// Returns one spelling of a JSON value.
fn spelling(value: &Value) -> String {
    if value.is_null() { String::new() } else { value.to_string() }
}
