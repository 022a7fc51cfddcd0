//! Server-sent events: the body of a response that does not end, over the same shared frames as a
//! WebSocket.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;

use crate::pulse::Beat;
use crate::shared::ServerShared;
use crate::shared_log::{FramedEntry, Signal};
use crate::subscription::Subscription;
use crate::summary_feed::SummarySubscription;

/// How many bytes are taken from the log at once.
const MOST_PENDING: usize = 64 << 10;

/// What a stream of events is about.
pub(crate) enum EventSource {
    Session(Subscription),
    Summaries(SummarySubscription),
}

/// The body of a stream of events.
pub(crate) struct EventStream {
    source: EventSource,
    shared: Arc<ServerShared>,
    signal: Arc<Signal>,
    beat: Beat,
    pending: std::vec::IntoIter<Arc<FramedEntry>>,
    is_active: bool,
    has_news: bool,
}

impl EventStream {
    /// Returns the response with the events of a source, which sets the signal.
    pub(crate) fn respond(
        shared: &Arc<ServerShared>,
        signal: Arc<Signal>,
        source: EventSource,
    ) -> Response {
        shared.metrics.event_streams.add(1);
        let stream = Self {
            source,
            beat: shared.pulse.join(&signal),
            shared: shared.clone(),
            signal,
            pending: Vec::new().into_iter(),
            is_active: true,
            has_news: true,
        };
        let mut response = Response::new(Body::new(stream));
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, kind);
        // A proxy that buffers would hold events back.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(entry) = self.pending.next() {
                self.is_active = true;
                self.shared.metrics.deliveries.add(1);
                let event = entry.event().clone();
                self.shared.metrics.delivered_bytes.add(event.len() as u64);
                return Poll::Ready(Some(event));
            }
            if self.source.is_ended() || self.shared.pulse.is_closing() {
                return Poll::Ready(None);
            }
            let is_signalled = self.signal.take(context.waker());
            if !(is_signalled | std::mem::take(&mut self.has_news)) {
                return Poll::Pending;
            }
            let mut entries = Vec::new();
            self.source.read(&mut entries);
            let is_due = self.beat.is_due(&self.shared.pulse);
            if is_due && !std::mem::take(&mut self.is_active) && entries.is_empty() {
                entries.extend(self.source.heartbeat());
            }
            // There may be more than was taken.
            self.has_news = !entries.is_empty();
            self.pending = entries.into_iter();
        }
    }
}

impl EventSource {
    fn read(&mut self, entries: &mut Vec<Arc<FramedEntry>>) {
        match self {
            Self::Session(subscription) => subscription.read(MOST_PENDING, entries),
            Self::Summaries(subscription) => subscription.read(MOST_PENDING, entries),
        }
    }

    fn heartbeat(&self) -> Option<Arc<FramedEntry>> {
        match self {
            Self::Session(subscription) => subscription.heartbeat(),
            Self::Summaries(subscription) => Some(subscription.heartbeat()),
        }
    }

    fn is_ended(&self) -> bool {
        match self {
            Self::Session(subscription) => subscription.is_ended(),
            Self::Summaries(_) => false,
        }
    }
}

impl http_body::Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.next(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.shared.metrics.event_streams.subtract(1);
    }
}
