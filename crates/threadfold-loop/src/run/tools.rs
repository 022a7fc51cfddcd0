//! Running tools: each call as the recovery table says, and in the ledger before and after.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use threadfold_core::{
    CallAction, CallId, PlannedCall, ResultSource, ResumePlan, ToolCallRecord, ToolIdempotencyError,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Run;
use super::room::{cut_short, cut_text};
use crate::agent_loop::Decision;
use crate::error::LoopError;
use crate::progress::Progress;
use crate::recorder::{Attempt, Origin};
use crate::tool::{ErrorOutcome, Probe, Tool, ToolContext, ToolError, ToolOutput};

/// What became of an attempt.
enum Ended {
    Gave(ToolOutput),
    Failed(String),
    /// Nobody knows what it did; the model is told.
    Unknown(String),
    /// Nobody knows what it did, and the run stops.
    Stopped(String),
}

impl Run<'_> {
    /// Sees to all calls of a turn, several at once.
    pub(super) async fn run_tools(&mut self, plan: ResumePlan) -> Result<(), LoopError> {
        let stop = self.stop.child_token();
        let run = &*self;
        let calls = plan.calls.into_iter().map(|planned| {
            let stop = &stop;
            async move {
                let seen_to = run.see_to(planned, stop).await;
                if matches!(seen_to, Err(ref error) if !waits_for_a_person(error)) {
                    stop.cancel();
                }
                seen_to
            }
        });
        let parallel = self.agent_loop.limits.parallel.max(1);
        let all: Vec<Result<(), LoopError>> =
            stream::iter(calls).buffer_unordered(parallel).collect().await;
        let mut undecided = Vec::new();
        for result in all {
            match result {
                Ok(()) => {}
                Err(LoopError::Undecided { calls }) => undecided.extend(calls),
                Err(error) => return Err(error),
            }
        }
        if undecided.is_empty() {
            return Ok(());
        }
        undecided.sort_by(|one, other| one.call.cmp(&other.call));
        Err(LoopError::Undecided { calls: undecided })
    }

    async fn see_to(
        &self,
        planned: PlannedCall,
        stop: &CancellationToken,
    ) -> Result<(), LoopError> {
        let PlannedCall { call, action } = planned;
        if matches!(action, CallAction::Replay) {
            return Ok(());
        }
        if let CallAction::ReportFailure { error } = &action {
            let text = error.to_text().unwrap_or_else(|| error.as_str().to_owned());
            return self.tell_failure(&call, text).await;
        }
        if call.attempt == 0 && self.cut_call().await.as_ref() == Some(&call.call_id) {
            return self.tell_cut(&call).await;
        }
        if let Some(decision) = self.resume.decisions.get(&call.call_id).cloned() {
            return self.obey(decision, &call, stop).await;
        }
        go_on_unless(stop)?;
        if let Err(error) = self.end_leftovers(&call).await? {
            let reason = format!("it may still be running: {error}");
            self.recorder.lock().await.unknown(&call.call_id, &reason).await?;
            return Err(undecided(question(&call)));
        }
        if let CallAction::Decide(error) = action {
            return Err(undecided(error));
        }
        let Some(tool) = self.agent_loop.find(&call.name).cloned() else {
            return self.tell_missing(&call).await;
        };
        match action {
            CallAction::Probe => self.probe(&call, &tool, stop).await,
            CallAction::UndoThenRun => {
                self.undo(&call, &tool, stop).await?;
                self.run_tool(&call, &tool, stop).await
            }
            _ => self.run_tool(&call, &tool, stop).await,
        }
    }

    /// Ends the processes that an attempt left running whose own process was killed; says why
    /// if they may still be there.
    async fn end_leftovers(
        &self,
        call: &ToolCallRecord,
    ) -> Result<Result<(), ToolError>, LoopError> {
        #[cfg(unix)]
        if call.attempt > 0 {
            let attempt = self.last_attempt(call).await?;
            return Ok(crate::builtin::end_leftovers(&attempt.key).await.map(|_| ()));
        }
        Ok(Ok(()))
    }

    /// Does what a person decided. Only what runs again needs that nobody is at work any more.
    async fn obey(
        &self,
        decision: Decision,
        call: &ToolCallRecord,
        stop: &CancellationToken,
    ) -> Result<(), LoopError> {
        let left = self.end_leftovers(call).await?;
        let output = match (decision, left) {
            (Decision::Retry, Err(source)) => {
                let (call, tool) = (call.call_id.clone(), call.name.clone());
                return Err(LoopError::StillRunning { call, tool, source });
            }
            (Decision::Retry, Ok(())) => match self.agent_loop.find(&call.name).cloned() {
                Some(tool) => return self.run_tool(call, &tool, stop).await,
                None => return self.tell_missing(call).await,
            },
            (Decision::Result(text), _) => ToolOutput::text(text),
            (Decision::GiveUp, left) => {
                let but = left.err().map(|error| format!("; {error}")).unwrap_or_default();
                let text = format!("the call was given up; its outcome is not known{but}");
                ToolOutput { is_error: true, ..ToolOutput::text(text) }
            }
        };
        self.finish(call, output, ResultSource::Person, None).await
    }

    /// Returns the call that stood last in an answer that was cut off: nobody knows whether it is
    /// whole.
    async fn cut_call(&self) -> Option<CallId> {
        let recorder = self.recorder.lock().await;
        let answer = recorder.state().last()?.answer()?;
        let is_cut = answer.stop_reason.as_deref().is_some_and(super::is_cut);
        answer.message.tool_calls.last().filter(|_| is_cut).map(|call| call.call_id.clone())
    }

    async fn tell_cut(&self, call: &ToolCallRecord) -> Result<(), LoopError> {
        let text = "the answer was cut off at this call, so it was not run; make it again";
        let output = ToolOutput { is_error: true, ..ToolOutput::text(text) };
        self.finish(call, output, ResultSource::Repair, None).await
    }

    async fn tell_missing(&self, call: &ToolCallRecord) -> Result<(), LoopError> {
        let names: Vec<_> = self.agent_loop.definitions().into_iter().map(|it| it.name).collect();
        let text = format!("there is no tool `{}`; there are: {}", call.name, names.join(", "));
        let output = ToolOutput { is_error: true, ..ToolOutput::text(text) };
        self.finish(call, output, ResultSource::Repair, None).await
    }

    async fn tell_failure(&self, call: &ToolCallRecord, text: String) -> Result<(), LoopError> {
        let output = ToolOutput { is_error: true, ..ToolOutput::text(text) };
        self.finish(call, output, ResultSource::Tool, None).await
    }

    async fn finish(
        &self,
        call: &ToolCallRecord,
        output: ToolOutput,
        source: ResultSource,
        duration: Option<Duration>,
    ) -> Result<(), LoopError> {
        let output = cut_short(output, &self.agent_loop.limits);
        let told = self.told(call, &output.to_text(), output.is_error);
        let origin = Origin { source, duration };
        self.recorder.lock().await.finished_by(&call.call_id, output, origin).await?;
        self.agent_loop.tell(&told);
        Ok(())
    }

    fn told(&self, call: &ToolCallRecord, output: &str, is_error: bool) -> Progress {
        Progress::ToolFinished {
            call: call.call_id.clone(),
            name: call.name.clone(),
            output: output.to_owned(),
            is_error,
        }
    }

    /// Asks a tool whether a call happened that was begun and of which no result was kept.
    async fn probe(
        &self,
        call: &ToolCallRecord,
        tool: &Arc<dyn Tool>,
        stop: &CancellationToken,
    ) -> Result<(), LoopError> {
        let attempt = self.last_attempt(call).await?;
        let context = self.context(call, &attempt, stop);
        let (asked, arguments) = (tool.clone(), call.arguments.clone());
        let probing = spawn(async move { asked.probe(&arguments, &context).await });
        match self.watched(probing, stop).await {
            Ok(Probe::Happened(output)) => {
                self.finish(call, output, ResultSource::Probe, None).await
            }
            Ok(Probe::DidNot) => self.run_tool(call, tool, stop).await,
            Ok(Probe::CannotTell) => Err(undecided(question(call))),
            Err(_) if stop.is_cancelled() => Err(LoopError::Cancelled),
            Err(error) => {
                let error = cut_text(&error.message, self.agent_loop.limits.output);
                let reason = format!("it could not be asked whether it happened: {error}");
                self.recorder.lock().await.unknown(&call.call_id, &reason).await?;
                Err(undecided(question(call)))
            }
        }
    }

    async fn undo(
        &self,
        call: &ToolCallRecord,
        tool: &Arc<dyn Tool>,
        stop: &CancellationToken,
    ) -> Result<(), LoopError> {
        let mut recorder = self.recorder.lock().await;
        go_on_unless(stop)?;
        let attempt = recorder.undoing(&call.call_id, tool.effect()).await?;
        drop(recorder);
        let context = self.context(call, &attempt, stop);
        let (asked, arguments) = (tool.clone(), call.arguments.clone());
        let undoing = spawn(async move { asked.undo(&arguments, &context).await });
        match self.watched(undoing, stop).await {
            Ok(()) => Ok(()),
            Err(_) if stop.is_cancelled() => Err(LoopError::Cancelled),
            Err(error) => {
                let error = cut_text(&error.message, self.agent_loop.limits.output);
                let reason = format!("what it did could not be undone: {error}");
                self.recorder.lock().await.unknown(&call.call_id, &reason).await?;
                Err(undecided(question(call)))
            }
        }
    }

    /// Returns what a tool says to a question about an attempt, if it says it in time.
    async fn watched<T>(
        &self,
        mut asking: AbortOnDropHandle<Result<T, ToolError>>,
        stop: &CancellationToken,
    ) -> Result<T, ToolError> {
        let asked = tokio::select! {
            () = stop.cancelled() => None,
            asked = timeout(self.agent_loop.limits.tool_time, &mut asking) => asked.ok(),
        };
        match asked {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => Err(ToolError::unknown("the tool panicked")),
            None => {
                asking.abort();
                Err(ToolError::unknown("it took too long"))
            }
        }
    }

    async fn last_attempt(&self, call: &ToolCallRecord) -> Result<Attempt, LoopError> {
        self.recorder.lock().await.last_attempt(&call.call_id).await
    }

    fn context(
        &self,
        call: &ToolCallRecord,
        attempt: &Attempt,
        stop: &CancellationToken,
    ) -> ToolContext {
        ToolContext {
            call_id: call.call_id.clone(),
            key: attempt.key.clone(),
            attempt: attempt.number,
            is_resume: call.attempt > 0,
            session: self.session.clone(),
            epoch: attempt.epoch,
            deadline: Instant::now().checked_add(self.agent_loop.limits.tool_time),
            cancel: stop.child_token(),
        }
    }

    /// Runs a tool, and records what it gave.
    async fn run_tool(
        &self,
        call: &ToolCallRecord,
        tool: &Arc<dyn Tool>,
        stop: &CancellationToken,
    ) -> Result<(), LoopError> {
        let mut recorder = self.recorder.lock().await;
        go_on_unless(stop)?;
        let attempt = recorder.started(&call.call_id, tool.effect()).await?;
        drop(recorder);
        self.agent_loop.tell(&Progress::ToolStarted {
            call: call.call_id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            attempt: attempt.number,
        });
        let context = self.context(call, &attempt, stop);
        let cancel = context.cancel.clone();
        let (run, arguments) = (tool.clone(), call.arguments.clone());
        let began = Instant::now();
        let running = spawn(async move { run.call(&arguments, &context).await });
        let ended = self.wait_for(running, stop, &cancel).await;
        let duration = Some(began.elapsed());
        let origin = Origin { source: ResultSource::Tool, duration };
        let id = &call.call_id;
        let mut recorder = self.recorder.lock().await;
        let told = match ended {
            Ended::Gave(output) => {
                drop(recorder);
                return self.finish(call, output, ResultSource::Tool, duration).await;
            }
            Ended::Failed(error) => {
                let error = cut_text(&error, self.agent_loop.limits.output);
                recorder.failed(id, &error, origin).await?;
                error
            }
            Ended::Unknown(reason) => {
                let reason = cut_text(&reason, self.agent_loop.limits.output);
                recorder.told_unknown(id, &reason, origin).await?;
                reason
            }
            Ended::Stopped(reason) => {
                recorder.unknown(id, &reason).await?;
                return Err(LoopError::Cancelled);
            }
        };
        drop(recorder);
        self.agent_loop.tell(&self.told(call, &told, true));
        Ok(())
    }

    /// Waits for a tool until it ends, its time is over, or the run is stopped.
    async fn wait_for(
        &self,
        mut running: AbortOnDropHandle<Result<ToolOutput, ToolError>>,
        stop: &CancellationToken,
        cancel: &CancellationToken,
    ) -> Ended {
        let limits = &self.agent_loop.limits;
        let in_time = tokio::select! {
            ended = timeout(limits.tool_time, &mut running) => ended.ok(),
            () = stop.cancelled() => None,
        };
        if let Some(ended) = in_time {
            return read(ended);
        }
        let is_stopped = stop.is_cancelled();
        cancel.cancel();
        let ended = timeout(limits.grace, &mut running).await;
        if let Ok(ended) = ended
            && let Ended::Gave(output) = read(ended)
        {
            return Ended::Gave(output);
        }
        running.abort();
        match is_stopped {
            true => Ended::Stopped("the run was stopped while it ran".to_owned()),
            false => Ended::Unknown(format!(
                "it was stopped after {:?}; what it did until then is not known",
                limits.tool_time
            )),
        }
    }
}

