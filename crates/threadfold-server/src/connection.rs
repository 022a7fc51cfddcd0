//! A client's connection: it has a place for as long as it is open, and it ends so that the client
//! can read the last answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use crate::shared::ServerShared;

/// How long a client may go on sending after the last answer, and how much.
const LAST_BYTES_TIME: Duration = Duration::from_millis(500);
const LAST_BYTES: usize = 1 << 20;

/// A place among the connections, until it is dropped. A WebSocket keeps it.
pub(crate) struct TakenPlace {
    _place: OwnedSemaphorePermit,
    shared: Arc<ServerShared>,
}

impl TakenPlace {
    pub(crate) fn new(place: OwnedSemaphorePermit, shared: Arc<ServerShared>) -> Self {
        shared.metrics.connections.add(1);
        Self { _place: place, shared }
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        self.shared.metrics.connections.subtract(1);
    }
}

/// A connection that takes a place for as long as it is open.
pub(crate) struct Connection {
    stream: TcpStream,
    /// What is read and dropped before the connection is closed.
    last_bytes: LastBytes,
    _place: TakenPlace,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, place: TakenPlace) -> Self {
        Self { stream, last_bytes: LastBytes::default(), _place: place }
    }
}

/// Reads what a client still sends once everything is answered.
///
/// To close a connection with unread bytes resets it, and the client may lose the answer: it would
/// see a broken connection where it was told that its request is too large.
#[derive(Default)]
struct LastBytes {
    deadline: Option<Pin<Box<Sleep>>>,
    count: usize,
}

impl LastBytes {
    fn poll_read_all(
        &mut self,
        stream: &mut TcpStream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(LAST_BYTES_TIME)));
        let mut bytes = [0; 4096];
        while self.count < LAST_BYTES && deadline.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut bytes);
            // A client that has reset the connection reads nothing any more.
            if ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer)).is_err() {
                break;
            }
            match buffer.filled().len() {
                0 => break,
                count => self.count += count,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, last_bytes, .. } = &mut *self;
        if last_bytes.deadline.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
        }
        last_bytes.poll_read_all(stream, context)
    }
}
