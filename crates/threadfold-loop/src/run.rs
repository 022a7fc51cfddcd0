//! The main loop: runs a request to its end, however often the process is killed.

use std::error::Error;
use std::sync::Arc;

use threadfold_core::{ConversationMessage, ConversationTurn, Role, SessionId};
use threadfold_fold::SnapshotRestoreError;

use crate::checkpoint::{Checkpoint, CheckpointHandler};
use crate::configuration::{AgentLoop, Resume};
use crate::error::LoopError;
use crate::output::{Output, correction, instruction};
use crate::progress::Progress;
use crate::prompt::{Prompt, RenderedPrompt, RunKey};
use crate::steps::{PromptMatch, Run, RunOutcome, pending_step_of};

/// The id of the message that rejects an answer which could not be parsed.
const CORRECTION_ID: &str = "output-error";

impl AgentLoop {
    /// Sends a prompt in a new or existing session, and runs until the model requests nothing more.
    ///
    /// Dropping the future, by a timeout or a `select!`, is like a crash: running tools are
    /// cancelled and aborted at their next `await`, and a resume treats them as started. The session
    /// becomes available when its [`lease`](Self::lease) expires, or at once if no tool was
    /// running. To stop a run cleanly, use [`cancel`](Self::cancel). The same applies to every
    /// method that runs or resumes.
    pub async fn run(
        &self,
        session: &SessionId,
        prompt: &RenderedPrompt,
    ) -> Result<RunOutcome, LoopError> {
        self.run_with(session, prompt, Resume::default()).await
    }

    /// Sends a prompt in a session, with options to adopt a changed setup or to withdraw a prompt.
    pub async fn run_with(
        &self,
        session: &SessionId,
        prompt: &RenderedPrompt,
        resume: Resume,
    ) -> Result<RunOutcome, LoopError> {
        let mut run = Run::open(self, session, prompt, resume.clone(), PromptMatch::Any).await?;
        if resume.adopt {
            run.restart_request();
        }
        if !run.accepts_prompt() {
            let waits = pending_step_of(run.state(), self).unwrap_or_default();
            close(&mut run).await;
            return Err(LoopError::Unfinished { session: session.clone(), waits });
        }
        let driven = run.drive(prompt.messages.clone()).await;
        finish(run, session, driven).await
    }

    /// Resumes a session where it stopped. A session that does not exist is not created.
    pub async fn resume(
        &self,
        session: &SessionId,
        resume: Resume,
    ) -> Result<RunOutcome, LoopError> {
        let not_started = || LoopError::NotStarted { session: session.clone() };
        // Opening a session creates it, so its existence is checked first.
        self.store.head(session).await?.ok_or_else(not_started)?;
        let (prompt, any) = (RenderedPrompt::default(), PromptMatch::Any);
        let mut run = Run::open(self, session, &prompt, resume.clone(), any).await?;
        if run.state().last().is_none() {
            close(&mut run).await;
            return Err(not_started());
        }
        if resume.adopt {
            run.restart_request();
        }
        let driven = match run.record_notes().await {
            Ok(()) => run.drive(Vec::new()).await,
            failed => failed,
        };
        finish(run, session, driven).await
    }

    /// Ensures that a prompt is answered: resumes an unfinished session, then sends the prompt
    /// unless it was the last one sent.
    ///
    /// Idempotent: it can be called again after a crash at any point. A prompt that was answered is
    /// not sent again, and its answer is returned. To send the same prompt twice, use
    /// [`run`](Self::run).
    pub async fn run_or_resume(
        &self,
        session: &SessionId,
        prompt: &RenderedPrompt,
    ) -> Result<RunOutcome, LoopError> {
        let any = PromptMatch::Any;
        let mut run = Run::open(self, session, prompt, Resume::default(), any).await?;
        let driven = run_or_resume(&mut run, prompt).await;
        finish(run, session, driven).await
    }

    /// Runs a prompt in a new session.
    pub async fn evaluate(&self, prompt: &RenderedPrompt) -> Result<RunOutcome, LoopError> {
        let session = SessionId::from(format!("run-{}", uuid::Uuid::new_v4().simple()));
        self.evaluate_in(&session, prompt, Resume::default()).await
    }