/// Has a tool do something on a task of its own, which ends with whoever waits for it.
fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> AbortOnDropHandle<T> {
    AbortOnDropHandle::new(tokio::spawn(work))
}

/// Says that a run was stopped, before something is begun that a resume would have to ask about.
fn go_on_unless(stop: &CancellationToken) -> Result<(), LoopError> {
    match stop.is_cancelled() {
        true => Err(LoopError::Cancelled),
        false => Ok(()),
    }
}

fn read(ended: Result<Result<ToolOutput, ToolError>, tokio::task::JoinError>) -> Ended {
    match ended {
        Ok(Ok(output)) => Ended::Gave(output),
        Ok(Err(ToolError { message, outcome: ErrorOutcome::Failed })) => Ended::Failed(message),
        Ok(Err(ToolError { message, outcome: ErrorOutcome::Unknown })) => Ended::Unknown(message),
        Err(error) => {
            let words = match error.try_into_panic() {
                Ok(panic) => panic_words(&*panic),
                Err(_) => "it was aborted".to_owned(),
            };
            Ended::Unknown(format!("the tool panicked ({words}); what it did is not known"))
        }
    }
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn question(call: &ToolCallRecord) -> ToolIdempotencyError {
    ToolIdempotencyError {
        call: call.call_id.clone(),
        tool: call.name.clone(),
        attempt: call.attempt,
    }
}

fn undecided(error: ToolIdempotencyError) -> LoopError {
    LoopError::Undecided { calls: vec![error] }
}

/// Says whether an error is about one call, and others may go on.
fn waits_for_a_person(error: &LoopError) -> bool {
    matches!(error, LoopError::Undecided { .. } | LoopError::StillRunning { .. })
}
