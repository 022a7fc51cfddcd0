//! A WebSocket: one connection for any number of sessions.
//!
//! The frames are shared with all other connections, and all that are pending are given to the
//! kernel in one vectored write. A connection is one task, without a queue and without a timer.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::StatusCode;
use bytes::{Buf, Bytes};
use serde::Deserialize;
use threadfold_core::SessionId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::problem::Problem;
use crate::pulse::Beat;
use crate::shared::ServerShared;
use crate::shared_log::{FramedEntry, Signal};
use crate::subscription::{SubscribeOptions, Subscription, error_entry};
use crate::summary_feed::SummarySubscription;
use crate::view_options::{parse_after, parse_view};
use crate::websocket_frame::{ClientMessage, FrameReader, close_frame, pong_frame};

/// How many bytes are taken from the logs at once: what a client that does not read can hold.
const MOST_PENDING: usize = 256 << 10;
/// How many frames one write has at most; the kernel takes no more than 1,024.
const MOST_SLICES: usize = 256;
/// How many beats of the pulse a client may read nothing before the connection is closed.
const MOST_STALLED_BEATS: u64 = 4;

/// What a client sends.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Command {
    Subscribe {
        session_id: SessionId,
        after: Option<String>,
        view: Option<String>,
        reducer: Option<u32>,
    },
    Unsubscribe {
        session_id: SessionId,
    },
    SubscribeSummaries {
        after: Option<String>,
    },
    UnsubscribeSummaries,
}

/// A WebSocket and its subscriptions.
pub(crate) struct LiveConnection<S> {
    stream: S,
    shared: Arc<ServerShared>,
    reader: FrameReader,
    signal: Arc<Signal>,
    beat: Beat,
    subscriptions: Vec<Subscription>,
    summaries: Option<SummarySubscription>,
    pending: VecDeque<Bytes>,
    pending_bytes: usize,
    /// There may be something to send.
    has_news: bool,
    /// Something was written since the last beat.
    is_active: bool,
    stalled_beats: u64,
    /// The connection ends when everything pending is written.
    is_closing: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> LiveConnection<S> {
    pub(crate) fn new(stream: S, shared: Arc<ServerShared>) -> Self {
        let signal = Arc::new(Signal::default());
        let beat = shared.pulse.join(&signal);
        shared.metrics.websockets.add(1);
        Self {
            stream,
            reader: FrameReader::default(),
            signal,
            beat,
            subscriptions: Vec::new(),
            summaries: None,
            pending: VecDeque::new(),
            pending_bytes: 0,
            has_news: false,
            is_active: true,
            stalled_beats: 0,
            is_closing: false,
            shared,
        }
    }

    /// Serves the connection until it ends.
    pub(crate) async fn run(mut self) {
        // How it ends is no error of the server: clients go away.
        let ended = poll_fn(|context| self.poll(context)).await;
        tracing::debug!(?ended, "a WebSocket ended");
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Poll::Ready(is_open) = self.poll_read(context)?
                && !is_open
            {
                return Poll::Ready(Ok(()));
            }
            let is_signalled = self.signal.take(context.waker());
            self.has_news |= is_signalled;
            if is_signalled && !self.follow_pulse() {
                return Poll::Ready(Ok(()));
            }
            if self.pending.is_empty() && self.has_news && !self.is_closing {
                self.fill();
            }
            let is_written = self.poll_write(context)?.is_ready();
            if is_written && self.is_closing {
                return Pin::new(&mut self.stream).poll_shutdown(context);
            }
            // Everything that this depends on wakes the task.
            if !(is_written && self.has_news) {
                return Poll::Pending;
            }
        }
    }

