//! Clients that follow a session in threads of their own, while the server is killed and restarted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use threadfold_client::SessionMirror;
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;

use crate::serve::{ServerAddress, Serving};

/// How long a client waits for a frame before it looks whether it has enough.
const LOOK: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(50);

/// A client of one session.
pub(crate) struct LiveClient {
    /// The record to end at; 0 while the session goes on.
    end: Arc<AtomicU64>,
    thread: JoinHandle<SessionMirror>,
}

impl LiveClient {
    /// Follows a session with the client of this project, over server-sent events.
    pub(crate) fn over_events(server: &Serving, id: &str) -> Self {
        let mut followed = server.client().follow(id);
        Self::start(move |end| {
            Runtime::new().unwrap().block_on(async {
                while !is_at(followed.mirror(), end) {
                    if let Ok(next) = tokio::time::timeout(LOOK, followed.next()).await {
                        next.unwrap();
                    }
                }
            });
            followed.mirror().clone()
        })
    }

    /// Follows a session over a WebSocket, with a new ticket for each connection.
    pub(crate) fn over_websocket(server: &Serving, id: &str) -> Self {
        let (server, id) = (server.at(), id.to_owned());
        Self::start(move |end| {
            let (runtime, mut mirror) = (Runtime::new().unwrap(), SessionMirror::default());
            while !is_at(&mirror, end) {
                // The server may be gone for a while.
                if runtime.block_on(follow(&server, &id, &mut mirror, end)).is_none() {
                    thread::sleep(PAUSE);
                }
            }
            mirror
        })
    }

    fn start(run: impl FnOnce(&AtomicU64) -> SessionMirror + Send + 'static) -> Self {
        let end = Arc::new(AtomicU64::new(0));
        let shared = end.clone();
        Self { end, thread: thread::spawn(move || run(&shared)) }
    }

    /// Waits until the client has a record, and returns what it has.
    pub(crate) fn finish(self, seq: u64) -> SessionMirror {
        self.end.store(seq, Ordering::Release);
        self.thread.join().unwrap()
    }
}

fn is_at(mirror: &SessionMirror, end: &AtomicU64) -> bool {
    let end = end.load(Ordering::Acquire);
    end > 0 && mirror.cursor().is_some_and(|it| it.seq >= end)
}

/// Follows a session over one connection; nothing if that ended.
async fn follow(
    server: &ServerAddress,
    id: &str,
    mirror: &mut SessionMirror,
    end: &AtomicU64,
) -> Option<()> {
    let ticket = server.try_post("/v1/tickets")?["ticket"].as_str()?.to_owned();
    let url = format!("{}/v1/live?ticket={ticket}", server.address.replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.ok()?;
    let after = mirror.cursor().map(ToString::to_string);
    let subscribe = json!({"type": "subscribe", "sessionId": id, "view": "events", "reducer": 1, "after": after});
    socket.send(Message::text(subscribe.to_string())).await.ok()?;
    while !is_at(mirror, end) {
        let Ok(next) = tokio::time::timeout(LOOK, socket.next()).await else { continue };
        if let Message::Text(text) = next?.ok()? {
            mirror.apply(&serde_json::from_str(&text).unwrap()).unwrap();
        }
    }
    Some(())
}
