//! Random disconnects and restarts of a real server, while a session grows from two sources. The
//! tests run a share; `cargo xtask soak serve` runs all of it, and writes the report.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use threadfold_client::{Client, FollowedSession, SessionMirror};
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;

use crate::env::TestEnv;
use crate::serve::{ONE, Serving, transcript};

/// How much is done, if a soak asks for more.
const DISCONNECTS: &str = "THREADFOLD_SOAK_DISCONNECTS";
const RESTARTS: &str = "THREADFOLD_SOAK_RESTARTS";
const KILLS: &str = "THREADFOLD_SOAK_KILLS";
/// Where the report is written.
const REPORT: &str = "THREADFOLD_SOAK_REPORT";

fn asked(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

/// Returns numbers that look random, the same in every run.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |most| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % most
    }
}

/// The two sources of the session.
struct Sources {
    /// The lines that the agent's file gets one after another.
    lines: Vec<String>,
    appended: usize,
    /// How many bytes and lines were pushed.
    pushed: (u64, u64),
}

impl Sources {
    fn append(&mut self, env: &TestEnv) {
        let path = env.path(&format!("claude/projects/-work-project/{ONE}.jsonl"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(self.lines[self.appended].as_bytes()).unwrap();
        self.appended += 1;
    }

    fn push(&mut self, runtime: &Runtime, client: &Client) {
        let block = json!({"id": format!("p{}", self.pushed.1), "type": "assistant_text", "content": "pushed", "status": "complete"});
        let line = format!("{}\n", json!({"type": "block:upsert", "payload": {"block": block}}));
        let bytes = Bytes::from(line.clone());
        let outcome = retry(|| {
            runtime.block_on(client.push(ONE, "soak", self.pushed.0, bytes.clone(), false))
        });
        self.pushed = (self.pushed.0 + line.len() as u64, self.pushed.1 + 1);
        assert_eq!(outcome.position, self.pushed.0);
    }
}

fn retry<T>(mut attempt: impl FnMut() -> Result<T, threadfold_client::ClientError>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) if start.elapsed() < Duration::from_secs(60) => {
                assert!(error.is_temporary() || error.to_string().contains("409"), "{error}");
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Connects a WebSocket with a new ticket, reads some frames, and drops it.
async fn glance(server: &Serving, mirror: &mut SessionMirror, frames: u64) {
    let ticket = server.post("/v1/tickets")["ticket"].as_str().unwrap().to_owned();
    let url = format!("{}/v1/live?ticket={ticket}", server.address.replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let after = mirror.cursor().map(ToString::to_string);
    let subscribe = json!({"type": "subscribe", "sessionId": ONE, "view": "events", "reducer": 1, "after": after});
    socket.send(Message::text(subscribe.to_string())).await.unwrap();
    for _ in 0..frames {
        let next = tokio::time::timeout(Duration::from_millis(300), socket.next()).await;
        // It may have everything.
        let Ok(Some(Ok(Message::Text(text)))) = next else { return };
        mirror.apply(&serde_json::from_str(&text).unwrap()).unwrap();
    }
}

/// Reads some changes over SSE, and disconnects.
async fn look(followed: &mut FollowedSession, changes: u64) {
    for _ in 0..changes {
        let next = tokio::time::timeout(Duration::from_millis(300), followed.next()).await;
        let Ok(next) = next else { break };
        next.unwrap();
    }
    followed.disconnect();
}

/// Returns how many records of sources the session has. How often the server observed that the file
/// grew depends on when it looked.
fn records(server: &Serving) -> u64 {
    let log = server.text(&format!("/v1/sessions/{ONE}/log"));
    let is_of_source = |line: &&str| !line.contains(r#""kind":"observation""#);
    log.lines().filter(is_of_source).count() as u64
}

#[test]
fn clients_that_disconnect_and_servers_that_are_killed_leave_no_gap() {
    let disconnects = asked(DISCONNECTS, 40);
    let restarts = asked(RESTARTS, 4);
    let kills = asked(KILLS, 2);
    let env = TestEnv::new();
    let begun = Instant::now();
    let text = transcript(ONE, usize::try_from(disconnects).unwrap() + 10);
    let lines = text.split_inclusive('\n').map(str::to_owned).collect();
    let mut sources = Sources { lines, appended: 0, pushed: (0, 0) };
    sources.append(&env);
    sources.append(&env);
    let (runtime, mut random) = (Runtime::new().unwrap(), numbers(15));
    let mut server = Serving::start(&env);
    server.wait("/v1/status", |it| it["import"]["isComplete"] == true);
    let mut socket_mirror = SessionMirror::default();
    let mut followed = server.client().follow(ONE);
    runtime.block_on(followed.next()).unwrap();
    let (mut done_restarts, mut done_kills, mut checks) = (0, 0, 0);
    for round in 0..disconnects {
        if round > 0 && round % disconnects.div_ceil(restarts + 1) == 0 {
            let address = match done_kills < kills {
                true => {
                    done_kills += 1;
                    server.kill()
                }
                false => server.stop_at(),
            };
            done_restarts += 1;
            server = Serving::start_on(&env, &address);
        }
        if random(2) == 0 {
            sources.append(&env);
        }
        sources.push(&runtime, &server.client());
        let amount = 1 + random(6);
        match round % 2 {
            0 => runtime.block_on(glance(&server, &mut socket_mirror, amount)),
            _ => runtime.block_on(look(&mut followed, amount)),
        }
        for mirror in [&socket_mirror, followed.mirror()] {
            let Some(cursor) = mirror.cursor() else { continue };
            let (_, hash) =
                retry(|| runtime.block_on(server.client().state_hash(ONE, Some(cursor.seq))));
            assert_eq!(mirror.state_hash(), hash, "at record {} in round {round}", cursor.seq);
            checks += 1;
        }
    }
    // A line of the file and one of the stream for each, and a declaration of either.
    let wanted = sources.appended as u64 + sources.pushed.1 + 2;
    server.wait(&format!("/v1/sessions/{ONE}"), |_| records(&server) >= wanted);
    assert_eq!(records(&server), wanted, "each line once");
    let (seq, hash) = runtime.block_on(server.client().state_hash(ONE, None)).unwrap();
    while followed.mirror().cursor().is_none_or(|it| it.seq < seq) {
        runtime.block_on(followed.next()).unwrap();
    }
    while socket_mirror.cursor().is_none_or(|it| it.seq < seq) {
        runtime.block_on(glance(&server, &mut socket_mirror, 1_000));
    }
    assert_eq!((followed.mirror().state_hash(), socket_mirror.state_hash()), (hash.clone(), hash));
    assert_eq!((followed.mirror().gaps(), socket_mirror.gaps()), (0, 0));
    if let Some(path) = std::env::var_os(REPORT) {
        let report = format!(
            "{disconnects} disconnects ({} over SSE, {} over WebSocket with a new ticket each)\n\
             {done_restarts} restarts of the server, {done_kills} of them by `kill -9`\n\
             {} records from two sources: {} lines of an agent's file, {} pushed lines\n\
             {checks} states compared with the server's by hash, at the record of each disconnect: all equal\n\
             0 gaps, every line once; {} seconds\n",
            disconnects / 2,
            disconnects.div_ceil(2),
            seq,
            sources.appended,
            sources.pushed.1,
            begun.elapsed().as_secs(),
        );
        fs::write(path, report).unwrap();
    }
}
