//! Sends the recorded request, with retries.

use std::time::Duration;

use bytes::Bytes;
use threadfold_core::{LogPayload, MessagePart, Payload};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Run;
use super::preview::Preview;
use crate::configuration::AgentLoop;
use crate::error::LoopError;
use crate::progress::Progress;
use crate::provider::{Answer, Delta, Deltas, ProviderError};

/// How often the preview of an incomplete answer is emitted.
const PREVIEW_INTERVAL: Duration = Duration::from_millis(200);

/// Why there is no answer.
enum AskError {
    Provider(ProviderError),
    Loop(LoopError),
}

impl Run<'_> {
    /// Requests the answer of the last turn, and records it.
    pub(super) async fn ask(&mut self, turn: u64) -> Result<(), LoopError> {
        let agent_loop = self.agent_loop;
        self.request.follow(self.recorder.get_mut().state());
        let body = self.request.body().clone();
        // A request recorded by another version of the program may break a rule that this one
        // knows.
        if !std::mem::take(&mut self.is_checked) {
            let violations = self.request.violations();
            if !violations.is_empty() {
                return Err(LoopError::Invalid(violations));
            }
        }
        agent_loop.report(&Progress::Asking { turn });
        let mut attempts = 0;
        loop {
            attempts += 1;
            let source = match self.ask_once(body.clone(), turn).await {
                Ok(()) => return Ok(()),
                Err(AskError::Loop(error)) => return Err(error),
                Err(AskError::Provider(error)) => error,
            };
            if !source.is_transient() || attempts >= agent_loop.retries.attempts {
                return Err(LoopError::Provider { attempts, source });
            }
            let after = agent_loop.retries.pause(attempts, source.retry_after());
            self.note(&source, after).await?;
            tokio::select! {
                () = self.stop.cancelled() => return Err(LoopError::Cancelled),
                () = sleep(after) => {}
            }
        }
    }

    async fn note(&mut self, error: &ProviderError, after: Duration) -> Result<(), LoopError> {
        let why = error.to_string();
        let message = format!("{why}; retrying in {after:.1?}");
        let log = LogPayload { level: Some("warn".into()), message: Some(message.into()) };
        self.recorder.get_mut().append(vec![Payload::Log(log)]).await?;
        self.agent_loop.report(&Progress::Retrying { why, after });
        Ok(())
    }

    async fn ask_once(&mut self, body: Bytes, turn: u64) -> Result<(), AskError> {
        let (agent_loop, stop) = (self.agent_loop, self.stop.clone());
        let recorder = self.recorder.get_mut();
        let mut preview = Preview::new(turn, recorder.cursor().seq);
        let (deltas, mut pieces) = Deltas::channel();
        let mut asking = agent_loop.provider.ask(body, &deltas);
        let mut shown = interval(PREVIEW_INTERVAL);
        shown.set_missed_tick_behavior(MissedTickBehavior::Delay);
        shown.reset();
        let answered: Result<Answer, ProviderError> = loop {
            tokio::select! {
                // Cancellation has priority, and deltas are reported before their answer.
                biased;
                () = stop.cancelled() => {
                    recorder.append(preview.interrupt()).await.map_err(AskError::Loop)?;
                    return Err(AskError::Loop(LoopError::Cancelled));
                }
                Some(delta) = pieces.recv() => {
                    preview.push(&delta);
                    agent_loop.report(&Progress::Delta(delta));
                }
                answered = &mut asking => break answered,
                _ = shown.tick(), if preview.has_updates() => {
                    recorder.append(preview.updates()).await.map_err(AskError::Loop)?;
                }
            }
        };
        drop(asking);
        while let Ok(delta) = pieces.try_recv() {
            preview.push(&delta);
            agent_loop.report(&Progress::Delta(delta));
        }
        match answered {
            Ok(answer) => {
                let calls = answer.message.tool_calls.len();
                let usage = answer.usage.clone();
                if !preview.has_text() {
                    report_text(agent_loop, &answer);
                }
                let recorded = recorder.answer_replacing(answer, preview.removals()).await;
                recorded.map_err(AskError::Loop)?;
                self.spent.add_answer(usage.as_ref());
                agent_loop.report(&Progress::Answered { turn, calls });
                Ok(())
            }
            Err(error) => {
                recorder.append(preview.interrupt()).await.map_err(AskError::Loop)?;
                Err(AskError::Provider(error))
            }
        }
    }
}

/// Reports the text of an answer that did not arrive in deltas.
fn report_text(agent_loop: &AgentLoop, answer: &Answer) {
    for (part, words) in answer.message.content.iter().map(MessagePart::to_text).enumerate() {
        if let Some(text) = words {
            agent_loop.report(&Progress::Delta(Delta::Text { part, text }));
        }
    }
}
