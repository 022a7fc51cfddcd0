//! Content hashes of what was sent, and the idempotency keys of calls.
//!
//! Each piece is hashed with its length as a prefix, so that different lists of pieces never
//! produce the same input.

use crate::id::{CallKey, ContentHash};
use crate::json::Json;
use crate::turn::record::ConversationTurn;
use crate::work;

/// Returns the idempotency key that a tool receives with a call.
///
/// The key depends only on the call's place in the log: a resume computes the same key, and two
/// equal calls get different ones. `seq_of_answer` is the record of the answer that contains the
/// call, `ordinal` the call's index within that answer, from 0.
///
/// ```
/// use threadfold_core::call_key;
///
/// assert_eq!(call_key("log", 7, 0), call_key("log", 7, 0));
/// assert_ne!(call_key("log", 7, 0), call_key("log", 7, 1));
/// ```
pub fn call_key(log_id: &str, seq_of_answer: u64, ordinal: u64) -> CallKey {
    let mut pieces = Pieces::new("threadfold call 1\n");
    pieces.add(log_id.as_bytes());
    pieces.add(&seq_of_answer.to_le_bytes());
    pieces.add(&ordinal.to_le_bytes());
    pieces.finish().as_str().into()
}

/// Returns the hash of an empty conversation.
pub(crate) fn empty_prefix() -> ContentHash {
    Pieces::new("threadfold prefix 1\n").finish()
}

/// Returns the hash of the conversation that `prefix` stands for, extended by `turn`.
pub(crate) fn with_turn(prefix: &ContentHash, turn: &ConversationTurn) -> ContentHash {
    let mut pieces = Pieces::new("threadfold prefix 1\n");
    pieces.add(prefix.as_str().as_bytes());
    pieces.add(Json::of(&*turn.sent).as_str().as_bytes());
    if let Some(answer) = &turn.answer {
        pieces.add(Json::of(&answer.message).as_str().as_bytes());
        pieces.add(answer.payload.as_str().as_bytes());
    }
    for message in turn.tool_messages() {
        pieces.add(Json::of(&message).as_str().as_bytes());
    }
    pieces.finish()
}

/// Returns the hash of a text, or of its absence.
pub(crate) fn of_text(text: Option<&str>) -> ContentHash {
    let mut pieces = Pieces::new("threadfold content 1\n");
    if let Some(text) = text {
        pieces.add(text.as_bytes());
    }
    pieces.finish()
}

struct Pieces(blake3::Hasher);

impl Pieces {
    fn new(purpose: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(purpose.as_bytes());
        Self(hasher)
    }

    fn add(&mut self, piece: &[u8]) {
        work::read(piece.len());
        self.0.update(&(piece.len() as u64).to_le_bytes());
        self.0.update(piece);
    }

    fn finish(&self) -> ContentHash {
        self.0.finalize().to_hex().as_str().into()
    }
}
