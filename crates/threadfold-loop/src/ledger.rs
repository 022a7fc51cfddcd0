//! The ledger of a loop: what was sent, what was answered, and the state of each call.
//!
//! Everything passed to a recorder is durable when the method returns. A loop that records each
//! step before it performs it can be killed at any point: [`Recorder::resume_plan`] returns how to
//! continue.

mod open;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{
    CallId, CallKey, CallState, CheckpointSaved, ConversationMessage, ConversationTurn, Effect,
    Json, MessageId, Outcome, Payload, ResultSource, ResumePlan, Role, SessionEvent, SessionId,
    SourceKind, ToolCallRecord, ToolFailed, ToolFinished, ToolStarted, ToolUnknown, TurnCompleted,
    TurnState, resume_plan,
};
use threadfold_engine::{Session, SessionHandle};
use threadfold_fold::{Cursor, LogId, RecordKind};
use threadfold_store::Epoch;

use crate::error::LoopError;
use crate::mark::{MarkKey, loop_record};
use crate::tool::ToolOutput;

pub use open::Trust;
pub use turn::NewTurn;

/// Writes the ledger of one session's loop, for our loop or your own.
///
/// A session has one recorder at a time: opening it a second time fails, and a recorder that lost
/// its lease can no longer write.
///
/// ```
/// use std::sync::Arc;
/// use threadfold_loop::{Effect, NewTurn, Recorder, ToolOutput};
/// use threadfold_core::{CallAction, ConversationMessage, Role, ToolCall};
/// use threadfold_engine::{Options, holder};
/// use threadfold_store::{MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
/// let options = || Options::new(holder("my loop"));
/// let mut recorder = Recorder::open(store.clone(), &"s1".into(), options()).await?;
///
/// let prompt = ConversationMessage::text(Role::User, "Pay the bill");
/// recorder.begin(NewTurn::new("my-provider", "my-model", vec![prompt])).await?;
/// let mut answer = ConversationMessage::new(Role::Assistant);
/// answer.tool_calls.push(ToolCall::new("c1", "pay", r#"{"amount":5}"#));
/// recorder.answer(answer.into()).await?;
/// recorder.start(&"c1".into(), Effect::Unsafe).await?;
/// drop(recorder); // The process is killed while the tool runs.
///
/// # store.release(&"s1".into(), threadfold_store::Epoch(1)).await?;
/// let mut recorder = Recorder::open(store, &"s1".into(), options()).await?;
/// let plan = recorder.resume_plan(|_| Effect::Unsafe);
/// assert!(matches!(plan.calls[0].action, CallAction::Decide(_)), "it may have been paid");
/// recorder.finish(&"c1".into(), ToolOutput::text("paid")).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder {
    session: Session,
    /// The message ids of the answers so far.
    answers: BTreeSet<MessageId>,
    /// The ids of the native items in those answers.
    items: BTreeSet<String>,
    /// The key that marks what it writes.
    marks: Option<MarkKey>,
}

/// An attempt that may start: it is recorded in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The idempotency key for the tool.
    pub key: CallKey,
    /// The attempt number, from 1.
    pub number: u64,
    /// The epoch of the lease that it runs under.
    pub epoch: Epoch,
}

/// Where a call's result comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultOrigin {
    /// The source of the result.
    pub source: ResultSource,
    /// How long the call took.
    pub duration: Option<Duration>,
}

/// A result of which the duration is unknown.
impl From<ResultSource> for ResultOrigin {
    fn from(source: ResultSource) -> Self {
        Self { source, duration: None }
    }
}

impl Recorder {
    /// Returns the state of the loop.
    pub fn state(&self) -> &TurnState {
        self.session.fold().turns()
    }

    /// Returns how to continue. `effect_of` returns the effect of running a tool twice.
    pub fn resume_plan(&self, effect_of: impl Fn(&str) -> Effect) -> ResumePlan {
        resume_plan(self.state(), effect_of)
    }

    /// Records that a tool is about to run. The tool may run when this returns.
    pub async fn start(&mut self, call: &CallId, effect: Effect) -> Result<Attempt, LoopError> {
        self.append_start(call, effect, None).await
    }

