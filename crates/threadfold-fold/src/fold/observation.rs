//! Observations: what only a follower of a session can see, such as the state of an agent's server.

use threadfold_core::{Payload, SessionEvent};

/// Returns whether a follower may record an event of this type as its observation.
///
/// The list is short on purpose: none of these events reaches a conversation or a ledger, so a
/// forged observation changes nothing but what is shown of a server or a file.
pub fn is_observation(event: &SessionEvent) -> bool {
    matches!(
        event.payload,
        Payload::EeCreating(_)
            | Payload::EeReady(_)
            | Payload::EeTerminated(_)
            | Payload::EeError(_)
            | Payload::EeHealthCheck(_)
            | Payload::TranscriptChanged(_)
            | Payload::TranscriptWritten(_)
    )
}

/// Reads an observation, or returns why it is none.
pub(super) fn read(bytes: &[u8]) -> Result<SessionEvent, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("an observation cannot be read: {error}"))?;
    let event = SessionEvent::from_json(text)
        .map_err(|error| format!("an observation cannot be read: {error}"))?;
    match is_observation(&event) {
        true => Ok(event),
        false => Err(format!("`{}` is not an observation of a follower", event.payload.kind())),
    }
}
