//! The state of a server as its follower observes it: ready, terminated, or out of reach.

use threadfold_core::{EnvironmentPayload, Json, Payload, SessionEvent};
use threadfold_fold::with_causes;

use crate::error::EngineError;
use crate::server::ServerError;
use crate::session::Session;

/// What was observed of a server across connections.
#[derive(Default)]
pub(super) struct ServerEnvironment {
    /// The server was connected at least once.
    was_ready: bool,
    /// The server has terminated, and does not answer since.
    is_terminated: bool,
}

/// How a connection ended.
pub(super) struct Disconnect {
    pub(super) has_received: bool,
    cause: DisconnectCause,
    why: String,
}

/// Who ended a connection.
#[derive(Clone, Copy)]
enum DisconnectCause {
    /// The server closed it.
    Closed,
    /// Nothing listens at the server's address.
    Refused,
    /// Anything else, such as a broken network.
    Failed,
}

impl Disconnect {
    pub(super) fn after(has_received: bool, why: &ServerError) -> Self {
        let cause = match why.is_refused() {
            true => DisconnectCause::Refused,
            false => DisconnectCause::Failed,
        };
        Self { has_received, cause, why: with_causes(why) }
    }

    pub(super) fn by_server(has_received: bool) -> Self {
        let why = "the connection was closed".to_owned();
        Self { has_received, cause: DisconnectCause::Closed, why }
    }
}

impl ServerEnvironment {
    /// Records that the server is connected.
    pub(super) async fn record_connection(
        &mut self,
        session: &mut Session,
    ) -> Result<(), EngineError> {
        *self = Self { was_ready: true, is_terminated: false };
        let (status, error) = (Some("connected to OpenCode".into()), None);
        let ready = Payload::EeReady(EnvironmentPayload { status, error });
        session.record_observations(&[SessionEvent::new(ready)]).await.map(drop)
    }

    /// Records that the connection ended: the server terminated, or cannot be reached.
    pub(super) async fn record_disconnect(
        &mut self,
        session: &mut Session,
        end: &Disconnect,
    ) -> Result<(), EngineError> {
        // A server that was there and does not listen any more has terminated; however the attempts
        // to reach it fail after that, it still has.
        let has_ended = match end.cause {
            DisconnectCause::Closed => true,
            DisconnectCause::Refused => self.was_ready,
            DisconnectCause::Failed => false,
        };
        if self.is_terminated {
            return Ok(());
        }
        self.is_terminated = has_ended;
        let payload = if has_ended {
            let status = Some("the OpenCode server terminated".into());
            Payload::EeTerminated(EnvironmentPayload { status, error: None })
        } else {
            let status = Some("the OpenCode server cannot be reached".into());
            let error = Some(Json::string(&end.why));
            Payload::EeError(EnvironmentPayload { status, error })
        };
        session.record_observations(&[SessionEvent::new(payload)]).await.map(drop)
    }
}