    /// Records that the effects of the last attempt are about to be undone.
    pub async fn start_undo(
        &mut self,
        call: &CallId,
        effect: Effect,
    ) -> Result<Attempt, LoopError> {
        let undoes = self.call_record(call)?.attempt;
        self.append_start(call, effect, Some(undoes)).await
    }

    async fn append_start(
        &mut self,
        call: &CallId,
        effect: Effect,
        undoes: Option<u64>,
    ) -> Result<Attempt, LoopError> {
        let record = self.call_record(call)?;
        let attempt = record.attempt + 1;
        let key = self.key_of(record)?;
        let (call_id, call_key) = (call.clone(), key.clone());
        self.append(vec![Payload::ToolStarted(ToolStarted {
            call_id,
            key: call_key,
            attempt,
            effect,
            undoes,
        })])
        .await?;
        // The lease is checked after the write: a process that lost it must not run the tool.
        let epoch = self.session.hold().await?;
        Ok(Attempt { key, number: attempt, epoch })
    }

    /// Returns the last attempt of a started call, after checking that the lease still holds.
    pub async fn last_attempt(&mut self, call: &CallId) -> Result<Attempt, LoopError> {
        let record = self.call_record(call)?;
        let (key, number) = (self.key_of(record)?, record.attempt);
        Ok(Attempt { key, number, epoch: self.session.hold().await? })
    }

    /// Records the result of a call. The model may see it when this returns.
    pub async fn finish(&mut self, call: &CallId, output: ToolOutput) -> Result<(), LoopError> {
        self.finish_from(call, output, ResultSource::Tool.into()).await
    }

    /// Records the result of a call, and where it comes from.
    pub async fn finish_from(
        &mut self,
        call: &CallId,
        output: ToolOutput,
        origin: ResultOrigin,
    ) -> Result<(), LoopError> {
        let finished = self.finish_event(call, output, origin)?;
        self.append(vec![finished]).await
    }

    /// Records that the last attempt failed, with the failure as the call's result.
    pub async fn fail(
        &mut self,
        call: &CallId,
        error: &str,
        origin: ResultOrigin,
    ) -> Result<(), LoopError> {
        let attempt = self.call_record(call)?.attempt;
        let failed = ToolFailed { call_id: call.clone(), attempt, error: Json::string(error) };
        let output = ToolOutput::error(error);
        let finished = self.finish_event(call, output, origin)?;
        self.append(vec![Payload::ToolFailed(failed), finished]).await
    }

    /// Records that the outcome of the last attempt is unknown, without a result for the model.
    pub async fn mark_unknown(&mut self, call: &CallId, reason: &str) -> Result<(), LoopError> {
        let unknown = self.unknown_event(call, reason)?;
        self.append(vec![unknown]).await
    }

    /// Records that the outcome of the last attempt is unknown, with that as the call's result.
    pub async fn finish_unknown(
        &mut self,
        call: &CallId,
        reason: &str,
        origin: ResultOrigin,
    ) -> Result<(), LoopError> {
        let unknown = self.unknown_event(call, reason)?;
        let output = ToolOutput::error(reason);
        let finished = self.finish_event(call, output, origin)?;
        self.append(vec![unknown, finished]).await
    }

    fn unknown_event(&self, call: &CallId, reason: &str) -> Result<Payload, LoopError> {
        let attempt = self.call_record(call)?.attempt;
        let (call_id, reason) = (call.clone(), reason.into());
        Ok(Payload::ToolUnknown(ToolUnknown { call_id, attempt, reason }))
    }

    fn finish_event(
        &self,
        call: &CallId,
        output: ToolOutput,
        origin: ResultOrigin,
    ) -> Result<Payload, LoopError> {
        let record = self.call_record(call)?;
        let mut result = ConversationMessage {
            content: output.content,
            tool_call_id: Some(call.clone()),
            name: Some(record.name.clone()),
            is_error: output.is_error,
            ..ConversationMessage::new(Role::Tool)
        };
        turn::identify(&mut result, || format!("result:{call}"));
        let millis = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        Ok(Payload::ToolFinished(ToolFinished {
            call_id: call.clone(),
            attempt: record.attempt,
            result,
            is_error: output.is_error,
            duration_ms: origin.duration.map(millis),
            source: origin.source,
        }))
    }