    /// Resumes a prompt from a checkpoint.
    pub async fn evaluate_from(
        &self,
        checkpoint: &Checkpoint,
        prompt: &RenderedPrompt,
        resume: Resume,
    ) -> Result<RunOutcome, LoopError> {
        self.check(checkpoint).await?;
        let (session, same) = (&checkpoint.session, PromptMatch::Same);
        let mut run = Run::open(self, session, prompt, resume, same).await?;
        let driven = match run.restore_history(checkpoint, same).await {
            Ok(()) => drive(&mut run, prompt).await,
            failed => failed,
        };
        finish(run, session, driven).await
    }

    async fn evaluate_in(
        &self,
        session: &SessionId,
        prompt: &RenderedPrompt,
        resume: Resume,
    ) -> Result<RunOutcome, LoopError> {
        let mut run = Run::open(self, session, prompt, resume, PromptMatch::Same).await?;
        let driven = drive(&mut run, prompt).await;
        finish(run, session, driven).await
    }

    /// Checks that a checkpoint refers to an existing position in its log.
    async fn check(&self, checkpoint: &Checkpoint) -> Result<(), LoopError> {
        let Some(log) = &checkpoint.log else { return Ok(()) };
        let unfit = |field: &str, reason: String| {
            Err(SnapshotRestoreError { field: field.to_owned(), reason }.into())
        };
        let session = &checkpoint.session;
        // With its history, a checkpoint is complete wherever its log is.
        if checkpoint.history.is_some() {
            return Ok(());
        }
        let Some(head) = self.store.head(session).await? else {
            return unfit("session", format!("session `{session}` does not exist in this store"));
        };
        if head.log != *log {
            return unfit("log", format!("session `{session}` has log {}, not {log}", head.log));
        }
        if head.seq < checkpoint.seq {
            let (found, wanted) = (head.seq, checkpoint.seq);
            return unfit("seq", format!("the log ends at record {found}, before {wanted}"));
        }
        Ok(())
    }
}

async fn run_or_resume(run: &mut Run<'_>, prompt: &RenderedPrompt) -> Result<(), LoopError> {
    if run.state().last().is_some() {
        run.drive(Vec::new()).await?;
    }
    if is_last_prompt(run, prompt) {
        return Ok(());
    }
    run.begin_evaluation();
    run.drive(prompt.messages.clone()).await
}

/// Returns true if the prompt was the last one sent.
fn is_last_prompt(run: &mut Run<'_>, prompt: &RenderedPrompt) -> bool {
    let has_prompt = |turn: &&Arc<ConversationTurn>| !turn.sent().messages.is_empty();
    let last = run.state().turns().filter(has_prompt).last();
    last.is_some_and(|turn| {
        let sent = &turn.sent().messages;
        sent.len() == prompt.messages.len()
            && sent.iter().zip(&prompt.messages).all(|(sent, new)| is_same(sent, new))
    })
}

/// Returns true if the sent message equals this one, apart from what the ledger added to it.
fn is_same(sent: &ConversationMessage, new: &ConversationMessage) -> bool {
    let mut new = new.clone();
    new.message_id = new.message_id.or_else(|| sent.message_id.clone());
    new.created_at = new.created_at.or_else(|| sent.created_at.clone());
    *sent == new
}

/// Sends the prompt, unless the session already has one.
async fn drive(run: &mut Run<'_>, prompt: &RenderedPrompt) -> Result<(), LoopError> {
    let is_new = run.state().last().is_none();
    run.drive(if is_new { prompt.messages.clone() } else { Vec::new() }).await
}

async fn finish(
    mut run: Run<'_>,
    session: &SessionId,
    driven: Result<(), LoopError>,
) -> Result<RunOutcome, LoopError> {
    let state = run.state().clone();
    let warnings = close(&mut run).await;
    driven?;
    let answer = state.last().and_then(|turn| turn.answer());
    let last = answer.map(|answer| answer.message.clone());
    Ok(RunOutcome {
        stop_reason: answer.and_then(|answer| answer.stop_reason.clone()),
        session: session.clone(),
        message: last.unwrap_or_else(|| ConversationMessage::new(Role::Assistant)),
        history: state.history(),
        turns: state.turns().len() as u64,
        warnings,
    })
}

/// Releases the session. An error here must hide neither the output nor the reason why there is
/// none.
async fn close(run: &mut Run<'_>) -> Vec<String> {
    run.close().await.unwrap_or_else(|error| vec![with_causes(&error)])
}

