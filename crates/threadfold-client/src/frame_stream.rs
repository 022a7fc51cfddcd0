//! The frames of a session, over any number of connections.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Method, Response};
use threadfold_engine::{Delivery, Frame, REDUCER};

use crate::client::Client;
use crate::error::ClientError;
use crate::pause::Pauses;
use crate::sse::EventReader;

/// How long to wait for a sign of life: the server sends one every fifteen seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// The frames of a session. It reconnects after every interruption, from its last cursor.
pub struct FrameStream {
    client: Client,
    session: String,
    delivery: Delivery,
    cursor: Option<String>,
    connection: Option<Connection>,
    pauses: Pauses,
    /// Frames that were received and not returned.
    frames: VecDeque<(Frame, String)>,
    connects: u64,
}

struct Connection {
    response: Response,
    reader: EventReader,
}

impl FrameStream {
    pub(crate) fn new(
        client: Client,
        session: String,
        delivery: Delivery,
        after: Option<String>,
    ) -> Self {
        Self {
            client,
            session,
            delivery,
            cursor: after,
            connection: None,
            pauses: Pauses::default(),
            frames: VecDeque::new(),
            connects: 0,
        }
    }

    /// Waits for the next frame, and returns it with its JSON. If the server goes away, reconnects
    /// until it is back.
    ///
    /// Fails only if another attempt would fail as well, and can be dropped at any time.
    pub async fn next(&mut self) -> Result<(Frame, String), ClientError> {
        loop {
            if let Some((frame, json)) = self.frames.pop_front() {
                if let Some(cursor) = cursor_of(&frame) {
                    self.cursor = Some(cursor.to_owned());
                }
                return Ok((frame, json));
            }
            match self.receive().await {
                Ok(()) => {}
                Err(error) if error.is_temporary() => {
                    self.connection = None;
                    self.pauses.wait().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn receive(&mut self) -> Result<(), ClientError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let path = ["v1", "sessions", &self.session, "stream"];
                let mut request = self.client.request(Method::GET, &path);
                if self.delivery == Delivery::Events {
                    request = request.query(&[("view", "events")]).query(&[("reducer", REDUCER)]);
                }
                if let Some(cursor) = &self.cursor {
                    request = request.header("last-event-id", cursor);
                }
                let response = self.client.send(request).await?;
                self.connects += 1;
                none.insert(Connection { response, reader: EventReader::default() })
            }
        };
        let address = self.client.address().to_owned();
        let lost = |source| ClientError::Unreachable { address, source };
        let chunk = match tokio::time::timeout(SILENCE, connection.response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Err(lost("the stream ended".into())),
            Ok(Err(error)) => return Err(lost(Box::new(error.without_url()))),
            Err(elapsed) => return Err(lost(elapsed.into())),
        };
        self.pauses.reset();
        for json in connection.reader.push(&chunk) {
            match serde_json::from_str::<Frame>(&json) {
                Ok(frame) => self.frames.push_back((frame, json)),
                Err(error) => {
                    let refused = self.client.refused_frame(&json);
                    return Err(
                        refused.unwrap_or_else(|| self.client.odd(format!("{error}: {json}")))
                    );
                }
            }
        }
        Ok(())
    }

    /// Ends the connection, as a broken network would. The next call reconnects.
    pub fn disconnect(&mut self) {
        self.connection = None;
        self.frames.clear();
    }

    /// Begins again with a snapshot.
    pub(crate) fn restart(&mut self) {
        self.disconnect();
        self.cursor = None;
    }

    /// Returns how often it connected.
    pub fn connects(&self) -> u64 {
        self.connects
    }
}

/// Returns the cursor that a client has after a frame. A gap moves none: the snapshot does.
fn cursor_of(frame: &Frame) -> Option<&str> {
    match frame {
        Frame::Snapshot { cursor, .. }
        | Frame::Events { cursor, .. }
        | Frame::Changes { cursor, .. } => Some(cursor),
        _ => None,
    }
}
