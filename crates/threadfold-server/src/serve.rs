//! Serves a router on a listener: with limits for connections, headers and time, and an end that
//! lets requests finish.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::connection::{Connection, TakenPlace};
use crate::options::Limits;
use crate::server::Server;

/// How long requests may take to finish once the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(5);
/// How long to wait after a connection could not be accepted: most often, too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The answer to a client beyond the limit.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\ncontent-length: 0\r\n\
    connection: close\r\n\r\n";

impl Server {
    /// Serves clients until `stop` is done, then ends all streams and closes all sessions.
    pub async fn serve(
        &self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), threadfold_engine::EngineError> {
        self.serve_router(self.router(), listener, stop).await
    }

    /// Serves clients as [`serve`](Self::serve) does, with more routes beside the server's own.
    pub async fn serve_router(
        &self,
        router: Router,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), threadfold_engine::EngineError> {
        let limits = self.shared().options.limits;
        let places = Arc::new(Semaphore::new(limits.connections));
        let closing = watch::Sender::new(());
        // Closed once every connection has dropped its sender.
        let (open, mut ended) = mpsc::channel::<()>(1);
        let builder = connection_builder(&limits);
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stop => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = places.clone().try_acquire_owned() else {
                tokio::spawn(refuse(stream));
                continue;
            };
            // Deltas are small, and a person waits for each.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!("a connection was lost: {error}");
                continue;
            }
            let service = TowerToHyperService::new(router.clone());
            let place = TakenPlace::new(place, self.shared().clone());
            let stream = TokioIo::new(Connection::new(stream, place));
            let connection = builder.serve_connection(stream, service).with_upgrades();
            let (mut closing, open) = (closing.subscribe(), open.clone());
            tokio::spawn(async move {
                let mut connection = std::pin::pin!(connection);
                let ended = tokio::select! {
                    ended = connection.as_mut() => ended,
                    _ = closing.changed() => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                };
                if let Err(error) = ended {
                    tracing::debug!("a connection ended: {error}");
                }
                drop(open);
            });
        }
        drop(listener);
        let closed = self.close().await;
        closing.send_replace(());
        drop(open);
        if tokio::time::timeout(LAST_REQUESTS, ended.recv()).await.is_err() {
            tracing::warn!("some requests did not finish");
        }
        closed
    }
}

fn connection_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes.max(8 << 10));
    builder
}

/// Answers a client for which there is no place.
async fn refuse(mut stream: TcpStream) {
    // It may be gone already.
    let answer = tokio::time::timeout(Duration::from_secs(1), stream.write_all(FULL));
    if let Ok(Err(error)) = answer.await {
        tracing::debug!("a client beyond the limit was not answered: {error}");
    }
}
