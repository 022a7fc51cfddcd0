//! Follows a session: folds its frames, over any number of connections, without a gap.

use threadfold_engine::Delivery;

use crate::client::Client;
use crate::error::ClientError;
use crate::frame_stream::FrameStream;
use crate::mirror::{MirrorError, SessionMirror};

/// A session that is followed.
pub struct FollowedSession {
    frames: FrameStream,
    mirror: SessionMirror,
}

/// What happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowEvent {
    /// Its state changed.
    Changed,
    /// Nothing more follows, for this reason.
    Ended(String),
}

impl FollowedSession {
    pub(crate) fn new(client: Client, session: String) -> Self {
        let frames = FrameStream::new(client, session, Delivery::Events, None);
        Self { frames, mirror: SessionMirror::default() }
    }

    /// Waits until the state changes. If the server goes away, reconnects until it is back.
    ///
    /// Fails only if another attempt would fail as well, and can be dropped at any time.
    pub async fn next(&mut self) -> Result<FollowEvent, ClientError> {
        loop {
            let (frame, _) = self.frames.next().await?;
            match self.mirror.apply(&frame) {
                Ok(true) => return Ok(FollowEvent::Changed),
                Ok(false) => {}
                // A server that was replaced may continue elsewhere: a snapshot settles it.
                Err(MirrorError::Gap { .. }) => {
                    self.frames.restart();
                    self.mirror = SessionMirror::default();
                }
                Err(error) => return Err(error.into()),
            }
            if let Some(reason) = self.mirror.end() {
                return Ok(FollowEvent::Ended(reason.to_owned()));
            }
        }
    }

    /// Ends the connection, as a broken network would. The next call reconnects.
    pub fn disconnect(&mut self) {
        self.frames.disconnect();
    }

    /// Returns the state so far.
    pub fn mirror(&self) -> &SessionMirror {
        &self.mirror
    }

    /// Returns how often it connected.
    pub fn connects(&self) -> u64 {
        self.frames.connects()
    }
}
