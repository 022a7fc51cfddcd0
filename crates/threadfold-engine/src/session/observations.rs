//! Observations: what only a follower sees of a session's server or transcript.

use std::sync::Arc;

use threadfold_core::{Json, Payload, SessionEvent};
use threadfold_fold::{
    EnvironmentState, Fold, Record, RecordKind, Step, TranscriptState, is_observation,
};

use super::Session;
use crate::error::EngineError;

impl Session {
    /// Records what a follower of the session observed: events `ee:*` and `transcript:*`.
    ///
    /// They are coalesced: what the session's state has already is not recorded again. Such a record
    /// belongs to no source, so it is in no conversation, no state hash and no original file. A run
    /// of our own loop has no followers, and takes none.
    pub async fn record_observations(
        &mut self,
        events: &[SessionEvent],
    ) -> Result<Vec<Arc<Step>>, EngineError> {
        if let Some(event) = events.iter().find(|it| !is_observation(it)) {
            return Err(EngineError::NotAnObservation { kind: event.payload.kind().to_owned() });
        }
        self.settle().await?;
        if self.fold.is_run() {
            return Err(EngineError::IsRun { session: self.id.clone() });
        }
        let news = events.iter().filter(|event| !is_known(&self.fold, event));
        let record = |event: &SessionEvent| {
            Record::new(RecordKind::Observation, 0, 0, Json::of(event).as_str().to_owned())
        };
        let records = news.map(record).collect();
        self.accept_any(records).await
    }
}

/// Returns whether the state of the session has an observation already.
fn is_known(fold: &Fold, event: &SessionEvent) -> bool {
    let kind = event.payload.kind();
    match &event.payload {
        Payload::TranscriptChanged(report) | Payload::TranscriptWritten(report) => {
            let key = report.file.as_deref().unwrap_or_default();
            let known = fold.items::<TranscriptState>().ok().and_then(|items| items.get(key));
            known.is_some_and(|it| it.event == kind && it.position == report.position)
        }
        Payload::EeCreating(report)
        | Payload::EeReady(report)
        | Payload::EeTerminated(report)
        | Payload::EeError(report)
        | Payload::EeHealthCheck(report) => {
            let known = fold.items::<EnvironmentState>().ok().and_then(|items| items.latest());
            known.is_some_and(|it| {
                (it.event.as_str(), &it.status, &it.error) == (kind, &report.status, &report.error)
            })
        }
        _ => false,
    }
}
