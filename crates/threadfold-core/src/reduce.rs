//! Dispatch: applies one event to the state.

use crate::change::Change;
use crate::event::{Payload, SessionEvent};
use crate::outcome::{Anomaly, Outcome};
use crate::state::ConversationState;

mod block;
mod context;
mod delta;
mod interruption;
mod merge_subagents;
mod permission;
mod placement;
mod session;
mod step;
mod subagent;
mod turn;

use step::Step;

/// Returns `state` with one event applied.
///
/// Total and deterministic: an event that does not apply leaves the state unchanged. To keep the old
/// state, clone it first, which is O(1). To get the outcome or the changes of a step, use
/// [`ConversationState::apply`] or [`ConversationState::apply_with`].
///
/// ```
/// use threadfold_core::{ConversationState, SessionEvent, reduce};
///
/// let hello = SessionEvent::from_json(
///     r#"{"type":"block:upsert","payload":{"block":
///        {"id":"b1","type":"assistant_text","status":"pending","content":"Hel"}}}"#,
/// )?;
/// let more = SessionEvent::from_json(
///     r#"{"type":"block:delta","payload":{"blockId":"b1","delta":"lo"}}"#,
/// )?;
/// let before = reduce(ConversationState::default(), &hello);
/// let after = reduce(before.clone(), &more);
/// assert_ne!(before, after);
/// # Ok::<(), threadfold_core::DecodeError>(())
/// ```
#[must_use]
pub fn reduce(mut state: ConversationState, event: &SessionEvent) -> ConversationState {
    match state.apply(event) {
        Outcome::Applied | Outcome::Noted(_) | Outcome::Unchanged | Outcome::Ignored(_) => state,
    }
}

/// Folds events into one state, starting from the empty state.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a SessionEvent>) -> ConversationState {
    events.into_iter().fold(ConversationState::default(), reduce)
}

/// Applies many events and discards their outcomes.
impl<'a> Extend<&'a SessionEvent> for ConversationState {
    fn extend<I: IntoIterator<Item = &'a SessionEvent>>(&mut self, events: I) {
        for event in events {
            match self.apply(event) {
                Outcome::Applied | Outcome::Noted(_) | Outcome::Unchanged | Outcome::Ignored(_) => {
                }
            }
        }
    }
}

impl ConversationState {
    /// Applies one event in place.
    pub fn apply(&mut self, event: &SessionEvent) -> Outcome {
        dispatch(Step::new(self, event.context.rank()), event)
    }

    /// Applies one event in place, and appends the changes to `changes`.
    pub fn apply_with(&mut self, event: &SessionEvent, changes: &mut Vec<Change>) -> Outcome {
        dispatch(Step::recording(self, event.context.rank(), changes), event)
    }
}

fn dispatch(mut step: Step<'_>, event: &SessionEvent) -> Outcome {
    let step = &mut step;
    let conversation = &event.context.conversation_id;
    match &event.payload {
        Payload::BlockDelta(payload) => delta::append(step, conversation, payload),
        Payload::BlockUpsert(payload) => block::upsert(step, conversation, payload),
        Payload::BlockRemove(payload) => block::remove(step, conversation, payload),
        Payload::ContextChanged(payload) => context::changed(step, conversation, payload),
        Payload::SubagentSpawned(payload) => subagent::spawned(step, &event.context, payload),
        Payload::SubagentCompleted(payload) => subagent::completed(step, &event.context, payload),
        Payload::SubagentMarked(payload) => subagent::marked(step, conversation, payload),
        Payload::SessionIdle(_) => session::idle(step, conversation),
        Payload::PermissionRequested(payload) => permission::requested(step, conversation, payload),
        Payload::PermissionResolved(payload) => permission::resolved(step, conversation, payload),
        Payload::TurnStarted(payload) => turn::started(step, &event.context, payload),
        Payload::TurnAnswered(payload) => turn::answered(step, &event.context, payload),
        Payload::ToolFinished(payload) => turn::finished(step, &event.context, payload),
        Payload::ToolFailed(payload) => turn::failed(step, &event.context, payload),
        Payload::ToolUnknown(payload) => turn::unknown(step, &event.context, payload),
        Payload::MetadataUpdate(_)
        | Payload::QueryStarted(_)
        | Payload::QueryCompleted(_)
        | Payload::QueryFailed(_)
        | Payload::EeCreating(_)
        | Payload::EeReady(_)
        | Payload::EeTerminated(_)
        | Payload::EeError(_)
        | Payload::EeHealthCheck(_)
        | Payload::FileCreated(_)
        | Payload::FileModified(_)
        | Payload::FileDeleted(_)
        | Payload::TranscriptChanged(_)
        | Payload::TranscriptWritten(_)
        | Payload::Log(_)
        | Payload::Error(_)
        | Payload::OptionsUpdate(_)
        | Payload::SessionInitialized(_)
        | Payload::SessionEnded(_)
        | Payload::TurnCompleted(_)
        | Payload::ToolRequested(_)
        | Payload::ToolStarted(_)
        | Payload::CheckpointSaved(_) => Outcome::Unchanged,
        Payload::Unknown(payload) => {
            Outcome::Ignored(Anomaly::UnknownEvent { kind: payload.kind.clone() })
        }
    }
}
