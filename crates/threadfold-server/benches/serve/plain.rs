//! What one writes without a library: an axum WebSocket for each client, over a broadcast channel
//! for each session. Nothing is stored, and whoever is too slow loses events.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::broadcast;

use crate::events;
use crate::publisher::Publisher;

/// How many events a slow client may be behind.
const CAPACITY: usize = 4096;

/// The buffer for reading of a connection, in bytes: what the library chooses, and a small one.
pub(crate) const DEFAULT: usize = 128 << 10;
pub(crate) const SMALL: usize = 4 << 10;

#[derive(Clone)]
pub(crate) struct Plain<const BUFFER: usize> {
    sessions: Arc<Vec<broadcast::Sender<Utf8Bytes>>>,
    names: Arc<HashMap<String, usize>>,
}

impl<const BUFFER: usize> Publisher for Plain<BUFFER> {
    async fn start(listener: TcpListener, sessions: usize) -> io::Result<Self> {
        let channels = (0..sessions).map(|_| broadcast::channel(CAPACITY).0).collect();
        let names = (0..sessions).map(|it| (format!("s{it}"), it)).collect();
        let plain = Self { sessions: Arc::new(channels), names: Arc::new(names) };
        let router =
            Router::new().route("/v1/live", get(upgrade::<BUFFER>)).with_state(plain.clone());
        let listener =
            axum::serve::ListenerExt::tap_io(listener, |it| it.set_nodelay(true).unwrap_or(()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(plain)
    }

    async fn publish(&self, session: usize, first: u64, count: u64, bytes: usize) {
        for number in first..first + count {
            let frame = events::frame(&format!("s{session}"), number, bytes);
            // Without a subscriber, nobody misses it.
            self.sessions[session].send(frame.into()).ok();
        }
    }
}

async fn upgrade<const BUFFER: usize>(
    upgrade: WebSocketUpgrade,
    State(plain): State<Plain<BUFFER>>,
) -> Response {
    upgrade.read_buffer_size(BUFFER).on_upgrade(async move |socket| {
        // A client that goes away ends its task.
        serve(socket, plain).await.ok();
    })
}

async fn serve<const BUFFER: usize>(
    mut socket: WebSocket,
    plain: Plain<BUFFER>,
) -> Result<(), axum::Error> {
    let Some(subscribe) = socket.recv().await else { return Ok(()) };
    let subscribe: serde_json::Value =
        serde_json::from_str(subscribe?.to_text()?).map_err(axum::Error::new)?;
    let session = subscribe["sessionId"].as_str().and_then(|it| plain.names.get(it));
    let Some(session) = session else { return Ok(()) };
    let mut events = plain.sessions[*session].subscribe();
    socket.send(Message::text(r#"{"type":"snapshot"}"#)).await?;
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(event) => socket.send(Message::Text(event)).await?,
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    socket.send(Message::text(r#"{"type":"gap"}"#)).await?;
                }
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            },
            received = socket.recv() => match received {
                Some(received) => _ = received?,
                None => return Ok(()),
            },
        }
    }
}
