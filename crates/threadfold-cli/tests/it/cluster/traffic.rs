//! Agents that push and clients that follow, whatever happens to the servers in between; and the
//! check of what the log has in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use threadfold_client::{Client, FollowEvent, FollowedSession, Pauses};
use threadfold_core::SessionId;
use threadfold_engine::load;
use threadfold_fold::{RecordKind, Slices};
use threadfold_postgres::PostgresStore;
use threadfold_store::{Limit, Store};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// How long everything may take to come to rest after the last fault.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a push may take before it is sent again.
const PUSH_WITHIN: Duration = Duration::from_secs(20);

/// What is pushed and followed.
#[derive(Clone, Copy)]
pub(crate) struct TrafficOptions {
    pub(crate) sessions: usize,
    /// The pause of an agent between two lines.
    pub(crate) pause: Duration,
    /// Whether every session has a client that follows it.
    pub(crate) is_followed: bool,
}

/// Agents and clients.
pub(crate) struct Traffic {
    agents: Vec<Agent>,
    clients: Vec<JoinHandle<FollowedSession>>,
    /// The agents are to stop.
    is_ending: Arc<AtomicBool>,
    /// They have.
    is_ended: Arc<AtomicBool>,
}

/// An agent that pushes lines to a session.
struct Agent {
    session: String,
    /// How many lines were acknowledged.
    acknowledged: Arc<AtomicU64>,
    task: JoinHandle<()>,
    /// The records that were checked before, and its lines among them.
    checked: (u64, u64),
    /// The number of its stream in the session, which others may write as well.
    source: Option<u32>,
}

/// What a check found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrafficCount {
    pub(crate) records: u64,
    pub(crate) lines: u64,
    pub(crate) gaps: u64,
    pub(crate) connects: u64,
}

fn line(session: &str, number: u64) -> String {
    let content = format!("line {number} of {session}");
    let block = json!({"id": format!("b{number}"), "type": "assistant_text", "content": content, "status": "complete"});
    format!("{}\n", json!({"type": "block:upsert", "payload": {"block": block}}))
}

impl Traffic {
    /// Starts agents and clients; `clients` gives each agent and each client its own connections.
    pub(crate) fn start(
        runtime: &Runtime,
        options: TrafficOptions,
        client: impl Fn(usize) -> Client,
    ) -> Self {
        let (mut agents, mut clients) = (Vec::new(), Vec::new());
        let (is_ending, is_ended): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
        for number in 0..options.sessions {
            let session = format!("live-{number:03}");
            let acknowledged = Arc::new(AtomicU64::new(0));
            let pushing = PushTask {
                client: client(number),
                session: session.clone(),
                pause: options.pause,
                acknowledged: acknowledged.clone(),
                is_ending: is_ending.clone(),
            };
            let task = runtime.spawn(pushing.run());
            if options.is_followed {
                let (client, id) = (client(number), session.clone());
                let (acknowledged, is_ended) = (acknowledged.clone(), is_ended.clone());
                clients.push(runtime.spawn(follow(client, id, acknowledged, is_ended)));
            }
            agents.push(Agent { session, acknowledged, task, checked: (0, 0), source: None });
        }
        Self { agents, clients, is_ending, is_ended }
    }

