//! All that is known of a loop: enough to go on with it.

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

/// All that is known of a loop: its turns, what they were run with, and the ledger of calls.
///
/// Cloning it takes constant time, and an older one stays as it was. It hears the events of one
/// conversation; those of others pass.
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
    /// Where each call stands: the turn's place and the call's. Of equal names the last.
    pub(crate) places: OrdMap<CallId, (usize, usize)>,
}

/// What is kept of a loop; the rest follows from it.
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
    /// The hash of all that stands before the last turn.
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
    /// Returns the state of a loop in `conversation` that has not begun.
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

    /// Moves the state by one event, in place.
    ///
    /// Total and deterministic: an event that does not fit leaves the state equal, and the
    /// outcome says why.
    pub fn apply(&mut self, event: &SessionEvent) -> Outcome {
        reduce::apply(self, event)
    }

    /// Returns the conversation whose turns these are.
    pub fn conversation_id(&self) -> &ConversationId {
        &self.facts.conversation_id
    }

    /// Returns its name: the session's, and the conversation's if that is not the main one.
    pub fn state_id(&self) -> Option<&StateId> {
        self.facts.state_id.as_ref()
    }

    /// Returns when the first turn began, by the clock of whoever ran the loop.
    pub fn created_at(&self) -> Option<&str> {
        self.facts.created_at.as_deref()
    }

    /// Returns the run of the loop that the last turn is part of.
    pub fn evaluation_id(&self) -> Option<&EvaluationId> {
        self.last().map(|turn| turn.evaluation_id())
    }

    /// Returns where the last turn's prompt is kept.
    pub fn prompt_namespace(&self) -> Option<&str> {
        self.last()?.sent.prompt_namespace.as_deref()
    }

    /// Returns the name of the last turn's prompt.
    pub fn prompt_key(&self) -> Option<&str> {
        self.last()?.sent.prompt_key.as_deref()
    }

    /// Returns the system prompt, exactly as it was sent last.
    pub fn system(&self) -> Option<&str> {
        self.facts.system.as_deref()
    }

    /// Returns the tools, exactly as they were sent last; nothing if there are none.
    pub fn tools(&self) -> Option<&Json> {
        self.facts.tools.as_ref().filter(|it| !it.is_empty_list())
    }

    /// Returns what else the request said, exactly as it was sent last.
    pub fn parameters(&self) -> Option<&Json> {
        self.facts.parameters.as_ref()
    }

    /// Returns the hashes of the system prompt, the tools and the model; none before the first
    /// turn.
    pub fn fingerprint(&self) -> Option<&Fingerprint> {
        self.facts.fingerprint.as_ref()
    }

    /// Checks that a loop which is run with `today` can go on with this conversation.
    pub fn check(&self, today: &Fingerprint) -> Result<(), ConversationStateMismatch> {
        self.fingerprint().map_or(Ok(()), |kept| kept.compare(today))
    }

    /// Returns the turns in their order.
    pub fn turns(&self) -> impl ExactSizeIterator<Item = &Arc<ConversationTurn>> {
        self.facts.turns.iter()
    }

    /// Returns the last turn.
    pub fn last(&self) -> Option<&Arc<ConversationTurn>> {
        self.facts.turns.last()
    }

    /// Returns what is known of a call; of equal names the last.
    pub fn call(&self, call: &CallId) -> Option<&Arc<ToolCallRecord>> {
        let &(turn, place) = self.places.get(call)?;
        self.facts.turns.get(turn)?.calls.get(place)
    }

    /// Returns the last place to resume from.
    pub fn checkpoint(&self) -> Option<&CheckpointSaved> {
        self.facts.checkpoint.as_ref()
    }

    /// Returns all that was said, in the order that a model is told it, without the system
    /// prompt. A call that has no result yet has none here.
    pub fn history(&self) -> Vec<ConversationMessage> {
        let is_kept = |call: &CallId| self.call(call).is_some_and(|it| it.result().is_some());
        let said = self.turns().enumerate().filter(|(place, _)| !self.is_withdrawn(*place));
        said.flat_map(|(_, turn)| turn.messages(is_kept)).collect()
    }

    /// Says whether what a turn said was taken back, for it found no answer.
    fn is_withdrawn(&self, place: usize) -> bool {
        let turns = &self.facts.turns;
        turns.get(place + 1).is_some_and(|next| next.sent.withdraws)
            && turns.get(place).is_some_and(|turn| turn.answer.is_none())
    }

    /// Returns the state as it was before what was said last and found no answer: what a turn
    /// that [withdraws](crate::TurnStarted) it goes on from.
    pub fn before_unanswered(&self) -> Self {
        let mut before = self.clone();
        while let Some(last) = before.last().filter(|turn| turn.answer.is_none()).cloned() {
            before.facts.turns.pop_back();
            if !last.sent.withdraws {
                break;
            }
        }
        before
    }

    /// Returns the list that the last turn's request carries, each item exactly as it was sent.
    pub fn sent_items(&self) -> Vec<&Json> {
        let since = self.facts.turns.iter().rposition(|turn| turn.sent.restart).unwrap_or_default();
        let turns = self.facts.turns.iter().enumerate().skip(since);
        let sent = turns.filter(|(place, _)| !self.is_withdrawn(*place));
        sent.flat_map(|(_, turn)| &turn.sent.items).collect()
    }

    /// Returns the hash of all that was sent and answered: the next turn's `prefixHash`.
    pub fn prefix_hash(&self) -> ContentHash {
        match self.last() {
            Some(turn) => with_turn(&self.facts.prefix, turn),
            None => self.facts.prefix.clone(),
        }
    }
}

/// Moves a state by many events, for those who do not look at what each of them did.
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
