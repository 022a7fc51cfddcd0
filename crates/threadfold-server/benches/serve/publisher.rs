//! The process of a server: it publishes what the benchmark asks for, to all sessions at once.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::process::{invalid, resident_bytes};

/// A server that events are published to.
pub(crate) trait Publisher: Clone + Send + Sync + 'static {
    /// Starts the server, with sessions that have one event each.
    fn start(listener: TcpListener, sessions: usize) -> impl Future<Output = io::Result<Self>>;

    /// Publishes events of about this size to a session.
    fn publish(
        &self,
        session: usize,
        first: u64,
        count: u64,
        bytes: usize,
    ) -> impl Future<Output = ()> + Send;
}

/// What the sessions are asked to publish.
#[derive(Clone, Copy)]
enum Work {
    /// So many events at once.
    Batch(u64),
    /// So many events, one at a time.
    Paced { count: u64, interval: Duration },
}

/// Serves until stdin ends. Each line of it is something to do.
pub(crate) fn serve<P: Publisher>(sessions: &str, bytes: &str) -> io::Result<()> {
    let sessions: usize = sessions.parse().map_err(invalid)?;
    let bytes: usize = bytes.parse().map_err(invalid)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let publisher = runtime.block_on(P::start(listener, sessions))?;
    let mut queues = Vec::new();
    let mut tasks = Vec::new();
    for session in 0..sessions {
        let (queue, mut works) = mpsc::unbounded_channel();
        queues.push(queue);
        let publisher = publisher.clone();
        tasks.push(runtime.spawn(async move {
            let mut next = 2;
            while let Some(work) = works.recv().await {
                next += run(&publisher, session, sessions, next, bytes, work).await;
            }
        }));
    }
    answer(&format!("listening {address}"))?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<u64>().map_err(invalid);
        let work = match words[..] {
            ["batch", count] => Work::Batch(number(count)?),
            ["pace", count, micros] => Work::Paced {
                count: number(count)?,
                interval: Duration::from_micros(number(micros)?),
            },
            ["memory"] => {
                answer(&resident_bytes(std::process::id())?.to_string())?;
                continue;
            }
            _ => return Err(io::Error::other(format!("not understood: {line}"))),
        };
        queues.iter().for_each(|it| _ = it.send(work));
    }
    Ok(())
}

async fn run<P: Publisher>(
    publisher: &P,
    session: usize,
    sessions: usize,
    next: u64,
    bytes: usize,
    work: Work,
) -> u64 {
    match work {
        Work::Batch(count) => {
            publisher.publish(session, next, count, bytes).await;
            count
        }
        Work::Paced { count, interval } => {
            // The sessions take turns.
            let offset = interval.mul_f64(session as f64 / sessions as f64);
            let start = tokio::time::Instant::now() + offset;
            let mut ticks = tokio::time::interval_at(start, interval);
            for number in 0..count {
                ticks.tick().await;
                publisher.publish(session, next + number, 1, bytes).await;
            }
            count
        }
    }
}

fn answer(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
