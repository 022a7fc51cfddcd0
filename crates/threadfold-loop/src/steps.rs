//! The inner loop: performs the next step in the ledger until the run is done.
//!
//! A new run and a resumed run take the same path: both follow the resume plan, and every step is
//! recorded before it is performed.

mod ask;
mod preview;
mod tools;
mod truncate;

use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_core::{
    CallAction, ConversationMessage, Effect, EmptyPayload, EvaluationId, NextStep, Payload,
    PlannedCall, ResumePlan, SessionEvent, SessionId, Setup, TurnState, resume_plan,
};
use threadfold_engine::Options;
use threadfold_fold::SnapshotRestoreError;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::checkpoint::{Checkpoint, CheckpointHandler, history};
use crate::configuration::{AgentLoop, Resume};
use crate::error::{LoopError, RunLimit};
use crate::ledger::{NewTurn, Recorder};
use crate::limits::UsageTotals;
use crate::progress::Progress;
use crate::prompt::{RenderedPrompt, RunKey};
use crate::request::GrowingRequest;
use truncate::Omission;

/// A run in this process.
pub(crate) struct Run<'a> {
    agent_loop: &'a AgentLoop,
    session: SessionId,
    recorder: Mutex<Recorder>,
    setup: NewTurn,
    resume: Resume,
    began: Instant,
    spent: UsageTotals,
    checkpoints: Option<(&'a dyn CheckpointHandler, &'a RunKey)>,
    /// Events to record with the next turn.
    notes: Vec<Payload>,
    /// Stops the run when the loop is cancelled or its time is up.
    stop: CancellationToken,
    timer: Option<JoinHandle<()>>,
    /// The request of the last turn.
    request: GrowingRequest,
    /// It passed validation.
    is_checked: bool,
    /// The next turn sends the conversation again in full.
    restart: bool,
}

/// Which prompt may continue a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptMatch {
    /// Only the one that it started with, by its namespace and key.
    Same,
    /// Any: it is sent in addition.
    Any,
}

/// A dropped run is not awaited, so its tools must stop: they would otherwise outlive the lease.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.stop.cancel();
        self.recorder.get_mut().keep_lease_if_running();
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }
}

impl<'a> Run<'a> {
    /// Opens the session of a run.
    pub(crate) async fn open(
        agent_loop: &'a AgentLoop,
        session: &SessionId,
        prompt: &RenderedPrompt,
        resume: Resume,
        matching: PromptMatch,
    ) -> Result<Self, LoopError> {
        let options =
            Options { lease: agent_loop.lease, ..Options::new(agent_loop.holder.clone()) };
        let (store, marks) = (agent_loop.store.clone(), agent_loop.marks.clone());
        let recorder = Recorder::open_with(store, session, options, marks, resume.trust).await?;
        let evaluation_id = match recorder.state().evaluation_id() {
            Some(known) if !is_done(recorder.state()) => known.clone(),
            _ => new_evaluation(),
        };
        let spent = UsageTotals::until_now(recorder.state(), &evaluation_id);
        let today = agent_loop.new_turn(Vec::new());
        let setup = NewTurn {
            evaluation_id,
            prompt_namespace: prompt.namespace.clone(),
            prompt_key: prompt.key.clone(),
            system: prompt.system.clone().or(today.system),
            ..today
        };
        let stop = agent_loop.cancel.child_token();
        let mut run = Self {
            agent_loop,
            session: session.clone(),
            recorder: Mutex::new(recorder),
            setup,
            resume,
            began: Instant::now(),
            spent,
            checkpoints: None,
            notes: agent_loop.notes.clone(),
            timer: agent_loop.limits.time.map(|time| tokio::spawn(stop_after(time, stop.clone()))),
            stop,
            request: GrowingRequest::new(agent_loop.provider.dialect()),
            is_checked: false,
            restart: false,
        };
        if let Err(error) = run.check_setup(matching).and_then(|()| run.check_decisions()) {
            // The caller needs the reason for the refusal, not an error of the cleanup.
            run.close().await.ok();
            return Err(error);
        }
        Ok(run)
    }

    /// Starts a new evaluation with the next prompt, with limits of its own.
    pub(crate) fn begin_evaluation(&mut self) {
        self.setup.evaluation_id = new_evaluation();
        self.spent = UsageTotals::default();
    }

