//! Durable appends of one and of many writers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_core::SessionId;
use threadfold_fold::{LogId, Record, RecordKind, Timestamp};
use threadfold_store::{Append, BatchId, Epoch, Holder, Store};
use tokio_postgres::{Client, NoTls};

use crate::{Bench, Outcome, claim, median};

const RECORD: usize = 248;
const ROUNDS: usize = 5;
/// How long one round of one way takes.
const ROUND: Duration = Duration::from_secs(2);

/// What a session's writer knows.
pub(crate) struct Log {
    store: Arc<dyn Store>,
    pub(crate) session: SessionId,
    epoch: Epoch,
    head: u64,
}

impl Log {
    pub(crate) async fn begin(store: &Arc<dyn Store>, name: &str) -> Outcome<Self> {
        let session = SessionId::from(name);
        let head = store.create(&session, LogId::from("log")).await?.seq;
        let lasting = Duration::from_secs(3600);
        let lease = store.acquire(&session, &Holder::default(), lasting).await?;
        Ok(Self { store: Arc::clone(store), session, epoch: lease.epoch, head })
    }

    pub(crate) async fn append(&mut self, records: Vec<Record>) -> Outcome<()> {
        let mut batch = [0; 16];
        batch[..8].copy_from_slice(&self.head.to_le_bytes());
        let append = Append {
            session: self.session.clone(),
            epoch: self.epoch,
            after: self.head,
            batch: BatchId(batch),
            records,
        };
        self.head = self.store.append(append).await?.last;
        Ok(())
    }
}

/// Returns a record as a stream emits it.
pub(crate) fn record(number: u64) -> Record {
    let mut bytes = format!("{{\"type\":\"stream_event\",\"number\":{number},\"text\":\"");
    while bytes.len() < RECORD - 3 {
        bytes.push(char::from(b'a' + ((number as usize * 7 + bytes.len() * 13) % 26) as u8));
    }
    bytes.push_str("\"}\n");
    let position = number * RECORD as u64;
    let (kind, received) = (RecordKind::Line, Timestamp(number as i64));
    Record { kind, source: 1, position, received, bytes: bytes.into() }
}

pub(crate) async fn measure(bench: &Bench<'_>) -> Outcome<()> {
    println!("durable appends a second of 248 bytes, median of {ROUNDS} rounds\n");
    println!("{:<28} {:>14} {:>12} {:>12}", "writers", "plain inserts", "PostgreSQL", "SQLite");
    let mut ratios = Vec::new();
    bench.server.sql(
        "CREATE TABLE plain (session bigint, seq bigint, data bytea, PRIMARY KEY (session, seq))",
    )?;
    let (postgres, sqlite) = (bench.postgres().await?, bench.sqlite("appends.db")?);
    for writers in [1, 16, 256] {
        let mut plain = PlainWriters::connect(&bench.server.url(), writers).await?;
        let mut ours = logs(&postgres, writers).await?;
        let mut files = logs(&sqlite, writers).await?;
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            rates[0].push(plain.run().await?);
            rates[1].push(run(&mut ours).await?);
            rates[2].push(run(&mut files).await?);
        }
        let [plain, ours, files] = rates.map(median);
        println!("{writers:<28} {plain:>14.0} {ours:>12.0} {files:>12.0}");
        ratios.push((writers, ours / plain));
    }
    println!("\nratios of this run");
    for (writers, ratio) in ratios {
        let name = format!("{writers} writers, PostgreSQL / plain inserts");
        claim(&name, ratio, "at least 0.5");
    }
    Ok(())
}

async fn logs(store: &Arc<dyn Store>, writers: usize) -> Outcome<Vec<Log>> {
    let mut logs = Vec::new();
    for number in 0..writers {
        logs.push(Log::begin(store, &format!("of {writers}, {number}")).await?);
    }
    Ok(logs)
}

/// Returns appends a second of writers that each wait for the one before.
async fn run(logs: &mut Vec<Log>) -> Outcome<f64> {
    let start = Instant::now();
    let writing: Vec<_> = std::mem::take(logs)
        .into_iter()
        .map(|mut log| {
            tokio::spawn(async move {
                let mut count = 0;
                while start.elapsed() < ROUND {
                    log.append(vec![record(count)]).await?;
                    count += 1;
                }
                Outcome::Ok((log, count))
            })
        })
        .collect();
    let mut total = 0;
    for writer in writing {
        let (log, count) = writer.await??;
        logs.push(log);
        total += count;
    }
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

/// Writers that insert rows as `pgbench` does: one statement and one commit each, over as many
/// connections as there are writers, at most 64.
struct PlainWriters {
    clients: Vec<Arc<Client>>,
    writers: usize,
    next: i64,
}

impl PlainWriters {
    async fn connect(url: &str, writers: usize) -> Outcome<Self> {
        let mut clients = Vec::new();
        for _ in 0..writers.min(64) {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            clients.push(Arc::new(client));
        }
        Ok(Self { clients, writers, next: (writers as i64) << 40 })
    }

    async fn run(&mut self) -> Outcome<f64> {
        let start = Instant::now();
        let first = self.next;
        let writing: Vec<_> = (0..self.writers)
            .map(|writer| {
                let client = self.clients[writer % self.clients.len()].clone();
                tokio::spawn(async move {
                    let insert = client.prepare("INSERT INTO plain VALUES ($1, $2, $3)").await?;
                    let mut count = 0;
                    while start.elapsed() < ROUND {
                        let bytes = record(count as u64).bytes;
                        let seq = first + count;
                        client.execute(&insert, &[&(writer as i64), &seq, &&bytes[..]]).await?;
                        count += 1;
                    }
                    Outcome::Ok(count)
                })
            })
            .collect();
        let mut total = 0;
        for writer in writing {
            let count = writer.await??;
            self.next = self.next.max(first + count);
            total += count;
        }
        Ok(total as f64 / start.elapsed().as_secs_f64())
    }
}
