//! The main loop: a request is run to its end, however often the process is killed.

use std::error::Error;
use std::sync::Arc;

use threadfold_core::{ConversationMessage, ConversationTurn, Json, Role, SessionId};
use threadfold_engine::SnapshotRestoreError;

use crate::agent_loop::{AgentLoop, Resume};
use crate::checkpoint::{Checkpoint, CheckpointHandler};
use crate::error::LoopError;
use crate::output::{Output, complaint, instruction};
use crate::progress::Progress;
use crate::prompt::{Prompt, Rendered, RunKey};
use crate::run::{Finished, Run, waits_for};

/// How the message is named that gives an answer back which could not be read.
const COMPLAINT: &str = "output-error";

impl AgentLoop {
    /// Says something in a session, new or known, and goes on until the model asks for nothing
    /// more.
    ///
    /// Dropping the future, by a timeout or a `select!`, is like a crash: tools that run are told to
    /// stop and are broken off at their next `await`, and a resume treats them as begun. The
    /// session is free for others when its [`lease`](Self::lease) is over, or at once if no tool
    /// was running. To stop a run in good
    /// order, use [`cancel`](Self::cancel). The same holds for all that runs or resumes.
    pub async fn run(&self, session: &SessionId, prompt: &Rendered) -> Result<Finished, LoopError> {
        self.run_with(session, prompt, Resume::default()).await
    }

    /// Says something in a session, with leave to adopt what changed.
    pub async fn run_with(
        &self,
        session: &SessionId,
        prompt: &Rendered,
        resume: Resume,
    ) -> Result<Finished, LoopError> {
        let mut run = Run::open(self, session, prompt, resume.clone()).await?;
        if resume.adopt {
            run.begin_anew();
        }
        if !run.can_be_told() {
            let waits = waits_for(run.state(), self).unwrap_or_default();
            close(&mut run).await;
            return Err(LoopError::Unfinished { session: session.clone(), waits });
        }
        let driven = run.drive(prompt.messages.clone()).await;
        finish(run, session, driven).await
    }

    /// Goes on with a session where it stopped. One that is not there is not begun.
    pub async fn resume(&self, session: &SessionId, resume: Resume) -> Result<Finished, LoopError> {
        let not_begun = || LoopError::NotBegun { session: session.clone() };
        // Opening a session begins it, and nobody asked for that.
        self.store.head(session).await?.ok_or_else(not_begun)?;
        let mut run = Run::open(self, session, &Rendered::default(), resume.clone()).await?;
        if run.state().last().is_none() {
            close(&mut run).await;
            return Err(not_begun());
        }
        if resume.adopt {
            run.begin_anew();
        }
        let driven = match run.record_notes().await {
            Ok(()) => run.drive(Vec::new()).await,
            failed => failed,
        };
        finish(run, session, driven).await
    }

    /// Sees to it that a prompt is answered: goes on with a session that is not finished, then
    /// says the prompt unless it is what was said there last.
    ///
    /// So it can be called again after a crash at any moment: a prompt that was answered is not
    /// sent anew, and its answer is returned. To say the same once more, use [`run`](Self::run).
    pub async fn run_or_resume(
        &self,
        session: &SessionId,
        prompt: &Rendered,
    ) -> Result<Finished, LoopError> {
        let mut run = Run::open(self, session, prompt, Resume::default()).await?;
        let driven = run_or_resume(&mut run, prompt).await;
        finish(run, session, driven).await
    }

    /// Runs a prompt, in a new session or from a checkpoint on.
    pub async fn evaluate(
        &self,
        prompt: &Rendered,
        resume_from: Option<&Checkpoint>,
        resume: Resume,
    ) -> Result<Finished, LoopError> {
        let new = || SessionId::from(format!("run-{}", uuid::Uuid::new_v4().simple()));
        let session = resume_from.map_or_else(new, |it| it.session.clone());
        if let Some(checkpoint) = resume_from {
            self.check(checkpoint).await?;
        }
        let mut run = Run::open(self, &session, prompt, resume).await?;
        let driven = drive(&mut run, prompt).await;
        finish(run, &session, driven).await
    }