    /// Checks that the setup is the one that the conversation started with.
    fn check_setup(&mut self, matching: PromptMatch) -> Result<(), LoopError> {
        let recorded = self.recorder.get_mut().state().clone();
        let (namespace, key) = match matching {
            PromptMatch::Any => (recorded.prompt_namespace(), recorded.prompt_key()),
            PromptMatch::Same => {
                (self.setup.prompt_namespace.as_deref(), self.setup.prompt_key.as_deref())
            }
        };
        let today = Setup {
            namespace,
            key,
            system: self.setup.system.as_deref(),
            tools: self.setup.tools.as_ref(),
            provider: &self.setup.provider,
            model: &self.setup.model,
        };
        match self.recorder.get_mut().check(&today) {
            Err(LoopError::Mismatch(_)) if self.resume.adopt => {
                self.restart = true;
                Ok(())
            }
            checked => checked,
        }
    }

    /// Returns true if nothing was asked yet, or everything asked is answered.
    pub(crate) fn is_done(&mut self) -> bool {
        is_done(self.recorder.get_mut().state())
    }

    /// Returns true if the session accepts a prompt: it is done, or the prompt withdraws an
    /// unanswered one.
    pub(crate) fn accepts_prompt(&mut self) -> bool {
        let is_unanswered = matches!(self.plan().next, NextStep::AskAgain { .. });
        self.is_done() || (self.resume.withdraw && is_unanswered)
    }

    /// Records the pending notes. A resume may not begin another turn to record them with.
    pub(crate) async fn record_notes(&mut self) -> Result<(), LoopError> {
        let notes = std::mem::take(&mut self.notes);
        if !notes.is_empty() {
            self.recorder.get_mut().append(notes).await?;
        }
        Ok(())
    }

    /// Sends the conversation again in full with the next turn.
    pub(crate) fn restart_request(&mut self) {
        self.restart = true;
    }

    /// Runs until the model requests nothing more. `input` is the next prompt.
    pub(crate) async fn drive(&mut self, input: Vec<ConversationMessage>) -> Result<(), LoopError> {
        match (self.run_to_end(input).await, self.agent_loop.limits.time) {
            (Err(LoopError::Cancelled), Some(time)) if !self.agent_loop.cancel.is_cancelled() => {
                Err(LoopError::Limit(RunLimit::Time(time)))
            }
            (driven, _) => driven,
        }
    }

    async fn run_to_end(&mut self, mut input: Vec<ConversationMessage>) -> Result<(), LoopError> {
        self.close_interrupted_preview().await?;
        loop {
            if self.stop.is_cancelled() {
                return Err(LoopError::Cancelled);
            }
            let plan = self.plan();
            match plan.next {
                NextStep::BeginTurn { .. } => self.begin(std::mem::take(&mut input)).await?,
                NextStep::AskAgain { .. } if self.resume.withdraw && !input.is_empty() => {
                    self.begin(std::mem::take(&mut input)).await?;
                }
                NextStep::AskAgain { .. } if self.restart => self.begin(Vec::new()).await?,
                NextStep::AskAgain { turn } => self.ask(turn).await?,
                NextStep::RunTools { .. } => self.run_tools(plan).await?,
                NextStep::CloseTurn { turn } => self.close_turn(turn).await?,
                NextStep::Done if !input.is_empty() => {
                    self.begin(std::mem::take(&mut input)).await?;
                }
                NextStep::Done if self.was_paused() => self.begin(Vec::new()).await?,
                NextStep::Done => return Ok(()),
            }
        }
    }

    fn plan(&mut self) -> ResumePlan {
        self.recorder.get_mut().resume_plan(|name| self.agent_loop.effect_of(name))
    }

    /// Closes the preview of an answer that a killed process was receiving. The text received so
    /// far stays.
    async fn close_interrupted_preview(&mut self) -> Result<(), LoopError> {
        if matches!(self.plan().next, NextStep::AskAgain { .. }) {
            let idle = Payload::SessionIdle(EmptyPayload {});
            self.recorder.get_mut().append(vec![idle]).await?;
        }
        Ok(())
    }

