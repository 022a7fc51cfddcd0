//! The inner loop: it does what the ledger says comes next, until nothing does.
//!
//! There is no other way through a run: one that begins and one that goes on after a crash both
//! follow the plan, and nothing is done before it is recorded that it will be.

mod ask;
mod preview;
mod room;
mod tools;

use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_core::{
    CallAction, ConversationMessage, Effect, EmptyPayload, EvaluationId, NextStep, Payload,
    PlannedCall, ResumePlan, SessionEvent, SessionId, Setup, TurnState, resume_plan,
};
use threadfold_engine::Options;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent_loop::{AgentLoop, Resume};
use crate::checkpoint::{Checkpoint, CheckpointHandler};
use crate::error::{LoopError, Reached};
use crate::limits::Spent;
use crate::progress::Progress;
use crate::prompt::{Rendered, RunKey};
use crate::recorder::{NewTurn, Recorder};
use crate::request::request;
use room::LeftOut;

/// A run in this process.
pub(crate) struct Run<'a> {
    agent_loop: &'a AgentLoop,
    session: SessionId,
    recorder: Mutex<Recorder>,
    setup: NewTurn,
    resume: Resume,
    began: Instant,
    spent: Spent,
    checkpoints: Option<(&'a dyn CheckpointHandler, &'a RunKey)>,
    /// What is recorded with the next turn.
    notes: Vec<Payload>,
    /// Stops what runs: when the agent is stopped, or the time is over.
    stop: CancellationToken,
    timer: Option<JoinHandle<()>>,
    /// The request of the last turn was found to break no rule.
    is_checked: bool,
    /// The conversation is to be sent anew.
    restart: bool,
}

