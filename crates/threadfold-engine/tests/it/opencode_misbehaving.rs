//! Misbehaving OpenCode servers.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use threadfold_core::{SessionEvent, SessionId};
use threadfold_engine::agents::opencode::{OpencodeServer, ServerSession};
use threadfold_engine::{ServerError, Session};
use threadfold_fold::{RecordKind, StoredRecord};
use threadfold_store::{Limit, MemoryStore, Store};
use tokio::sync::oneshot;

use crate::recordings::open;

/// How long something may take that is not waited for.
const LIMIT: Duration = Duration::from_secs(20);

/// What is answered to a path: the body, and whether the connection is held open behind it.
type Answer = (String, Hold);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// The whole answer, and the end.
    No,
    /// As if there were more to come.
    AfterBody,
    /// As if there had been more to come, and the end.
    Cut,
    /// Before there is any answer.
    BeforeHead,
}

/// Starts a server, and returns it with the paths that it was asked for.
fn serve(
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> (OpencodeServer, Receiver<(String, Instant)>) {
    serve_until(Arc::default(), answer)
}

/// Starts a server that stops listening after the connection that follows `is_over`.
fn serve_until(
    is_over: Arc<AtomicBool>,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> (OpencodeServer, Receiver<(String, Instant)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, asked) = mpsc::channel();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (answer, send) = (answer.clone(), send.clone());
            let is_over = is_over.load(Ordering::Relaxed);
            thread::spawn(move || speak(client, &*answer, &send));
            if is_over {
                return;
            }
        }
    });
    (OpencodeServer::new(&format!("http://{address}")).unwrap(), asked)
}

fn speak(
    mut client: TcpStream,
    answer: &dyn Fn(&str) -> Answer,
    asked: &Sender<(String, Instant)>,
) {
    let mut request = BufReader::new(client.try_clone().unwrap()).lines();
    let Some(Ok(first)) = request.next() else { return };
    let path = first.split(['?', ' ']).nth(1).unwrap_or_default().to_owned();
    request.map_while(Result::ok).find(|line| line.is_empty());
    drop(asked.send((path.clone(), Instant::now())));
    let (body, held) = answer(&path);
    let is_short = matches!(held, Hold::AfterBody | Hold::Cut);
    let length = body.len() + if is_short { 1_000 } else { 0 };
    if held != Hold::BeforeHead {
        let head =
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        // The client may be gone.
        drop(client.write_all(format!("{head}{body}").as_bytes()));
    }
    if matches!(held, Hold::AfterBody | Hold::BeforeHead) {
        thread::sleep(LIMIT);
    }
}

const MESSAGES: &str = r#"[{"info":{"id":"msg_1","sessionID":"ses_1","role":"assistant"},"parts":[{"id":"prt_1","messageID":"msg_1","sessionID":"ses_1","type":"text","text":"TEXT"}]}]"#;

fn told(path: &str) -> String {
    match path {
        "/session/ses_1" => r#"{"id":"ses_1","directory":"/"}"#.to_owned(),
        "/session/ses_1/message" => MESSAGES.to_owned(),
        "/event" => String::new(),
        _ => "[]".to_owned(),
    }
}

/// Follows a server until `stop` returns.
async fn follow(
    server: OpencodeServer,
    store: &Arc<dyn Store>,
    stop: impl FnOnce() + Send + 'static,
) -> Session {
    let mut session = open(store, &SessionId::from("ses_1")).await;
    let of: ServerSession = server.session("ses_1").await.unwrap();
    let (send, stopped) = oneshot::channel::<()>();
    thread::spawn(move || {
        stop();
        drop(send);
    });
    let stopped = async { drop(stopped.await) };
    let following = server.follow(&mut session, &of, stopped);
    tokio::time::timeout(LIMIT, following).await.expect("it is to be stopped").unwrap();
    session
}

async fn records(store: &Arc<dyn Store>) -> Vec<StoredRecord> {
    store.read(&"ses_1".into(), 0, Limit::default()).await.unwrap()
}

async fn lines(store: &Arc<dyn Store>) -> Vec<String> {
    let lines = records(store).await.into_iter().filter(|it| it.kind == RecordKind::Line);
    lines.map(|it| String::from_utf8(it.bytes.to_vec()).unwrap()).collect()
}