    /// Returns true if the provider paused in the middle of its own tools and must be asked to
    /// continue. That requires something that it was not sent yet.
    fn was_paused(&mut self) -> bool {
        let last = self.recorder.get_mut().state().last().cloned();
        let answer = last.as_ref().and_then(|turn| turn.answer());
        let is_paused = answer.is_some_and(|it| it.stop_reason.as_deref() == Some("pause_turn"));
        is_paused && !self.recorder.get_mut().prepare(self.setup.clone()).0.items.is_empty()
    }

    /// Refuses decisions about calls that need none. Checked once at the start, because a run uses
    /// up its decisions.
    fn check_decisions(&mut self) -> Result<(), LoopError> {
        let plan = self.plan();
        for call in self.resume.decisions.keys() {
            let planned = plan.calls.iter().find(|it| it.call.call_id == *call);
            let why = match planned.map(|it| it.call.result().is_some()) {
                None => "the last turn has no such call",
                Some(true) => "it has its result",
                Some(false) => continue,
            };
            return Err(LoopError::NothingToDecide { call: call.clone(), why });
        }
        Ok(())
    }

    /// Begins a turn. A request that the provider would refuse is not recorded, because it could
    /// never be answered.
    async fn begin(&mut self, messages: Vec<ConversationMessage>) -> Result<(), LoopError> {
        let recorder = self.recorder.get_mut();
        let is_prompt = !messages.is_empty();
        // A new prompt is always sent; limits apply to the turns after it.
        if !is_prompt
            && let Some(reached) = self.agent_loop.limits.reached(&self.spent, self.began.elapsed())
        {
            return Err(LoopError::Limit(reached));
        }
        let withdraws = is_prompt && self.resume.withdraw;
        let turn = NewTurn { messages, restart: self.restart, withdraws, ..self.setup.clone() };
        let mut carried = recorder.carried_messages(&turn);
        let mut omitted = Vec::new();
        // Each omission changes the size of the request, so it is rendered and measured again.
        let (started, repairs) = loop {
            let (started, repairs) = recorder.prepare_with(turn.clone(), &carried);
            let started = Payload::TurnStarted(started);
            let mut state = recorder.state().clone();
            state.extend([&SessionEvent::new(started.clone())]);
            self.request.follow(&state);
            let size = self.request.body().len();
            let excess = size.saturating_sub(self.agent_loop.limits.request);
            let more = truncate::omit_largest(&mut carried.messages, excess);
            if more.is_empty() {
                break (started, repairs);
            }
            omitted.extend(more);
        };
        let violations = self.request.violations();
        if !violations.is_empty() {
            return Err(LoopError::Invalid(violations));
        }
        let notes = std::mem::take(&mut self.notes).into_iter();
        recorder.append(notes.chain([started]).collect()).await?;
        (self.restart, self.is_checked) = (false, true);
        for Omission { call, bytes } in omitted {
            self.agent_loop.report(&Progress::Omitted { call, bytes });
        }
        repairs.into_iter().for_each(|repair| self.agent_loop.report(&Progress::Repaired(repair)));
        self.spent.add_turn();
        Ok(())
    }

    async fn close_turn(&mut self, turn: u64) -> Result<(), LoopError> {
        let recorder = self.recorder.get_mut();
        recorder.complete().await?;
        recorder.checkpoint(&format!("turn-{turn}")).await?;
        self.save_checkpoint().await
    }

    /// Saves a checkpoint after every completed turn.
    pub(crate) fn save_checkpoints_to(
        &mut self,
        handler: &'a dyn CheckpointHandler,
        key: &'a RunKey,
    ) {
        self.checkpoints = Some((handler, key));
    }

    /// Saves the current position of the run.
    pub(crate) async fn save_checkpoint(&mut self) -> Result<(), LoopError> {
        let Some((handler, key)) = self.checkpoints else { return Ok(()) };
        let cursor = self.recorder.get_mut().cursor();
        let session = self.session.clone();
        let state = self.recorder.get_mut().state();
        let history = handler.holds_history().then(|| history::write(state));
        let log = Some(cursor.log);
        handler.save(key, &Checkpoint { session, log, seq: cursor.seq, history }).await
    }