/// Whoever drops a run does not wait for it: its tools must not go on without a lease.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.stop.cancel();
        self.recorder.get_mut().guard_what_runs();
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
        prompt: &Rendered,
        resume: Resume,
    ) -> Result<Self, LoopError> {
        let options =
            Options { lease: agent_loop.lease, ..Options::new(agent_loop.holder.clone()) };
        let recorder = Recorder::open(agent_loop.store.clone(), session, options).await?;
        let evaluation_id = match recorder.state().evaluation_id() {
            Some(known) if !is_done(recorder.state()) => known.clone(),
            _ => new_evaluation(),
        };
        let spent = Spent::until_now(recorder.state(), &evaluation_id);
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
            is_checked: false,
            restart: false,
        };
        if let Err(error) = run.check_setup().and_then(|()| run.check_decisions()) {
            // Why it is not run is what the caller must know.
            run.close().await.ok();
            return Err(error);
        }
        Ok(run)
    }

    /// Has what is said next begin a run of its own, with its own limits.
    pub(crate) fn begin_evaluation(&mut self) {
        self.setup.evaluation_id = new_evaluation();
        self.spent = Spent::default();
    }

    /// Checks that what is run today is what the conversation was begun with.
    fn check_setup(&mut self) -> Result<(), LoopError> {
        let today = Setup {
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

    /// Says whether nothing was asked in it yet, or all that was is answered.
    pub(crate) fn is_done(&mut self) -> bool {
        is_done(self.recorder.get_mut().state())
    }

    /// Says whether something can be said: all is answered, or it is said instead of what is not.
    pub(crate) fn can_be_told(&mut self) -> bool {
        let is_unanswered = matches!(self.plan().next, NextStep::AskAgain { .. });
        self.is_done() || (self.resume.instead && is_unanswered)
    }

    /// Records what was noted for the next turn, if there may be none.
    pub(crate) async fn record_notes(&mut self) -> Result<(), LoopError> {
        let notes = std::mem::take(&mut self.notes);
        if !notes.is_empty() {
            self.recorder.get_mut().say(notes).await?;
        }
        Ok(())
    }

    /// Sends the conversation anew with the next turn.
    pub(crate) fn begin_anew(&mut self) {
        self.restart = true;
    }

    /// Goes on until the model asks for nothing more. `input` is what is said next.
    pub(crate) async fn drive(&mut self, input: Vec<ConversationMessage>) -> Result<(), LoopError> {
        match (self.go_on(input).await, self.agent_loop.limits.time) {
            (Err(LoopError::Cancelled), Some(time)) if !self.agent_loop.cancel.is_cancelled() => {
                Err(LoopError::Limit(Reached::Time(time)))
            }
            (driven, _) => driven,
        }
    }

    async fn go_on(&mut self, mut input: Vec<ConversationMessage>) -> Result<(), LoopError> {
        self.close_what_broke_off().await?;
        loop {
            if self.stop.is_cancelled() {
                return Err(LoopError::Cancelled);
            }
            let plan = self.plan();
            match plan.next {
                NextStep::BeginTurn { .. } => self.begin(std::mem::take(&mut input)).await?,
                NextStep::AskAgain { .. } if self.resume.instead && !input.is_empty() => {
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

    /// An answer that a killed process was hearing stays as far as it came.
    async fn close_what_broke_off(&mut self) -> Result<(), LoopError> {
        if matches!(self.plan().next, NextStep::AskAgain { .. }) {
            let idle = Payload::SessionIdle(EmptyPayload {});
            self.recorder.get_mut().say(vec![idle]).await?;
        }
        Ok(())
    }

    /// Says whether the provider stopped in the middle of tools of its own, and is to be asked to
    /// go on: only if there is something that it was not sent yet.
    fn was_paused(&mut self) -> bool {
        let last = self.recorder.get_mut().state().last().cloned();
        let answer = last.as_ref().and_then(|turn| turn.answer());
        let is_paused = answer.is_some_and(|it| it.stop_reason.as_deref() == Some("pause_turn"));
        is_paused && !self.recorder.get_mut().prepare(self.setup.clone()).0.items.is_empty()
    }

    /// Refuses decisions about calls that wait for none. Asked once: later they are used up.
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

    /// Begins a turn. A request that the provider would refuse is not recorded.
    async fn begin(&mut self, messages: Vec<ConversationMessage>) -> Result<(), LoopError> {
        let recorder = self.recorder.get_mut();
        let is_prompt = !messages.is_empty();
        if !is_prompt
            && let Some(reached) = self.agent_loop.limits.reached(&self.spent, self.began.elapsed())
        {
            return Err(LoopError::Limit(reached));
        }
        let withdraws = is_prompt && self.resume.instead;
        let turn = NewTurn { messages, restart: self.restart, withdraws, ..self.setup.clone() };
        let mut carried = recorder.carried(&turn);
        let mut left_out = Vec::new();
        let (started, repairs, request) = loop {
            let (started, repairs) = recorder.prepare_with(turn.clone(), &carried);
            let started = Payload::TurnStarted(started);
            let mut state = recorder.state().clone();
            state.extend([&SessionEvent::new(started.clone())]);
            let request = request(self.setup.dialect, &state);
            let excess = request.len().saturating_sub(self.agent_loop.limits.request);
            let more = room::leave_out(&mut carried.messages, excess);
            if more.is_empty() {
                break (started, repairs, request);
            }
            left_out.extend(more);
        };
        let violations = self.setup.dialect.check(&request);
        if !violations.is_empty() {
            return Err(LoopError::Invalid(violations));
        }
        let notes = std::mem::take(&mut self.notes).into_iter();
        recorder.say(notes.chain([started]).collect()).await?;
        (self.restart, self.is_checked) = (false, true);
        for LeftOut { call, bytes } in left_out {
            self.agent_loop.tell(&Progress::LeftOut { call, bytes });
        }
        repairs.into_iter().for_each(|repair| self.agent_loop.tell(&Progress::Repaired(repair)));
        self.spent.add_turn();
        Ok(())
    }

    async fn close_turn(&mut self, turn: u64) -> Result<(), LoopError> {
        let recorder = self.recorder.get_mut();
        recorder.complete().await?;
        recorder.checkpoint(&format!("turn-{turn}")).await?;
        self.save_checkpoint().await
    }

    /// Has every turn that is closed told to a handler of checkpoints.
    pub(crate) fn keep_checkpoints(&mut self, handler: &'a dyn CheckpointHandler, key: &'a RunKey) {
        self.checkpoints = Some((handler, key));
    }

    /// Tells the handler of checkpoints how far the run has come.
    pub(crate) async fn save_checkpoint(&mut self) -> Result<(), LoopError> {
        let Some((handler, key)) = self.checkpoints else { return Ok(()) };
        let cursor = self.recorder.get_mut().cursor();
        let session = self.session.clone();
        handler.save(key, &Checkpoint { session, log: Some(cursor.log), seq: cursor.seq }).await
    }

    /// Returns what is known of the loop.
    pub(crate) fn state(&mut self) -> &TurnState {
        self.recorder.get_mut().state()
    }

    /// Leaves the session to others.
    pub(crate) async fn close(&mut self) -> Result<Vec<String>, LoopError> {
        self.recorder.get_mut().leave().await
    }
}

/// A run that came to its end.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The session that it was run in.
    pub session: SessionId,
    /// The model's last answer.
    pub message: ConversationMessage,
    /// All that was said, as the model was told it.
    pub history: Vec<ConversationMessage>,
    /// How many turns the conversation has.
    pub turns: u64,
    /// Why the model stopped, in the provider's words.
    pub stop_reason: Option<Arc<str>>,
    /// What went wrong beside the way.
    pub troubles: Vec<String>,
}

impl Finished {
    /// Returns the words of the last answer.
    pub fn text(&self) -> String {
        self.message.to_text()
    }

    /// Says whether the last answer was cut off, refused or filtered, rather than ended.
    pub fn is_cut(&self) -> bool {
        self.stop_reason.as_deref().is_some_and(is_cut)
    }
}

/// Says whether a provider's reason to stop means that there should have been more.
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

/// Returns what a run waits for, in words; nothing if it came to its end.
pub fn waits_for(state: &TurnState, agent_loop: &AgentLoop) -> Option<String> {
    waits(state, |name| agent_loop.effect_of(name))
}

/// Returns what a run waits for, in words, if running a tool twice does what `effect_of` says.
pub fn waits(state: &TurnState, effect_of: impl Fn(&str) -> Effect) -> Option<String> {
    let plan = resume_plan(state, effect_of);
    let undecided: Vec<_> = plan.undecided().map(ToString::to_string).collect();
    Some(match plan.next {
        NextStep::Done => return None,
        NextStep::BeginTurn { turn } => format!("turn {turn} is to begin"),
        NextStep::AskAgain { turn } => format!("turn {turn} has no answer yet"),
        NextStep::RunTools { .. } if !undecided.is_empty() => undecided.join("; "),
        NextStep::RunTools { turn } => {
            let open = |it: &&PlannedCall| it.action != CallAction::Replay;
            let names: Vec<_> = plan.calls.iter().filter(open).map(|it| &*it.call.name).collect();
            format!("turn {turn} has tools to run: {}", names.join(", "))
        }
        NextStep::CloseTurn { turn } => format!("turn {turn} is to be closed"),
    })
}
