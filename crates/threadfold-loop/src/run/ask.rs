//! Asking the model: the recorded bytes, as often as it takes.

use std::time::Duration;

use bytes::Bytes;
use threadfold_core::{LogPayload, MessagePart, Payload};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Run;
use super::preview::Preview;
use crate::agent_loop::AgentLoop;
use crate::error::LoopError;
use crate::progress::Progress;
use crate::provider::{Answer, Delta, Deltas, ProviderError};
use crate::request::request;

/// How often an answer that is being made is shown to others.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Why there is no answer.
enum NoAnswer {
    Provider(ProviderError),
    Loop(LoopError),
}

impl Run<'_> {
    /// Asks for the answer of the turn that was begun last, and records it.
    pub(super) async fn ask(&mut self, turn: u64) -> Result<(), LoopError> {
        let agent_loop = self.agent_loop;
        let body = request(self.setup.dialect, self.recorder.get_mut().state());
        if !std::mem::take(&mut self.is_checked) {
            let violations = self.setup.dialect.check(&body);
            if !violations.is_empty() {
                return Err(LoopError::Invalid(violations));
            }
        }
        agent_loop.tell(&Progress::Asking { turn });
        let mut attempts = 0;
        loop {
            attempts += 1;
            let source = match self.ask_once(body.clone(), turn).await {
                Ok(()) => return Ok(()),
                Err(NoAnswer::Loop(error)) => return Err(error),
                Err(NoAnswer::Provider(error)) => error,
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
        let message = format!("{why}; asking again in {after:.1?}");
        let log = LogPayload { level: Some("warn".into()), message: Some(message.into()) };
        self.recorder.get_mut().say(vec![Payload::Log(log)]).await?;
        self.agent_loop.tell(&Progress::AskingAgain { why, after });
        Ok(())
    }

    async fn ask_once(&mut self, body: Bytes, turn: u64) -> Result<(), NoAnswer> {
        let (agent_loop, stop) = (self.agent_loop, self.stop.clone());
        let recorder = self.recorder.get_mut();
        let mut preview = Preview::new(turn, recorder.cursor().seq);
        let (deltas, mut pieces) = Deltas::channel();
        let mut asking = agent_loop.provider.ask(body, &deltas);
        let mut shown = interval(SHOWN_EVERY);
        shown.set_missed_tick_behavior(MissedTickBehavior::Delay);
        shown.reset();
        let answered: Result<Answer, ProviderError> = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    recorder.say(preview.break_off()).await.map_err(NoAnswer::Loop)?;
                    return Err(NoAnswer::Loop(LoopError::Cancelled));
                }
                Some(delta) = pieces.recv() => {
                    preview.hear(&delta);
                    agent_loop.tell(&Progress::Delta(delta));
                }
                answered = &mut asking => break answered,
                _ = shown.tick(), if preview.has_news() => {
                    recorder.say(preview.news()).await.map_err(NoAnswer::Loop)?;
                }
            }
        };
        drop(asking);
        while let Ok(delta) = pieces.try_recv() {
            preview.hear(&delta);
            agent_loop.tell(&Progress::Delta(delta));
        }
        match answered {
            Ok(answer) => {
                let calls = answer.message.tool_calls.len();
                let usage = answer.usage.clone();
                if !preview.has_words() {
                    tell_words(agent_loop, &answer);
                }
                let recorded = recorder.answer_instead_of(answer, preview.take_back()).await;
                recorded.map_err(NoAnswer::Loop)?;
                self.spent.add_answer(usage.as_ref());
                agent_loop.tell(&Progress::Answered { turn, calls });
                Ok(())
            }
            Err(error) => {
                recorder.say(preview.break_off()).await.map_err(NoAnswer::Loop)?;
                Err(NoAnswer::Provider(error))
            }
        }
    }
}

/// Shows the words of an answer that came in one piece.
fn tell_words(agent_loop: &AgentLoop, answer: &Answer) {
    for (part, words) in answer.message.content.iter().map(MessagePart::to_text).enumerate() {
        if let Some(text) = words {
            agent_loop.tell(&Progress::Delta(Delta::Text { part, text }));
        }
    }
}