    /// Continues from a checkpoint's history, if this store does not have the run.
    pub(crate) async fn restore_history(
        &mut self,
        checkpoint: &Checkpoint,
        matching: PromptMatch,
    ) -> Result<(), LoopError> {
        let Some(kept) = &checkpoint.history else { return Ok(()) };
        let cursor = self.recorder.get_mut().cursor();
        if checkpoint.log.as_ref() == Some(&cursor.log) {
            return Ok(());
        }
        let kept = history::read(kept)?;
        let recorder = self.recorder.get_mut();
        if recorder.state().last().is_none() {
            recorder.append(history::events(&kept)).await?;
        }
        if !history::continues(recorder.state(), &kept) {
            let reason = format!("session `{}` has another history", self.session);
            return Err(SnapshotRestoreError { field: "log".to_owned(), reason }.into());
        }
        if let Some(id) = recorder.state().evaluation_id().cloned()
            && !is_done(recorder.state())
        {
            self.spent = UsageTotals::until_now(recorder.state(), &id);
            self.setup.evaluation_id = id;
        }
        self.check_setup(matching)?;
        self.save_checkpoint().await
    }

    /// Returns the state of the loop.
    pub(crate) fn state(&mut self) -> &TurnState {
        self.recorder.get_mut().state()
    }

    /// Releases the session.
    pub(crate) async fn close(&mut self) -> Result<Vec<String>, LoopError> {
        self.recorder.get_mut().leave().await
    }
}

/// The outcome of a run that finished.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The session of the run.
    pub session: SessionId,
    /// The model's last answer.
    pub message: ConversationMessage,
    /// The complete history, as the model saw it.
    pub history: Vec<ConversationMessage>,
    /// The number of turns in the conversation.
    pub turns: u64,
    /// Why the model stopped, as the provider reported it.
    pub stop_reason: Option<Arc<str>>,
    /// Problems that did not affect the result.
    pub warnings: Vec<String>,
}

impl RunOutcome {
    /// Returns the text of the last answer.
    pub fn text(&self) -> String {
        self.message.to_text()
    }

    /// Returns true if the last answer was truncated, refused or filtered.
    pub fn is_cut(&self) -> bool {
        self.stop_reason.as_deref().is_some_and(is_cut)
    }
}

/// Returns true if a provider's stop reason means that the answer is incomplete.
pub(crate) fn is_cut(reason: &str) -> bool {
    let cut = ["max_tokens", "length", "incomplete", "refusal", "content_filter"];
    cut.contains(&reason) || reason == "model_context_window_exceeded" || reason == "pause_turn"
}

fn new_evaluation() -> EvaluationId {
    EvaluationId::from(uuid::Uuid::new_v4().to_string())
}

async fn stop_after(time: Duration, stop: CancellationToken) {
    tokio::time::sleep(time).await;
    stop.cancel();
}

pub(crate) fn is_done(state: &TurnState) -> bool {
    let plan = resume_plan(state, |_| Effect::Unsafe);
    state.last().is_none() || plan.next == NextStep::Done
}

/// Describes what an unfinished run waits for; `None` if the run is finished.
pub(crate) fn pending_step_of(state: &TurnState, agent_loop: &AgentLoop) -> Option<String> {
    pending_step(state, |name| agent_loop.effect_of(name))
}

/// Describes what an unfinished run waits for, given the effect of running each tool twice.
pub fn pending_step(state: &TurnState, effect_of: impl Fn(&str) -> Effect) -> Option<String> {
    let plan = resume_plan(state, effect_of);
    let undecided: Vec<_> = plan.undecided().map(ToString::to_string).collect();
    Some(match plan.next {
        NextStep::Done => return None,
        NextStep::BeginTurn { turn } => format!("turn {turn} has not started"),
        NextStep::AskAgain { turn } => format!("turn {turn} has no answer"),
        NextStep::RunTools { .. } if !undecided.is_empty() => undecided.join("; "),
        NextStep::RunTools { turn } => {
            let open = |it: &&PlannedCall| it.action != CallAction::Replay;
            let names: Vec<_> = plan.calls.iter().filter(open).map(|it| &*it.call.name).collect();
            format!("turn {turn} has tools to run: {}", names.join(", "))
        }
        NextStep::CloseTurn { turn } => format!("turn {turn} is not completed"),
    })
}
