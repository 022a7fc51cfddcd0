//! Runs tools: performs the planned action for each call, and records it before and after.

use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, StreamExt};
use threadfold_core::{
    CallAction, CallId, PlannedCall, ResultSource, ResumePlan, ToolCallRecord, ToolIdempotencyError,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Run;
use super::truncate::{truncate_output, truncate_text};
use crate::configuration::Decision;
use crate::error::LoopError;
use crate::ledger::{Attempt, ResultOrigin};
use crate::progress::Progress;
use crate::tool::{ErrorOutcome, Probe, Tool, ToolContext, ToolError, ToolOutput};

/// How an attempt ended.
enum CallEnd {
    Output(ToolOutput),
    Failed(String),
    /// The outcome is unknown, and this is reported to the model.
    Unknown(String),
    /// The outcome is unknown, and the run stops.
    Stopped(String),
}

impl Run<'_> {
    /// Runs all calls of a turn, several in parallel.
    pub(super) async fn run_tools(&mut self, plan: ResumePlan) -> Result<(), LoopError> {
        let stop = self.stop.child_token();
        let run = &*self;
        let calls = plan.calls.into_iter().map(|planned| {
            let stop = &stop;
            async move {
                let result = run.run_call(planned, stop).await;
                // An error of the run itself stops the other calls; a call that needs a decision
                // does not.
                if matches!(result, Err(ref error) if !concerns_one_call(error)) {
                    stop.cancel();
                }
                result
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

    async fn run_call(
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
            return self.finish_failed(&call, text).await;
        }
        if call.attempt == 0 && self.cut_call().await.as_ref() == Some(&call.call_id) {
            return self.finish_truncated(&call).await;
        }
        if let Some(decision) = self.resume.decisions.get(&call.call_id).cloned() {
            return self.apply_decision(decision, &call, stop).await;
        }
        check_cancelled(stop)?;
        if let Err(error) = self.end_leftovers(&call).await? {
            let reason = format!("it may still be running: {error}");
            self.recorder.lock().await.mark_unknown(&call.call_id, &reason).await?;
            return Err(undecided(question(&call)));
        }
        if let CallAction::Decide(error) = action {
            return Err(undecided(error));
        }
        let Some(tool) = self.agent_loop.find(&call.name).cloned() else {
            return self.finish_missing(&call).await;
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

    /// Ends processes that an earlier attempt left behind when its own process was killed. Returns
    /// the reason if they may still be running.
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

    /// Applies a person's decision. Only a retry requires that nothing is running any more.
    async fn apply_decision(
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
                None => return self.finish_missing(call).await,
            },
            (Decision::Result(text), _) => ToolOutput::text(text),
            (Decision::GiveUp, left) => {
                let but = left.err().map(|error| format!("; {error}")).unwrap_or_default();
                let text = format!("the call was given up; its outcome is unknown{but}");
                ToolOutput::error(text)
            }
        };
        self.finish(call, output, ResultSource::Person.into()).await
    }

    /// Returns the last call of a truncated answer, which may be incomplete.
    async fn cut_call(&self) -> Option<CallId> {
        let recorder = self.recorder.lock().await;
        let answer = recorder.state().last()?.answer()?;
        let is_cut = answer.stop_reason.as_deref().is_some_and(super::is_cut);
        answer.message.tool_calls.last().filter(|_| is_cut).map(|call| call.call_id.clone())
    }

    async fn finish_truncated(&self, call: &ToolCallRecord) -> Result<(), LoopError> {
        let text = "the answer was truncated at this call, so it was not run; make the call again";
        let output = ToolOutput::error(text);
        self.finish(call, output, ResultSource::Repair.into()).await
    }

    async fn finish_missing(&self, call: &ToolCallRecord) -> Result<(), LoopError> {
        let names: Vec<_> = self.agent_loop.definitions().into_iter().map(|it| it.name).collect();
        let text =
            format!("there is no tool `{}`; available tools: {}", call.name, names.join(", "));
        let output = ToolOutput::error(text);
        self.finish(call, output, ResultSource::Repair.into()).await
    }

    async fn finish_failed(&self, call: &ToolCallRecord, text: String) -> Result<(), LoopError> {
        let output = ToolOutput::error(text);
        self.finish(call, output, ResultSource::Tool.into()).await
    }

    async fn finish(
        &self,
        call: &ToolCallRecord,
        output: ToolOutput,
        origin: ResultOrigin,
    ) -> Result<(), LoopError> {
        let output = truncate_output(output, &self.agent_loop.limits);
        let progress = tool_finished(call, &output);
        self.recorder.lock().await.finish_from(&call.call_id, output, origin).await?;
        self.agent_loop.report(&progress);
        Ok(())
    }

    /// Asks a tool whether a started call without a recorded result took effect.
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
        match self.await_reply(probing, stop).await {
            Ok(Probe::Happened(output)) => {
                self.finish(call, output, ResultSource::Probe.into()).await
            }
            Ok(Probe::DidNotHappen) => self.run_tool(call, tool, stop).await,
            Ok(Probe::Unknown) => Err(undecided(question(call))),
            Err(_) if stop.is_cancelled() => Err(LoopError::Cancelled),
            Err(error) => {
                let error = truncate_text(&error.message, self.agent_loop.limits.output);
                let reason = format!("the probe of its outcome failed: {error}");
                self.recorder.lock().await.mark_unknown(&call.call_id, &reason).await?;
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
        // Checked while the recorder is locked: once the start is recorded, a resume would have to
        // treat the call as started.
        check_cancelled(stop)?;
        let attempt = recorder.start_undo(&call.call_id, tool.effect()).await?;
        drop(recorder);
        let context = self.context(call, &attempt, stop);
        let (asked, arguments) = (tool.clone(), call.arguments.clone());
        let undoing = spawn(async move { asked.undo(&arguments, &context).await });
        match self.await_reply(undoing, stop).await {
            Ok(()) => Ok(()),
            Err(_) if stop.is_cancelled() => Err(LoopError::Cancelled),
            Err(error) => {
                let error = truncate_text(&error.message, self.agent_loop.limits.output);
                let reason = format!("the undo failed: {error}");
                self.recorder.lock().await.mark_unknown(&call.call_id, &reason).await?;
                Err(undecided(question(call)))
            }
        }
    }

    /// Waits for a tool's answer about an attempt, up to the time limit.
    async fn await_reply<T>(
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
                Err(ToolError::unknown("the tool took too long"))
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

    /// Runs a tool and records its result.
    async fn run_tool(
        &self,
        call: &ToolCallRecord,
        tool: &Arc<dyn Tool>,
        stop: &CancellationToken,
    ) -> Result<(), LoopError> {
        let mut recorder = self.recorder.lock().await;
        // Checked while the recorder is locked: once the start is recorded, a resume would have to
        // treat the call as started.
        check_cancelled(stop)?;
        let attempt = recorder.start(&call.call_id, tool.effect()).await?;
        drop(recorder);
        self.agent_loop.report(&Progress::ToolStarted {
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
        let origin = ResultOrigin { source: ResultSource::Tool, duration };
        let id = &call.call_id;
        let mut recorder = self.recorder.lock().await;
        let output = match ended {
            CallEnd::Output(output) => {
                drop(recorder);
                return self.finish(call, output, origin).await;
            }
            CallEnd::Failed(error) => {
                let error = truncate_text(&error, self.agent_loop.limits.output);
                recorder.fail(id, &error, origin).await?;
                error
            }
            CallEnd::Unknown(reason) => {
                let reason = truncate_text(&reason, self.agent_loop.limits.output);
                recorder.finish_unknown(id, &reason, origin).await?;
                reason
            }
            CallEnd::Stopped(reason) => {
                recorder.mark_unknown(id, &reason).await?;
                return Err(LoopError::Cancelled);
            }
        };
        drop(recorder);
        self.agent_loop.report(&tool_finished(call, &ToolOutput::error(output)));
        Ok(())
    }

    /// Waits until a tool ends, its time is up, or the run is stopped.
    async fn wait_for(
        &self,
        mut running: AbortOnDropHandle<Result<ToolOutput, ToolError>>,
        stop: &CancellationToken,
        cancel: &CancellationToken,
    ) -> CallEnd {
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
        // A tool that reacts to the cancellation in time still delivers its result.
        let ended = timeout(limits.grace, &mut running).await;
        if let Ok(ended) = ended
            && let CallEnd::Output(output) = read(ended)
        {
            return CallEnd::Output(output);
        }
        running.abort();
        match is_stopped {
            true => CallEnd::Stopped("the run was stopped while the tool was running".to_owned()),
            false => CallEnd::Unknown(format!(
                "the tool was stopped after {:?}; its effects so far are unknown",
                limits.tool_time
            )),
        }
    }
}

fn tool_finished(call: &ToolCallRecord, output: &ToolOutput) -> Progress {
    Progress::ToolFinished {
        call: call.call_id.clone(),
        name: call.name.clone(),
        output: output.to_text(),
        is_error: output.is_error,
    }
}

/// Spawns a task for a tool. The task is aborted when its handle is dropped.
fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> AbortOnDropHandle<T> {
    AbortOnDropHandle::new(tokio::spawn(work))
}

/// Returns an error if the run was stopped. Called before anything that a resume would have to ask
/// about.
fn check_cancelled(stop: &CancellationToken) -> Result<(), LoopError> {
    match stop.is_cancelled() {
        true => Err(LoopError::Cancelled),
        false => Ok(()),
    }
}

fn read(ended: Result<Result<ToolOutput, ToolError>, tokio::task::JoinError>) -> CallEnd {
    match ended {
        Ok(Ok(output)) => CallEnd::Output(output),
        Ok(Err(ToolError { message, outcome: ErrorOutcome::Failed })) => CallEnd::Failed(message),
        Ok(Err(ToolError { message, outcome: ErrorOutcome::Unknown })) => CallEnd::Unknown(message),
        Err(error) => {
            let words = match error.try_into_panic() {
                Ok(panic) => panic_message(&*panic),
                Err(_) => "the task was aborted".to_owned(),
            };
            CallEnd::Unknown(format!("the tool panicked ({words}); its effects are unknown"))
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
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

/// Returns true if an error concerns only one call, so that the others may continue.
fn concerns_one_call(error: &LoopError) -> bool {
    matches!(error, LoopError::Undecided { .. } | LoopError::StillRunning { .. })
}
