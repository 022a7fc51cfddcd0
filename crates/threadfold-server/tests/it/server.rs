//! A running server, and clients of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use threadfold_client::{Client, SessionMirror};
use threadfold_core::SessionEvent;
use threadfold_engine::{Frame, Host};
use threadfold_server::{Access, HostedSession, Limits, Server, ServerOptions, Token};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{MemoryStore, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub(crate) const TOKEN: &str = "a-token-of-a-test-server";

/// Returns an HTTP client.
pub(crate) fn http() -> reqwest::Client {
    threadfold_engine::http_client().unwrap().no_proxy().build().unwrap()
}

/// A running server.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl TestServer {
    /// Starts a server with a store in memory.
    pub(crate) async fn start() -> Self {
        Self::start_with(Arc::new(MemoryStore::default()), |_| {}).await
    }

    pub(crate) async fn start_with(
        store: Arc<dyn Store>,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(listener, store, change).await
    }

    pub(crate) async fn start_on(
        listener: TcpListener,
        store: Arc<dyn Store>,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let token = Token::new(TOKEN).unwrap();
        let mut options = ServerOptions::new(Access::bound(address, token));
        options.limits = Limits { idle: Duration::from_secs(600), ..Limits::default() };
        change(&mut options);
        let server = Server::new(Host::new(store), options);
        let (stop, stopped) = oneshot::channel();
        let serving = server.clone();
        let serving = tokio::spawn(async move {
            serving.serve(listener, async { stopped.await.unwrap_or_default() }).await.unwrap();
        });
        Self { address, server, stop: Some(stop), serving }
    }

    /// Stops the server, and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.serving.await.unwrap();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(""), Some(TOKEN.to_owned())).unwrap()
    }

    pub(crate) fn session(&self, id: &str) -> HostedSession {
        self.server.session(id)
    }

    /// Requests a path with the token, and returns status and body.
    pub(crate) async fn get(&self, path: &str) -> (u16, Vec<u8>) {
        let request = http().get(self.url(path)).bearer_auth(TOKEN);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    pub(crate) async fn ticket(&self) -> String {
        let request = http().post(self.url("/v1/tickets")).bearer_auth(TOKEN);
        let body = request.send().await.unwrap().bytes().await.unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["ticket"].as_str().unwrap().to_owned()
    }

    /// Opens a WebSocket with a new ticket.
    pub(crate) async fn live(&self) -> LiveClient {
        let ticket = self.ticket().await;
        let url = format!("ws://{}/v1/live?ticket={ticket}", self.address);
        // A snapshot is as large as its session.
        let config = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
        let connected = tokio_tungstenite::connect_async_with_config(url, Some(config), false);
        let (socket, _) = connected.await.unwrap();
        LiveClient { socket }
    }
}

/// A client with a WebSocket.
pub(crate) struct LiveClient {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl LiveClient {
    pub(crate) async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    pub(crate) async fn subscribe(&mut self, session: &str, after: Option<String>) {
        let message = json!({
            "type": "subscribe", "sessionId": session, "after": after, "view": "events", "reducer": 1,
        });
        self.send(message).await;
    }

    /// Returns the next text; nothing if the connection ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let message = tokio::time::timeout(Duration::from_secs(60), self.socket.next()).await;
            match message.expect("the server is silent")?.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Applies frames until the mirror is at a record.
    pub(crate) async fn follow(&mut self, mirror: &mut SessionMirror, seq: u64) {
        while mirror.cursor().is_none_or(|it| it.seq < seq) {
            let frame = self.next().await.expect("the connection ended");
            let frame: Frame = serde_json::from_value(frame).unwrap();
            let is_new = mirror.apply(&frame).unwrap();
            let is_record = matches!(frame, Frame::Events { .. });
            assert!(is_new || !is_record, "a record came twice: {frame:?}");
        }
    }
}

/// Returns a store in a file.
pub(crate) fn file_store(folder: &TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.path().join("store.db")).unwrap())
}

/// Returns an event that adds a block with a text.
pub(crate) fn block(id: &str, text: &str) -> SessionEvent {
    let block = json!({"id": id, "type": "assistant_text", "content": text, "status": "complete"});
    let event = json!({"type": "block:upsert", "payload": {"block": block}});
    SessionEvent::from_json(&event.to_string()).unwrap()
}

/// Emits blocks with these numbers, one record each.
pub(crate) async fn emit(session: &HostedSession, numbers: std::ops::Range<u64>) {
    for number in numbers {
        session.emit(&[block(&format!("b{number}"), &format!("text {number}"))]).await.unwrap();
    }
}