    /// Checks that a checkpoint leads to what it was taken of.
    async fn check(&self, checkpoint: &Checkpoint) -> Result<(), LoopError> {
        let Some(log) = &checkpoint.log else { return Ok(()) };
        let unfit = |field: &str, reason: String| {
            Err(SnapshotRestoreError { field: field.to_owned(), reason }.into())
        };
        let session = &checkpoint.session;
        let Some(head) = self.store.head(session).await? else {
            return unfit("session", format!("session `{session}` is not in this store"));
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

async fn run_or_resume(run: &mut Run<'_>, prompt: &Rendered) -> Result<(), LoopError> {
    if run.state().last().is_some() {
        run.drive(Vec::new()).await?;
    }
    if was_said_last(run, prompt) {
        return Ok(());
    }
    run.begin_evaluation();
    run.drive(prompt.messages.clone()).await
}

/// Says whether nothing else was said since the prompt was.
fn was_said_last(run: &mut Run<'_>, prompt: &Rendered) -> bool {
    let said = |turn: &&Arc<ConversationTurn>| !turn.sent().messages.is_empty();
    let last = run.state().turns().filter(said).last();
    last.is_some_and(|turn| turn.sent().messages == prompt.messages)
}

/// Begins with the prompt, unless it was said before.
async fn drive(run: &mut Run<'_>, prompt: &Rendered) -> Result<(), LoopError> {
    let is_new = run.state().last().is_none();
    run.drive(if is_new { prompt.messages.clone() } else { Vec::new() }).await
}

async fn finish(
    mut run: Run<'_>,
    session: &SessionId,
    driven: Result<(), LoopError>,
) -> Result<Finished, LoopError> {
    let state = run.state().clone();
    let troubles = close(&mut run).await;
    driven?;
    let answer = state.last().and_then(|turn| turn.answer());
    let last = answer.map(|answer| answer.message.clone());
    Ok(Finished {
        stop_reason: answer.and_then(|answer| answer.stop_reason.clone()),
        session: session.clone(),
        message: last.unwrap_or_else(|| ConversationMessage::new(Role::Assistant)),
        history: state.history(),
        turns: state.turns().len() as u64,
        troubles,
    })
}

/// Leaves the session to others. What goes wrong there hides neither an output nor the cause of
/// its absence.
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

/// Runs requests of one prompt: each to its end, and each once at a time.
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

    /// Runs a request: goes on with a run of it that is not finished, or begins one.
    ///
    /// What goes wrong after its end is told as [`Progress::Trouble`]. While its checkpoint cannot
    /// be cleared, the request is answered with what this run gave.
    pub async fn run(&self, request: &P::Request) -> Result<P::Output, LoopError> {
        self.run_with(request, Resume::default()).await
    }

    /// Runs a request, with what was decided about calls that were in doubt.
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
        let mut run = Run::open(&self.agent_loop, &checkpoint.session, &rendered, resume).await?;
        run.keep_checkpoints(&*self.checkpoints, &key);
        let driven = self.drive(&mut run, &rendered).await;
        let mut troubles = close(&mut run).await;
        let output = driven?;
        if let Err(error) = self.checkpoints.clear(&key).await {
            troubles.push(with_causes(&error));
        }
        for trouble in troubles {
            self.agent_loop.tell(&Progress::Trouble(trouble));
        }
        Ok(output)
    }

    /// Returns the rendered prompt, with what the answer must look like.
    fn render(&self, request: &P::Request) -> Rendered {
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

    async fn drive(&self, run: &mut Run<'_>, rendered: &Rendered) -> Result<P::Output, LoopError> {
        drive(run, rendered).await?;
        let error = match read_answer(run) {
            Ok(output) => return Ok(output),
            Err(error) => error,
        };
        if was_given_back(run) {
            return Err(error.into());
        }
        let mut again = ConversationMessage::text(Role::User, &complaint(&error));
        again.message_id = Some(COMPLAINT.into());
        run.drive(vec![again]).await?;
        Ok(read_answer(run)?)
    }
}

fn read_answer<O: Output>(run: &mut Run<'_>) -> Result<O, crate::output::OutputError> {
    let last = run.state().last().and_then(|turn| turn.assistant_message().cloned());
    O::read(&last.map(|message| message.to_text()).unwrap_or_default())
}

/// Says whether an answer that could not be read was given back already.
fn was_given_back(run: &mut Run<'_>) -> bool {
    let is_complaint = |message: &ConversationMessage| {
        message.message_id.as_ref().is_some_and(|id| id.as_str() == COMPLAINT)
    };
    run.state().turns().any(|turn| turn.sent().messages.iter().any(is_complaint))
}

/// Returns a request's JSON, for those who name runs themselves.
impl RunKey {
    /// Returns the name of the runs of a request that is JSON.
    pub fn of_json(namespace: &str, key: &str, request: &Json) -> Self {
        crate::prompt::run_key(namespace, key, request)
    }
}
