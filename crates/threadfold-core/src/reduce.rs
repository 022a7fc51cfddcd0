//! Dispatch: one event moves the state by one step.

use crate::change::Change;
use crate::event::{Payload, SessionEvent};
use crate::outcome::{Anomaly, Outcome};
use crate::state::ConversationState;

mod block;
mod context;
mod delta;
mod permission;
mod placement;
mod session;
mod step;
mod subagent;
mod turn;
mod unite;

use step::Step;

/// Returns `state` moved by one event.
///
/// Total and deterministic: an event that does not fit leaves the state equal. The state that
/// went in can be kept by cloning it first, which is O(1). Where the outcome or the changes of a
/// step matter, use [`ConversationState::apply`] or [`ConversationState::apply_with`].
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

/// Folds events into one state, from the beginning.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a SessionEvent>) -> ConversationState {
    events.into_iter().fold(ConversationState::default(), reduce)
}

/// Moves a state by many events, for those who do not look at what each of them did.
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
    /// Moves the state by one event, in place.
    pub fn apply(&mut self, event: &SessionEvent) -> Outcome {
        dispatch(Step::new(self, event.context.rank(), None), event)
    }

    /// Moves the state by one event, in place, and appends to `changes` what moved.
    pub fn apply_with(&mut self, event: &SessionEvent, changes: &mut Vec<Change>) -> Outcome {
        dispatch(Step::new(self, event.context.rank(), Some(changes)), event)
    }
}

fn dispatch(mut step: Step<'_>, event: &SessionEvent) -> Outcome {
    let step = &mut step;
    let conversation = &event.context.conversation_id;
    match &event.payload {
        Payload::BlockDelta(said) => delta::append(step, conversation, said),
        Payload::BlockUpsert(said) => block::upsert(step, conversation, said),
        Payload::BlockRemove(said) => block::remove(step, conversation, said),
        Payload::ContextChanged(said) => context::changed(step, conversation, said),
        Payload::SubagentSpawned(said) => subagent::spawned(step, conversation, said),
        Payload::SubagentCompleted(said) => subagent::completed(step, conversation, said),
        Payload::SessionIdle(_) => session::idle(step, conversation),
        Payload::PermissionRequested(said) => permission::requested(step, conversation, said),
        Payload::PermissionResolved(said) => permission::resolved(step, conversation, said),
        Payload::TurnStarted(said) => turn::started(step, &event.context, said),
        Payload::TurnAnswered(said) => turn::answered(step, &event.context, said),
        Payload::ToolFinished(said) => turn::finished(step, &event.context, said),
        Payload::ToolFailed(said) => turn::failed(step, &event.context, said),
        Payload::ToolUnknown(said) => turn::unknown(step, &event.context, said),
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
        Payload::Unknown(said) => {
            Outcome::Ignored(Anomaly::UnknownEvent { kind: said.kind.clone() })
        }
    }
}
