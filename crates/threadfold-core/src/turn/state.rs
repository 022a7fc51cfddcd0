//! The state of a loop, complete enough to resume it.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};

use crate::event::{CheckpointSaved, SessionEvent};
use crate::id::{CallId, ContentHash, ConversationId, EvaluationId, StateId};
use crate::json::Json;
use crate::outcome::Outcome;
use crate::turn::content_hash::{empty_prefix, with_turn};
use crate::turn::message::ConversationMessage;
use crate::turn::mismatch::{ConversationStateMismatch, Fingerprint};
use crate::turn::record::{ConversationTurn, ToolCallRecord};
use crate::turn::reduce;
use crate::work::visit;

/// The state of a loop: its turns, their setup, and the ledger of calls.
///
/// Cloning takes constant time, and older clones stay unchanged. Only events of one conversation
/// apply; all others leave the state unchanged.
///
/// ```
/// use threadfold_core::{SessionEvent, TurnState};
///
/// let mut turns = TurnState::default();
/// let started = format!(
///     r#"{{"type":"turn:started","payload":{{"turn":1,"evaluationId":"e1","provider":"anthropic",
///         "model":"m","messages":[{{"role":"user","content":[{{"type":"text","text":"Hello"}}]}}],
///         "prefixHash":"{}"}}}}"#,
///     turns.prefix_hash()
/// );
/// turns.extend([&SessionEvent::from_json(&started)?]);
/// assert_eq!(turns.history()[0].to_text(), "Hello");
/// # Ok::<(), threadfold_core::DecodeError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TurnState {
    pub(crate) facts: Facts,
    /// The position of each call: the index of its turn, and its index within the turn. If an id
    /// occurs twice, the last occurrence wins.
    pub(crate) places: OrdMap<CallId, (usize, usize)>,
}

/// The serialized part of the state. Everything else is derived from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts {
    pub(crate) conversation_id: ConversationId,
    pub(crate) state_id: Option<StateId>,
    pub(crate) created_at: Option<Arc<str>>,
    pub(crate) system: Option<Arc<str>>,
    pub(crate) tools: Option<Json>,
    pub(crate) parameters: Option<Json>,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The hash of everything before the last turn.
    pub(crate) prefix: ContentHash,
    pub(crate) checkpoint: Option<CheckpointSaved>,
    pub(crate) turns: Vector<Arc<ConversationTurn>>,
}

impl Default for TurnState {
    fn default() -> Self {
        Self::of(ConversationId::main())
    }
}

impl TurnState {
    /// Returns the initial state of a loop in `conversation`.
    pub fn of(conversation: ConversationId) -> Self {
        let facts = Facts {
            conversation_id: conversation,
            state_id: None,
            created_at: None,
            system: None,
            tools: None,
            parameters: None,
            fingerprint: None,
            prefix: empty_prefix(),
            checkpoint: None,
            turns: Vector::new(),
        };
        Self { facts, places: OrdMap::new() }
    }

    /// Applies one event in place.
    ///
    /// Total and deterministic: an event that does not fit leaves the state equal, and the outcome
    /// contains the reason.
    pub fn apply(&mut self, event: &SessionEvent) -> Outcome {
        reduce::apply(self, event)
    }

    /// Returns true if an event is one of a loop's, which can change its state.
    pub fn concerns(event: &SessionEvent) -> bool {
        reduce::concerns(event)
    }

    /// Returns the conversation of the loop.
    pub fn conversation_id(&self) -> &ConversationId {
        &self.facts.conversation_id
    }

    /// Returns the state's id: the session id, followed by the conversation id unless that is
    /// `main`.
    pub fn state_id(&self) -> Option<&StateId> {
        self.facts.state_id.as_ref()
    }

    /// Returns when the first turn started, by the clock of the process that ran the loop.
    pub fn created_at(&self) -> Option<&str> {
        self.facts.created_at.as_deref()
    }

    /// Returns the evaluation that the last turn belongs to.
    pub fn evaluation_id(&self) -> Option<&EvaluationId> {
        self.last().map(|turn| turn.evaluation_id())
    }

    /// Returns the namespace of the last turn's prompt.
    pub fn prompt_namespace(&self) -> Option<&str> {
        self.last()?.sent.prompt_namespace.as_deref()
    }

    /// Returns the key of the last turn's prompt.
    pub fn prompt_key(&self) -> Option<&str> {
        self.last()?.sent.prompt_key.as_deref()
    }

    /// Returns the system prompt, exactly as last sent.
    pub fn system(&self) -> Option<&str> {
        self.facts.system.as_deref()
    }