fn with_causes(error: &LoopError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(it) = cause {
        text = format!("{text}: {it}");
        cause = it.source();
    }
    text
}

/// Runs requests of one prompt. Each request has at most one unfinished run at a time.
pub struct MainLoop<P> {
    agent_loop: AgentLoop,
    prompt: P,
    checkpoints: Arc<dyn CheckpointHandler>,
}

impl<P: Prompt> MainLoop<P> {
    /// Returns a loop for a prompt.
    pub fn new(
        agent_loop: AgentLoop,
        prompt: P,
        checkpoints: impl CheckpointHandler + 'static,
    ) -> Self {
        Self { agent_loop, prompt, checkpoints: Arc::new(checkpoints) }
    }

    /// Runs a request: resumes its unfinished run, or starts one.
    ///
    /// Problems after the end of the run are reported as [`Progress::Warning`]. As long as the
    /// checkpoint cannot be cleared, running the request again returns the output of this run.
    pub async fn run(&self, request: &P::Request) -> Result<P::Output, LoopError> {
        self.run_with(request, Resume::default()).await
    }

    /// Runs a request, with decisions about calls with an unknown outcome.
    pub async fn run_with(
        &self,
        request: &P::Request,
        resume: Resume,
    ) -> Result<P::Output, LoopError> {
        let key = RunKey::of(&self.prompt, request);
        let rendered = self.render(request);
        let known = self.checkpoints.load(&key).await?;
        let checkpoint = match known {
            Some(checkpoint) => checkpoint,
            None => self.checkpoints.begin(&key).await?,
        };
        self.agent_loop.check(&checkpoint).await?;
        let (session, same) = (&checkpoint.session, PromptMatch::Same);
        let mut run = Run::open(&self.agent_loop, session, &rendered, resume, same).await?;
        run.save_checkpoints_to(&*self.checkpoints, &key);
        let driven = match run.restore_history(&checkpoint, same).await {
            Ok(()) => self.drive(&mut run, &rendered).await,
            Err(error) => Err(error),
        };
        let mut warnings = close(&mut run).await;
        let output = driven?;
        if let Err(error) = self.checkpoints.clear(&key).await {
            warnings.push(with_causes(&error));
        }
        for warning in warnings {
            self.agent_loop.report(&Progress::Warning(warning));
        }
        Ok(output)
    }

    /// Returns the rendered prompt, with the required form of the answer.
    fn render(&self, request: &P::Request) -> RenderedPrompt {
        let mut rendered = self.prompt.render(request);
        rendered.namespace = Some(self.prompt.namespace().into());
        rendered.key = Some(self.prompt.key().into());
        if let Some(form) = instruction::<P::Output>() {
            let system = rendered.system.as_deref().or(self.agent_loop.system.as_deref());
            let system = system.map(|it| format!("{it}\n\n{form}")).unwrap_or(form);
            rendered.system = Some(system.into());
        }
        rendered
    }

    async fn drive(
        &self,
        run: &mut Run<'_>,
        rendered: &RenderedPrompt,
    ) -> Result<P::Output, LoopError> {
        drive(run, rendered).await?;
        let error = match read_answer(run) {
            Ok(output) => return Ok(output),
            Err(error) => error,
        };
        // The model gets one chance to correct its answer, also across resumes.
        if was_rejected_before(run) {
            return Err(error.into());
        }
        let mut again = ConversationMessage::text(Role::User, &correction(&error));
        again.message_id = Some(CORRECTION_ID.into());
        run.drive(vec![again]).await?;
        Ok(read_answer(run)?)
    }
}

fn read_answer<O: Output>(run: &mut Run<'_>) -> Result<O, crate::output::OutputError> {
    let last = run.state().last().and_then(|turn| turn.assistant_message().cloned());
    O::read(&last.map(|message| message.to_text()).unwrap_or_default())
}

/// Returns true if an answer was already rejected.
fn was_rejected_before(run: &mut Run<'_>) -> bool {
    let is_correction = |message: &ConversationMessage| {
        message.message_id.as_ref().is_some_and(|id| id.as_str() == CORRECTION_ID)
    };
    run.state().turns().any(|turn| turn.sent().messages.iter().any(is_correction))
}
