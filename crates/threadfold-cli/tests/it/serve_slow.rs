//! A client that does not read costs the server little. The tests run a share; `cargo xtask bench
//! serve slow` measures all of it, with the latency of the others.

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::env::TestEnv;
use crate::serve::Serving;

const READING: usize = 8;
/// Until so many events, a new server fills its own buffers and compacts the end of the log for the
/// first time, with or without a client that does not read.
const WARM_UP: u64 = 600;
const EVENTS: u64 = WARM_UP + 1_000;
const EVENT: usize = 30 << 10;
/// As much as the server may hold for one client.
const MOST_HELD: u64 = 1 << 20;
/// As much as it may grow afterwards, by events of 30 MB that one client does not read.
const MOST_GROWN: u64 = 8_000_000;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn subscribe(server: &Serving) -> Socket {
    let ticket = server.post("/v1/tickets")["ticket"].as_str().unwrap().to_owned();
    let url = format!("{}/v1/live?ticket={ticket}", server.address.replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let subscribe = json!({"type": "subscribe", "sessionId": "s", "view": "events", "reducer": 1});
    socket.send(Message::text(subscribe.to_string())).await.unwrap();
    let first = socket.next().await.unwrap().unwrap();
    assert!(first.to_text().unwrap().starts_with(r#"{"type":"snapshot""#), "{first}");
    socket
}

/// Reads until so many events were received, each once and in order.
async fn read_all(mut socket: Socket) {
    let mut received = 0;
    while received < EVENTS {
        let next = tokio::time::timeout(Duration::from_secs(60), socket.next()).await;
        let message = next.expect("the server is silent").unwrap().unwrap();
        let Message::Text(text) = message else { continue };
        if text.starts_with(r#"{"type":"heartbeat""#) {
            continue;
        }
        assert!(text.contains(&format!(r#""id":"b{received}""#)), "{}", &text[..200]);
        received += 1;
    }
}

fn line(number: u64) -> String {
    let text = "x".repeat(EVENT);
    let block = json!({"id": format!("b{number}"), "type": "assistant_text", "content": text, "status": "complete"});
    format!("{}\n", json!({"type": "block:upsert", "payload": {"block": block}}))
}

#[test]
fn a_stalled_client_is_bounded_and_the_others_receive_everything() {
    let env = TestEnv::new();
    let server = Serving::start(&env);
    let client = server.client();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let first = format!("{}\n", json!({"type": "session:idle"}));
        let mut position =
            client.push("s", "p", 0, Bytes::from(first), false).await.unwrap().position;
        let stalled = subscribe(&server).await;
        let mut reading = Vec::new();
        for _ in 0..READING {
            reading.push(tokio::spawn(read_all(subscribe(&server).await)));
        }
        let (mut before, mut most) = (0, 0);
        for number in 0..EVENTS {
            if number == WARM_UP {
                before = server.resident_bytes();
            }
            let bytes = Bytes::from(line(number));
            position = client.push("s", "p", position, bytes, false).await.unwrap().position;
            most = most.max(server.resident_bytes());
        }
        for task in reading {
            task.await.unwrap();
        }
        let metrics = server.text("/metrics");
        let held = metrics.lines().find_map(|it| it.strip_prefix("threadfold_pending_bytes_max "));
        let held: u64 = held.unwrap().parse().unwrap();
        assert!(held <= MOST_HELD, "{held} bytes were held for one client");
        let sent = position * (READING as u64 + 1);
        assert!(delivered(&metrics) < sent, "the stalled client received everything: {metrics}");
        let grown = most - before;
        assert!(grown <= MOST_GROWN, "the server grew by {grown} bytes");
        drop(stalled);
    });
}

fn delivered(metrics: &str) -> u64 {
    let line = metrics.lines().find_map(|it| it.strip_prefix("threadfold_delivered_bytes_total "));
    line.unwrap().parse().unwrap()
}

impl Serving {
    /// Returns the resident memory of the server.
    fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }
}