    /// Returns the tools, exactly as last sent; `None` if there are none.
    pub fn tools(&self) -> Option<&Json> {
        self.facts.tools.as_ref().filter(|it| !it.is_empty_list())
    }

    /// Returns the other request parameters, exactly as last sent.
    pub fn parameters(&self) -> Option<&Json> {
        self.facts.parameters.as_ref()
    }

    /// Returns the hashes of the system prompt, tools and model; `None` before the first turn.
    pub fn fingerprint(&self) -> Option<&Fingerprint> {
        self.facts.fingerprint.as_ref()
    }

    /// Checks that a loop with this fingerprint can resume the conversation.
    pub fn check(&self, today: &Fingerprint) -> Result<(), ConversationStateMismatch> {
        self.fingerprint().map_or(Ok(()), |kept| kept.compare(today))
    }

    /// Returns the turns in order.
    pub fn turns(&self) -> impl ExactSizeIterator<Item = &Arc<ConversationTurn>> {
        self.facts.turns.iter().inspect(|_| visit())
    }

    /// Returns a turn by its number, from 1.
    pub fn turn(&self, number: u64) -> Option<&Arc<ConversationTurn>> {
        self.facts.turns.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// Returns the last turn.
    pub fn last(&self) -> Option<&Arc<ConversationTurn>> {
        self.facts.turns.last()
    }

    /// Returns the ledger entry of a call. If an id occurs twice, the last occurrence wins.
    pub fn call(&self, call: &CallId) -> Option<&Arc<ToolCallRecord>> {
        let &(turn, place) = self.places.get(call)?;
        self.facts.turns.get(turn)?.calls.get(place)
    }

    /// Returns the latest checkpoint.
    pub fn checkpoint(&self) -> Option<&CheckpointSaved> {
        self.facts.checkpoint.as_ref()
    }

    /// Returns the messages in the order in which the model sees them, without the system prompt. A
    /// call without a result has no tool message here.
    pub fn history(&self) -> Vec<ConversationMessage> {
        self.seen_turns().flat_map(|turn| turn.messages(|call| self.has_result(call))).collect()
    }

    /// Returns how many messages [`history`](Self::history) has.
    pub fn history_length(&self) -> usize {
        self.seen_turns().map(|turn| turn.message_count(|call| self.has_result(call))).sum()
    }

    fn seen_turns(&self) -> impl Iterator<Item = &Arc<ConversationTurn>> {
        let turns = self.turns().enumerate();
        turns.filter(|(place, _)| !self.is_withdrawn(*place)).map(|(_, turn)| turn)
    }

    fn has_result(&self, call: &CallId) -> bool {
        self.call(call).is_some_and(|it| it.result().is_some())
    }

    /// Returns true if the next turn withdrew this one, which got no answer.
    fn is_withdrawn(&self, place: usize) -> bool {
        let turns = &self.facts.turns;
        turns.get(place + 1).is_some_and(|next| next.sent.withdraws)
            && turns.get(place).is_some_and(|turn| turn.answer.is_none())
    }

    /// Returns the state before the last unanswered prompt. A turn that
    /// [withdraws](crate::TurnStarted) the prompt continues from it.
    pub fn without_withdrawn(&self) -> Self {
        let mut before = self.clone();
        // The unanswered turn may itself have withdrawn an earlier one, which must go as well.
        while let Some(last) = before.last().filter(|turn| turn.answer.is_none()).cloned() {
            before.facts.turns.pop_back();
            if !last.sent.withdraws {
                break;
            }
        }
        before
    }

    /// Returns the list in the last turn's request, each item exactly as it was sent.
    pub fn sent_items(&self) -> Vec<&Json> {
        let since = self.facts.turns.iter().rposition(|turn| turn.sent.restart).unwrap_or_default();
        let turns = self.turns().enumerate().skip(since);
        let sent = turns.filter(|(place, _)| !self.is_withdrawn(*place));
        sent.flat_map(|(_, turn)| &turn.sent.items).collect()
    }

    /// Returns the hash of everything sent and answered, which is the next turn's `prefixHash`.
    pub fn prefix_hash(&self) -> ContentHash {
        match self.last() {
            Some(turn) => with_turn(&self.facts.prefix, turn),
            None => self.facts.prefix.clone(),
        }
    }
}

/// Applies many events and discards their outcomes.
impl<'a> Extend<&'a SessionEvent> for TurnState {
    fn extend<I: IntoIterator<Item = &'a SessionEvent>>(&mut self, events: I) {
        for event in events {
            match self.apply(event) {
                Outcome::Applied | Outcome::Noted(_) | Outcome::Unchanged | Outcome::Ignored(_) => {
                }
            }
        }
    }
}
