//! The ledger of a loop: what was sent, what was answered, and what became of each call.
//!
//! Everything that is told to a recorder is durable when it returns. A loop that tells it before
//! it acts can be killed anywhere: [`Recorder::resume_plan`] says how it goes on.

mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{
    CallId, CallKey, CallState, CheckpointSaved, ConversationMessage, ConversationTurn, Effect,
    Json, MessageId, Outcome, Payload, ResultSource, ResumePlan, Role, SessionEvent, SessionId,
    SourceKind, ToolCallRecord, ToolFailed, ToolFinished, ToolStarted, ToolUnknown, TurnCompleted,
    TurnState, resume_plan,
};
use threadfold_engine::{Options, Session, SessionHandle};
use threadfold_store::{Cursor, Epoch, Store};

use crate::error::LoopError;
use crate::tool::ToolOutput;

pub use turn::NewTurn;

/// Keeps the ledger of one session's loop, for our loop or for anybody's.
///
/// There is one recorder of a session at a time: whoever else opens it is refused, and one that
/// was passed over cannot write any more.
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
/// recorder.started(&"c1".into(), Effect::Unsafe).await?;
/// drop(recorder); // The process is killed while the tool runs.
///
/// # store.release(&"s1".into(), threadfold_store::Epoch(1)).await?;
/// let mut recorder = Recorder::open(store, &"s1".into(), options()).await?;
/// let plan = recorder.resume_plan(|_| Effect::Unsafe);
/// assert!(matches!(plan.calls[0].action, CallAction::Decide(_)), "it may have been paid");
/// recorder.finished(&"c1".into(), ToolOutput::text("paid")).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder {
    session: Session,
    /// The names of the answers so far.
    answers: BTreeSet<MessageId>,
    /// The ids of the items that they were said in.
    items: BTreeSet<String>,
}

/// An attempt that may begin: it is in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The call's name towards the tool.
    pub key: CallKey,
    /// The attempt, from 1.
    pub number: u64,
    /// The lease under which it runs.
    pub epoch: Epoch,
}

/// How a call came to its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Who says so.
    pub source: ResultSource,
    /// How long it took.
    pub duration: Option<Duration>,
}

impl Recorder {
    /// Opens a session's ledger, and begins the session if there is none.
    pub async fn open(
        store: Arc<dyn Store>,
        session: &SessionId,
        options: Options,
    ) -> Result<Self, LoopError> {
        let session = Session::open(store, session, options).await?;
        let turns = session.fold().turns().turns();
        let name = |turn: &Arc<ConversationTurn>| turn.assistant_message()?.message_id.clone();
        let answers = turns.filter_map(name).collect();
        let said = session.fold().turns().turns().filter_map(|turn| turn.assistant_message());
        let parts = said.flat_map(|message| &message.content);
        let items = parts.filter_map(|part| part.item_id(turn::NAMED)).collect();
        Ok(Self { session, answers, items })
    }

    /// Returns what is known of the loop.
    pub fn state(&self) -> &TurnState {
        self.session.fold().turns()
    }

    /// Returns how to go on. `effect_of` says what running a tool of that name twice would do.
    pub fn resume_plan(&self, effect_of: impl Fn(&str) -> Effect) -> ResumePlan {
        resume_plan(self.state(), effect_of)
    }

    /// Says that a tool is about to run. When this returns it may.
    pub async fn started(&mut self, call: &CallId, effect: Effect) -> Result<Attempt, LoopError> {
        self.start(call, effect, None).await
    }

    /// Says that what the last attempt may have done is about to be undone.
    pub async fn undoing(&mut self, call: &CallId, effect: Effect) -> Result<Attempt, LoopError> {
        let undoes = self.record(call)?.attempt;
        self.start(call, effect, Some(undoes)).await
    }

    async fn start(
        &mut self,
        call: &CallId,
        effect: Effect,
        undoes: Option<u64>,
    ) -> Result<Attempt, LoopError> {
        let record = self.record(call)?;
        let attempt = record.attempt + 1;
        let key = self.key_of(record)?;
        let (call_id, told) = (call.clone(), key.clone());
        self.say(vec![Payload::ToolStarted(ToolStarted {
            call_id,
            key: told,
            attempt,
            effect,
            undoes,
        })])
        .await?;
        let epoch = self.session.hold().await?;
        Ok(Attempt { key, number: attempt, epoch })
    }

    /// Returns the last attempt of a call that was begun, once the lease is known to hold.
    pub async fn last_attempt(&mut self, call: &CallId) -> Result<Attempt, LoopError> {
        let record = self.record(call)?;
        let (key, number) = (self.key_of(record)?, record.attempt);
        Ok(Attempt { key, number, epoch: self.session.hold().await? })
    }

    /// Says what a call gave. When this returns the model may be told.
    pub async fn finished(&mut self, call: &CallId, output: ToolOutput) -> Result<(), LoopError> {
        let origin = Origin { source: ResultSource::Tool, duration: None };
        self.finished_by(call, output, origin).await
    }

    /// Says what a call gave, and who says so.
    pub async fn finished_by(
        &mut self,
        call: &CallId,
        output: ToolOutput,
        origin: Origin,
    ) -> Result<(), LoopError> {
        let finished = self.finish(call, output, origin)?;
        self.say(vec![finished]).await
    }