    /// Reads what the client sent, and returns whether it may send more.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut space = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(Ok(false)),
                Poll::Ready(Ok(())) if self.is_closing => {}
                Poll::Ready(Ok(())) => {
                    self.reader.extend(buffer.filled());
                    self.read_messages();
                }
            }
        }
    }

    fn read_messages(&mut self) {
        while !self.is_closing {
            match self.reader.next() {
                Ok(Some(ClientMessage::Text(text))) => {
                    if let Err((session, problem)) = self.obey(&text) {
                        self.push_frame(&error_entry(session.as_ref(), problem));
                    }
                }
                Ok(Some(ClientMessage::Ping(content))) => self.push(pong_frame(&content)),
                Ok(Some(ClientMessage::Pong)) => {}
                Ok(Some(ClientMessage::Close(code))) => self.close(close_frame(code, "")),
                Ok(None) => return,
                Err(violation) => self.close(close_frame(violation.code, violation.reason)),
            }
            // A client that asks faster than it reads answers is not served.
            if self.pending_bytes > MOST_PENDING {
                self.close(close_frame(1008, "the answers are not read"));
            }
        }
    }

    fn obey(&mut self, text: &str) -> Result<(), (Option<SessionId>, Problem)> {
        let command = serde_json::from_str(text).map_err(|error| {
            let hint = r#"send `{"type":"subscribe","sessionId":"…"}`"#;
            (None, Problem::bad_request(format!("the message is not understood: {error}"), hint))
        })?;
        match command {
            Command::Subscribe { session_id, after, view, reducer } => {
                let options = self.options(&session_id, after, view, reducer);
                let options = options.map_err(|problem| (Some(session_id.clone()), problem))?;
                self.subscriptions.retain(|it| it.session != session_id);
                let ServerShared { feeds, metrics, .. } = &*self.shared;
                self.subscriptions.push(Subscription::new(feeds, metrics, &self.signal, options));
            }
            Command::Unsubscribe { session_id } => {
                self.subscriptions.retain(|it| it.session != session_id);
            }
            Command::SubscribeSummaries { after } => {
                let feed = &self.shared.catalog.feed;
                self.summaries =
                    Some(SummarySubscription::new(feed, &self.signal, after.as_deref()));
            }
            Command::UnsubscribeSummaries => self.summaries = None,
        }
        Ok(())
    }

    fn options(
        &self,
        session: &SessionId,
        after: Option<String>,
        view: Option<String>,
        reducer: Option<u32>,
    ) -> Result<SubscribeOptions, Problem> {
        let most = self.shared.options.limits.subscriptions;
        let is_new = self.subscriptions.iter().all(|it| it.session != *session);
        if is_new && self.subscriptions.len() >= most {
            let detail = format!("the connection has {most} subscriptions already");
            let hint = "unsubscribe from another session first, or open another connection";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail, hint));
        }
        let (after, is_events) = (parse_after(after.as_deref())?, parse_view(view.as_deref())?);
        Ok(SubscribeOptions { session: session.clone(), after, is_events, reducer })
    }

    /// Takes what there is to send from the logs.
    fn fill(&mut self) {
        self.has_news = false;
        let mut entries: Vec<Arc<FramedEntry>> = Vec::new();
        let mut bytes = 0;
        if let Some(summaries) = &mut self.summaries {
            summaries.read(MOST_PENDING, &mut entries);
        }
        for subscription in &mut self.subscriptions {
            let before = entries.len();
            subscription.read(MOST_PENDING - bytes, &mut entries);
            bytes += entries[before..].iter().map(|it| it.websocket().len()).sum::<usize>();
            if bytes >= MOST_PENDING {
                // The next round starts with another one, so that none waits for a busy one.
                self.subscriptions.rotate_left(1);
                break;
            }
        }
        self.subscriptions.retain(|it| !it.is_ended());
        // Each of them may have more.
        self.has_news = !entries.is_empty();
        self.shared.metrics.deliveries.add(entries.len() as u64);
        for entry in &entries {
            self.push_frame(entry);
        }
    }

    /// Does what is due at a beat; returns whether the connection goes on.
    fn follow_pulse(&mut self) -> bool {
        if self.shared.pulse.is_closing() && !self.is_closing {
            self.close(close_frame(1001, "the server stops"));
        }
        if !self.beat.is_due(&self.shared.pulse) {
            return true;
        }
        let was_active = std::mem::take(&mut self.is_active);
        if !self.pending.is_empty() {
            self.stalled_beats = if was_active { 0 } else { self.stalled_beats + 1 };
            return self.stalled_beats < MOST_STALLED_BEATS;
        }
        self.stalled_beats = 0;
        if !was_active {
            let of_session = self.subscriptions.iter().find_map(Subscription::heartbeat);
            let summaries = self.summaries.as_ref();
            match of_session.or_else(|| summaries.map(SummarySubscription::heartbeat)) {
                Some(entry) => self.push_frame(&entry),
                // An empty ping.
                None => self.push(Bytes::from_static(&[0x89, 0])),
            }
        }
        true
    }

    fn close(&mut self, frame: Bytes) {
        self.push(frame);
        self.is_closing = true;
    }

    fn push_frame(&mut self, entry: &FramedEntry) {
        self.push(entry.websocket().clone());
    }

    fn push(&mut self, frame: Bytes) {
        self.pending_bytes += frame.len();
        self.pending.push_back(frame);
    }

    /// Writes everything pending; ready once nothing is left.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            self.shared.metrics.most_pending.raise(self.pending_bytes as u64);
            let mut slices = [IoSlice::new(&[]); MOST_SLICES];
            let mut count = 0;
            for (slice, frame) in slices.iter_mut().zip(&self.pending) {
                *slice = IoSlice::new(frame);
                count += 1;
            }
            let stream = Pin::new(&mut self.stream);
            let Poll::Ready(written) = stream.poll_write_vectored(context, &slices[..count]) else {
                return Poll::Pending;
            };
            let mut written = written?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_active = true;
            self.pending_bytes -= written;
            self.shared.metrics.delivered_bytes.add(written as u64);
            while let Some(first) = self.pending.front_mut() {
                if first.len() > written {
                    first.advance(written);
                    break;
                }
                written -= first.len();
                self.pending.pop_front();
            }
        }
        if self.pending.capacity() > 0 {
            self.pending = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S> Drop for LiveConnection<S> {
    fn drop(&mut self) {
        self.shared.metrics.websockets.subtract(1);
    }
}