    /// Returns how many lines were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.agents.iter().map(|it| it.acknowledged.load(Ordering::SeqCst)).sum()
    }

    /// Waits until so many more lines were acknowledged.
    pub(crate) fn wait_for(&self, more: u64) {
        let (start, wanted) = (Instant::now(), self.acknowledged() + more);
        while self.acknowledged() < wanted {
            assert!(start.elapsed() < PATIENCE, "nothing is acknowledged any more");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Checks that everything that was acknowledged is in the log: once, in its order, without a gap.
    pub(crate) async fn check(&mut self, store: &dyn Store) -> Result<TrafficCount, String> {
        let mut count = TrafficCount::default();
        for agent in &mut self.agents {
            // Before it is read: what is acknowledged meanwhile need not be there yet.
            let acknowledged = agent.acknowledged.load(Ordering::SeqCst);
            agent.check(store).await?;
            let (records, lines) = agent.checked;
            if lines < acknowledged {
                let session = &agent.session;
                return Err(format!("{session}: {acknowledged} acknowledged, {lines} stored"));
            }
            count.records += records;
            count.lines += lines;
        }
        Ok(count)
    }

    /// Ends all pushes, waits until all clients have everything, and compares them with the log.
    pub(crate) fn finish(mut self, runtime: &Runtime, url: &str) -> Result<TrafficCount, String> {
        self.is_ending.store(true, Ordering::SeqCst);
        runtime.block_on(async {
            for agent in &mut self.agents {
                let ended = tokio::time::timeout(PATIENCE, &mut agent.task).await;
                let ended = ended.map_err(|_| format!("{} cannot be pushed", agent.session))?;
                ended.map_err(|error| error.to_string())?;
            }
            self.is_ended.store(true, Ordering::SeqCst);
            let store: Arc<dyn Store> =
                Arc::new(PostgresStore::open(&url.parse().unwrap()).await.unwrap());
            let mut count = self.check(&*store).await?;
            for (agent, client) in self.agents.iter().zip(std::mem::take(&mut self.clients)) {
                let late = || format!("a client of {} has not everything", agent.session);
                let client = tokio::time::timeout(PATIENCE, client).await.map_err(|_| late())?;
                let client = client.map_err(|error| error.to_string())?;
                let id = SessionId::from(agent.session.as_str());
                let at = client.mirror().cursor().map_or(0, |it| it.seq);
                let loaded = load(&store, &id, at, Slices::default()).await.unwrap();
                let folded = loaded.fold.conversation().hash().to_string();
                if client.mirror().state_hash() != folded {
                    return Err(format!("a client of {id} has another state than its log"));
                }
                let blocks = client.mirror().state().blocks().len() as u64;
                if blocks != agent.acknowledged.load(Ordering::SeqCst) {
                    return Err(format!("a client of {id} has {blocks} blocks"));
                }
                count.gaps += client.mirror().gaps();
                count.connects += client.connects();
            }
            Ok(count)
        })
    }
}

impl Agent {
    /// Reads what is new in the log, and compares it with what was pushed.
    async fn check(&mut self, store: &dyn Store) -> Result<(), String> {
        let id = SessionId::from(self.session.as_str());
        loop {
            let (seq, _) = self.checked;
            let read = store.read(&id, seq, Limit::default()).await;
            let records = match read {
                Err(threadfold_store::StoreError::NotFound { .. }) => return Ok(()),
                read => read.map_err(|error| threadfold_fold::with_causes(&error))?,
            };
            if records.is_empty() {
                return Ok(());
            }
            for stored in records {
                let (seq, lines) = &mut self.checked;
                *seq += 1;
                if stored.seq != *seq {
                    return Err(format!("{id}: record {} follows {}", stored.seq, *seq - 1));
                }
                let is_line = stored.record.kind == RecordKind::Line;
                if is_line
                    && *self.source.get_or_insert(stored.record.source) == stored.record.source
                {
                    if stored.record.bytes != line(&self.session, *lines).as_bytes() {
                        let found = String::from_utf8_lossy(&stored.record.bytes).into_owned();
                        return Err(format!("{id}: line {lines} is {found}"));
                    }
                    *lines += 1;
                }
            }
        }
    }
}

struct PushTask {
    client: Client,
    session: String,
    pause: Duration,
    acknowledged: Arc<AtomicU64>,
    is_ending: Arc<AtomicBool>,
}

impl PushTask {
    /// Pushes lines until the end; each again until it is acknowledged.
    async fn run(self) {
        let (mut number, mut position, mut pauses) = (0, 0, Pauses::default());
        while number == 0 || !self.is_ending.load(Ordering::SeqCst) {
            let line = Bytes::from(line(&self.session, number));
            position += line.len() as u64;
            loop {
                let start = position - line.len() as u64;
                let push = self.client.push(&self.session, "soak", start, line.clone(), false);
                match tokio::time::timeout(PUSH_WITHIN, push).await {
                    Ok(Ok(outcome)) => {
                        assert_eq!(outcome.position, position, "{}", self.session);
                        break;
                    }
                    Ok(Err(error)) => {
                        let told = error.to_string();
                        assert!(error.is_temporary() || told.contains("409"), "{told}");
                        // As every client does: hundreds of them would not let a node start.
                        pauses.wait().await;
                    }
                    Err(_) => pauses.wait().await,
                }
            }
            pauses.reset();
            number += 1;
            self.acknowledged.store(number, Ordering::SeqCst);
            tokio::time::sleep(self.pause).await;
        }
    }
}

/// Follows a session until it has all that was acknowledged, after the end.
async fn follow(
    client: Client,
    session: String,
    acknowledged: Arc<AtomicU64>,
    is_ended: Arc<AtomicBool>,
) -> FollowedSession {
    // Before the first line there is no session.
    while acknowledged.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut followed = client.follow(session);
    loop {
        let next = tokio::time::timeout(Duration::from_millis(500), followed.next()).await;
        if let Ok(next) = next {
            assert_eq!(next.unwrap(), FollowEvent::Changed);
        }
        let blocks = followed.mirror().state().blocks().len() as u64;
        if is_ended.load(Ordering::SeqCst) && blocks >= acknowledged.load(Ordering::SeqCst) {
            return followed;
        }
    }
}