    /// Says that the last attempt failed, and that the model is told so.
    pub async fn failed(
        &mut self,
        call: &CallId,
        error: &str,
        origin: Origin,
    ) -> Result<(), LoopError> {
        let attempt = self.record(call)?.attempt;
        let failed = ToolFailed { call_id: call.clone(), attempt, error: Json::string(error) };
        let output = ToolOutput { is_error: true, ..ToolOutput::text(error) };
        let finished = self.finish(call, output, origin)?;
        self.say(vec![Payload::ToolFailed(failed), finished]).await
    }

    /// Says that nobody knows what became of the last attempt; the model is not told yet.
    pub async fn unknown(&mut self, call: &CallId, reason: &str) -> Result<(), LoopError> {
        let unknown = self.not_known(call, reason)?;
        self.say(vec![unknown]).await
    }

    /// Says that nobody knows what became of the last attempt, and that the model is told so.
    pub async fn told_unknown(
        &mut self,
        call: &CallId,
        reason: &str,
        origin: Origin,
    ) -> Result<(), LoopError> {
        let unknown = self.not_known(call, reason)?;
        let output = ToolOutput { is_error: true, ..ToolOutput::text(reason) };
        let finished = self.finish(call, output, origin)?;
        self.say(vec![unknown, finished]).await
    }

    fn not_known(&self, call: &CallId, reason: &str) -> Result<Payload, LoopError> {
        let attempt = self.record(call)?.attempt;
        let (call_id, reason) = (call.clone(), reason.into());
        Ok(Payload::ToolUnknown(ToolUnknown { call_id, attempt, reason }))
    }

    fn finish(
        &self,
        call: &CallId,
        output: ToolOutput,
        origin: Origin,
    ) -> Result<Payload, LoopError> {
        let record = self.record(call)?;
        let result = ConversationMessage {
            content: output.content,
            tool_call_id: Some(call.clone()),
            name: Some(record.name.clone()),
            is_error: output.is_error,
            ..ConversationMessage::new(Role::Tool)
        };
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

    /// Closes the turn: all that it wanted is there.
    pub async fn complete(&mut self) -> Result<(), LoopError> {
        let turn = self.state().last().map(|turn| turn.number()).unwrap_or_default();
        self.say(vec![Payload::TurnCompleted(TurnCompleted { turn })]).await
    }

    /// Notes that there is a checkpoint of this name behind all that was said.
    pub async fn checkpoint(&mut self, name: &str) -> Result<(), LoopError> {
        let seq = Some(self.session.fold().seq());
        self.say(vec![Payload::CheckpointSaved(CheckpointSaved {
            checkpoint_id: name.into(),
            seq,
        })])
        .await
    }

    /// Says anything else, in the order given; all of it is kept, or nothing.
    ///
    /// What does not follow on what was recorded is refused, and is not kept.
    pub async fn say(&mut self, payloads: Vec<Payload>) -> Result<(), LoopError> {
        let at: Arc<str> = jiff::Timestamp::now().to_string().into();
        let events: Vec<SessionEvent> = payloads
            .into_iter()
            .map(|payload| {
                let mut event = SessionEvent::new(payload).from_source(SourceKind::Loop);
                event.context.timestamp = Some(at.clone());
                if let Payload::TurnStarted(_) = &event.payload {
                    event.context.session_id = Some(self.session.id().clone());
                }
                event
            })
            .collect();
        let mut state = self.state().clone();
        for event in &events {
            if let Outcome::Ignored(anomaly) = state.apply(event) {
                return Err(LoopError::OutOfOrder(anomaly.to_string()));
            }
        }
        self.session.emit_all(&events).await?;
        Ok(())
    }

    fn record(&self, call: &CallId) -> Result<&ToolCallRecord, LoopError> {
        let known = self.state().call(call);
        known
            .map(|record| &**record)
            .ok_or_else(|| LoopError::OutOfOrder(format!("there is no call `{call}`")))
    }

    /// Returns what others look at the session with.
    pub fn handle(&self) -> SessionHandle {
        self.session.handle()
    }

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the place of the latest record.
    pub fn cursor(&self) -> Cursor {
        self.session.cursor()
    }

    /// Leaves the session to others. Returns what went wrong beside the way.
    pub async fn close(mut self) -> Result<Vec<String>, LoopError> {
        self.leave().await
    }

    pub(crate) async fn leave(&mut self) -> Result<Vec<String>, LoopError> {
        Ok(self.session.leave().await?)
    }

    /// Keeps others away for as long as the lease lasts, if a tool was begun that has not ended:
    /// what is broken off may go on for a moment.
    pub(crate) fn guard_what_runs(&mut self) {
        let is_begun = |turn: &Arc<ConversationTurn>| {
            turn.calls().any(|call| call.state == CallState::Started)
        };
        if self.state().last().is_some_and(is_begun) {
            self.session.let_lease_run_out();
        }
    }

    /// Returns a snapshot of the whole session, complete in itself.
    pub fn snapshot(&self) -> threadfold_engine::Snapshot {
        self.session.snapshot(BTreeMap::new())
    }
}