    /// Completes the turn: every call has its result.
    pub async fn complete(&mut self) -> Result<(), LoopError> {
        let turn = self.state().last().map(|turn| turn.number()).unwrap_or_default();
        self.append(vec![Payload::TurnCompleted(TurnCompleted { turn })]).await
    }

    /// Records a checkpoint with this id after everything recorded so far.
    pub async fn checkpoint(&mut self, name: &str) -> Result<(), LoopError> {
        let seq = Some(self.session.fold().seq());
        self.append(vec![Payload::CheckpointSaved(CheckpointSaved {
            checkpoint_id: name.into(),
            seq,
        })])
        .await
    }

    /// Records other events, in order and atomically.
    ///
    /// Events that do not fit the ledger are refused, and nothing is recorded.
    pub async fn append(&mut self, payloads: Vec<Payload>) -> Result<(), LoopError> {
        let events: Vec<_> = payloads.into_iter().map(|payload| self.event_of(payload)).collect();
        // Applied to a copy first: an event that does not fit must not reach the log.
        let mut state = self.state().clone();
        for event in &events {
            if let Outcome::Ignored(anomaly) = state.apply(event) {
                return Err(LoopError::OutOfOrder(anomaly.to_string()));
            }
        }
        drop(state);
        // An answer may be large: each event is dropped once it is a record.
        let mut records = Vec::with_capacity(events.len());
        for event in events {
            let json = json_of(&event);
            drop(event);
            records.push(loop_record(self.marks.as_ref(), self.place(), RecordKind::Loop, json));
        }
        self.session.append_ledger(records).await?;
        Ok(())
    }

    /// Returns the event of a payload, as of now.
    fn event_of(&self, payload: Payload) -> SessionEvent {
        let mut event = SessionEvent::new(payload).from_source(SourceKind::Loop);
        event.context.timestamp = Some(jiff::Timestamp::now().to_string().into());
        if let Payload::TurnStarted(_) = &event.payload {
            event.context.session_id = Some(self.session.id().clone());
        }
        event
    }

    /// Returns what a mark is bound to.
    fn place(&self) -> (&SessionId, &LogId) {
        (self.session.id(), self.session.log())
    }

    fn call_record(&self, call: &CallId) -> Result<&ToolCallRecord, LoopError> {
        let known = self.state().call(call);
        known
            .map(|record| &**record)
            .ok_or_else(|| LoopError::OutOfOrder(format!("call `{call}` does not exist")))
    }

    /// Returns a handle for readers of the session.
    pub fn handle(&self) -> SessionHandle {
        self.session.handle()
    }

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the position of the latest record.
    pub fn cursor(&self) -> Cursor {
        self.session.cursor()
    }

    /// Releases the session. Returns problems that did not affect the recorded data.
    pub async fn close(mut self) -> Result<Vec<String>, LoopError> {
        self.leave().await
    }

    pub(crate) async fn leave(&mut self) -> Result<Vec<String>, LoopError> {
        Ok(self.session.leave().await?)
    }

    /// Keeps the lease until it expires if a started tool has not ended, because an aborted tool
    /// may continue for a moment.
    pub(crate) fn keep_lease_if_running(&mut self) {
        let is_begun = |turn: &Arc<ConversationTurn>| {
            turn.calls().any(|call| call.state == CallState::Started)
        };
        if self.state().last().is_some_and(is_begun) {
            self.session.let_lease_expire();
        }
    }

    /// Returns a complete snapshot of the session.
    pub fn snapshot(&self) -> threadfold_fold::Snapshot {
        self.session.snapshot(BTreeMap::new())
    }
}

/// Returns an event as JSON. Its length is counted first: a buffer that grows has two copies of a
/// large answer while it is moved.
fn json_of(event: &SessionEvent) -> String {
    struct Length(usize);

    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut length = Length(0);
    let counted = serde_json::to_writer(&mut length, event);
    let mut json = Vec::with_capacity(length.0 + MARK_LENGTH);
    counted.and_then(|()| serde_json::to_writer(&mut json, event)).expect("plain data is JSON");
    String::from_utf8(json).expect("JSON is text")
}

/// The length of a mark with its line end.
const MARK_LENGTH: usize = 65;