/// Waits until the bus was asked for so many times, and returns when that was.
fn connections(asked: &Receiver<(String, Instant)>, count: usize) -> Vec<Instant> {
    let mut times = Vec::new();
    while times.len() < count {
        let (path, time) = asked.recv_timeout(LIMIT).unwrap();
        if path == "/event" {
            times.push(time);
        }
    }
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnects_to_a_failing_server_back_off_and_repeat_no_event() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (server, asked) = serve(|path| (told(path), Hold::No));
    let (send, times) = oneshot::channel();
    let stop = move || drop(send.send(connections(&asked, 4)));
    follow(server.clone(), &store, stop).await.close().await.unwrap();
    let times = times.await.unwrap();
    assert!(times[3] - times[2] >= Duration::from_millis(800), "{times:?}");
    assert_eq!(lines(&store).await.len(), 3, "a session, a message, a part");
    let before = records(&store).await;
    assert_eq!(before.len(), 5, "a source, the lines, and that it cannot be heard: {before:?}");

    let (server, asked) = serve(|path| (told(path), Hold::No));
    let stop = move || drop(connections(&asked, 2));
    follow(server, &store, stop).await.close().await.unwrap();
    assert_eq!(lines(&store).await.len(), 3, "who begins anew knows it, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_returns_to_an_earlier_value_is_emitted_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let bus = r#"data: {"type":"message.part.updated","properties":{"part":{"id":"prt_1","messageID":"msg_1","sessionID":"ses_1","type":"text","text":"ANOTHER"}}}"#;
    let (server, asked) = serve(move |path| match path {
        "/event" => (format!("{bus}\n\n"), Hold::No),
        _ => (told(path), Hold::No),
    });
    let stop = move || drop(connections(&asked, 3));
    follow(server, &store, stop).await;
    let parts = lines(&store).await.into_iter().filter(|line| line.contains("prt_1"));
    let texts: Vec<bool> = parts.take(4).map(|line| line.contains("ANOTHER")).collect();
    assert_eq!(texts, [false, true, false, true]);
}

/// The event of a bus, so that it counts as connected.
const HEARTBEAT: &str = "data: {\"type\":\"server.heartbeat\",\"properties\":{}}\n\n";

/// Returns the types of the observations in the log.
async fn observed(store: &Arc<dyn Store>) -> Vec<String> {
    let is_observation = |it: &StoredRecord| it.kind == RecordKind::Observation;
    let observations = records(store).await.into_iter().filter(is_observation);
    observations
        .map(|it| {
            let event = std::str::from_utf8(&it.bytes).unwrap();
            SessionEvent::from_json(event).unwrap().payload.kind().to_owned()
        })
        .collect()
}

/// Follows a server until the log has an observation of this type.
async fn follow_until(server: OpencodeServer, kind: &str) -> Vec<String> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &SessionId::from("ses_1")).await;
    let of: ServerSession = server.session("ses_1").await.unwrap();
    let stop = async {
        while !observed(&store).await.iter().any(|it| it == kind) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let following = server.follow(&mut session, &of, stop);
    tokio::time::timeout(LIMIT, following).await.expect("it is observed").unwrap();
    observed(&store).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_ready_then_out_of_reach_or_terminated() {
    let bus = |held| {
        move |path: &str| match path {
            "/event" => (HEARTBEAT.to_owned(), held),
            _ => (told(path), Hold::No),
        }
    };
    let (server, _asked) = serve(bus(Hold::No));
    assert_eq!(follow_until(server, "ee:terminated").await, ["ee:ready", "ee:terminated"]);

    let (server, _asked) = serve(bus(Hold::AfterBody));
    let server = server.with_silence(Duration::from_millis(200));
    assert_eq!(follow_until(server, "ee:error").await, ["ee:ready", "ee:error"]);

    // The connection breaks, and after that nothing listens any more.
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, connections) = (is_over.clone(), AtomicUsize::new(0));
    let (server, _asked) = serve_until(is_over, move |path| {
        if path == "/event" {
            over.store(connections.fetch_add(1, Ordering::Relaxed) > 0, Ordering::Relaxed);
        }
        bus(Hold::Cut)(path)
    });
    let seen = follow_until(server, "ee:terminated").await;
    assert_eq!(seen, ["ee:ready", "ee:error", "ee:terminated"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cyclic_child_sessions_are_requested_once() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (server, asked) = serve(|path| {
        let body = match path {
            "/session/ses_1/children" => r#"[{"id":"ses_2"},{"id":"ses_1"}]"#.to_owned(),
            "/session/ses_2/children" => r#"[{"id":"ses_1"}]"#.to_owned(),
            "/session/ses_2" => r#"{"id":"ses_2","parentID":"ses_1","directory":"/"}"#.to_owned(),
            _ => told(path),
        };
        (body, Hold::No)
    });
    let stop = move || drop(connections(&asked, 2));
    follow(server, &store, stop).await;
    assert_eq!(lines(&store).await.len(), 4, "two sessions, a message, a part");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_not_waited_for() {
    for held in [Hold::BeforeHead, Hold::AfterBody] {
        let (server, _asked) = serve(move |_| ("[".to_owned(), held));
        let server = server.with_silence(Duration::from_millis(100));
        let answer = tokio::time::timeout(LIMIT / 2, server.sessions()).await.unwrap();
        assert!(matches!(answer, Err(ServerError::Silent { .. })), "{answer:?}");
    }
}
