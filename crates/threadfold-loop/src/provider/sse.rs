//! Parses server-sent events from the lines of a body.
//!
//! The parser receives one line at a time, because it rescans its whole buffer on every input: a
//! long line in small chunks would take quadratic time.

use std::pin::Pin;
use std::time::Duration;

use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures_util::stream::{self, Stream, StreamExt};
use tokio::time::timeout;

use super::error::ProviderError;
use super::http::{Body, Endpoint};

/// How long to wait for the end of a body, so that its connection can be reused.
const END: Duration = Duration::from_millis(250);

type SseFields<'a> =
    Pin<Box<dyn Stream<Item = Result<Event, EventStreamError<ProviderError>>> + Send + 'a>>;

/// The events of a body.
pub(super) struct Events<'a> {
    endpoint: &'a Endpoint,
    parsed: SseFields<'a>,
}

impl<'a> Events<'a> {
    pub(super) fn new(body: Body<'a>) -> Self {
        let endpoint = body.endpoint();
        let lines = stream::try_unfold(body, |mut body| async move {
            Ok::<_, ProviderError>(body.line().await?.map(|line| (line, body)))
        });
        Self { endpoint, parsed: Box::pin(lines.eventsource()) }
    }

    /// Returns the data of the next non-empty event.
    pub(super) async fn next(&mut self) -> Option<Result<String, ProviderError>> {
        loop {
            let event = self.parsed.next().await?;
            return Some(match event {
                Ok(event) if event.data.trim().is_empty() => continue,
                Ok(event) => Ok(event.data),
                Err(EventStreamError::Transport(error)) => Err(error),
                Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_)) => {
                    Err(self.endpoint.broken("the response is not an event stream"))
                }
            });
        }
    }

    /// Waits briefly for the end of the body.
    pub(super) async fn finish(mut self) {
        let end = async { while let Some(Ok(_)) = self.parsed.next().await {} };
        if timeout(END, end).await.is_err() {
            // The connection is closed instead of reused.
        }
    }
}
