//! What is measured, and the bars.

use std::io;
use std::time::{Duration, Instant};

use crate::process::Role;
use crate::slow;

/// How much is measured.
pub(crate) struct Scale {
    pub(crate) subscribers: usize,
    pub(crate) sessions: usize,
    pub(crate) idle: usize,
    /// How long each server is loaded.
    seconds: u64,
    rounds: usize,
    /// Only the scenarios that are named.
    only: Vec<String>,
    pub(crate) slow: slow::SlowScale,
}

impl Scale {
    pub(crate) fn parse(arguments: &[&str]) -> io::Result<Self> {
        let mut scale = Self {
            subscribers: 1_000,
            sessions: 1_000,
            idle: 10_000,
            seconds: 5,
            rounds: 3,
            only: Vec::new(),
            slow: slow::SlowScale { clients: 100, events: 2_000, rounds: 5 },
        };
        let wanted = || {
            io::Error::other(
                "wanted: [one] [many] [idle] [slow], --subscribers N, --sessions N, --idle N, \
                 --seconds N, --rounds N, --slow-events N",
            )
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|it| it.parse().ok()).ok_or_else(wanted);
            match *argument {
                // Passed by `cargo bench`.
                "--bench" => {}
                "--subscribers" => scale.subscribers = number()?,
                "--sessions" => scale.sessions = number()?,
                "--idle" => scale.idle = number()?,
                "--seconds" => scale.seconds = number()? as u64,
                "--rounds" => (scale.rounds, scale.slow.rounds) = (number()?, scale.slow.rounds),
                "--slow-events" => scale.slow.events = number()? as u64,
                "one" | "many" | "idle" | "slow" => scale.only.push((*argument).to_owned()),
                _ => return Err(wanted()),
            }
        }
        Ok(scale)
    }

    fn has(&self, scenario: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|it| it == scenario)
    }
}

/// One way to load a server.
struct Load {
    title: String,
    sessions: usize,
    subscribers: usize,
    /// How many events a session is given at once.
    batch: u64,
    /// How many batches may be on their way.
    ahead: u64,
    /// The time between two events of a session, for latencies.
    interval: Duration,
    bar: f64,
}

/// What one server did under a load.
#[derive(Clone, Copy, Default)]
struct Figures {
    deliveries: f64,
    server_cpu: f64,
    p50: f64,
    p99: f64,
}

const EVENT: usize = 100;
/// How many events may be on their way if they take turns.
const AHEAD: u64 = 4;
/// How long the last deliveries may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(scale: &Scale) -> io::Result<()> {
    let loads = [
        (
            "one",
            Load {
                title: format!("one session, {} subscribers", scale.subscribers),
                sessions: 1,
                subscribers: scale.subscribers,
                batch: 64,
                ahead: 8,
                interval: Duration::from_millis(20),
                bar: 3.0,
            },
        ),
        (
            "many",
            Load {
                title: format!("{} sessions, one subscriber each", scale.sessions),
                sessions: scale.sessions,
                subscribers: scale.sessions,
                batch: 64,
                ahead: 4,
                interval: Duration::from_millis(500),
                bar: 0.8,
            },
        ),
    ];
    let mut is_met = true;
    for (name, load) in &loads {
        if scale.has(name) {
            is_met &= compare(load, scale)?;
        }
    }
    if scale.has("idle") {
        is_met &= idle(scale.idle)?;
    }
    if scale.has("slow") {
        is_met &= slow::run(&scale.slow)?;
    }
    match is_met {
        true => Ok(()),
        false => Err(io::Error::other("a bar is missed")),
    }
}

/// A server with its clients.
pub(crate) struct Run {
    // Dropped first: clients do not survive their server.
    pub(crate) clients: Role,
    pub(crate) server: Role,
    pub(crate) address: String,
    /// The memory of the server before there were clients.
    pub(crate) before: u64,
}

impl Run {
    pub(crate) fn start(
        kind: &str,
        sessions: usize,
        connections: usize,
        stalled: usize,
        batch: u64,
        bytes: usize,
    ) -> io::Result<Self> {
        let mut server = Role::start(&[kind, &sessions.to_string(), &bytes.to_string()])?;
        let line = server.read()?;
        let address = line.strip_prefix("listening ").unwrap_or_default().to_owned();
        let before = memory(&mut server)?;
        let numbers = [sessions, connections, stalled, batch as usize].map(|it| it.to_string());
        let mut arguments = vec!["clients", &address];
        arguments.extend(numbers.iter().map(String::as_str));
        let mut clients = Role::start(&arguments)?;
        let ready = clients.read()?;
        assert_eq!(ready, "ready", "the clients are connected");
        Ok(Self { server, clients, address, before })
    }

    /// Publishes events at a steady rate, and returns the 50th and 99th percentile of the time to
    /// each client, in milliseconds.
    fn pace(&mut self, count: u64, interval: Duration, deliveries: u64) -> io::Result<(f64, f64)> {
        self.clients.ask("time")?;
        self.server.tell(&format!("pace {count} {}", interval.as_micros()))?;
        let start = Instant::now();
        let limit = interval * u32::try_from(count).unwrap_or(u32::MAX) + PATIENCE;
        while self.clients.ask("count")?.parse() != Ok(deliveries) && start.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.times(deliveries)
    }

    /// Publishes one event after another, each after all clients have received an earlier one, and
    /// returns the times as [`pace`](Self::pace) does.
    pub(crate) fn take_turns(&mut self, count: u64, deliveries: u64) -> io::Result<(f64, f64)> {
        self.clients.ask("time")?;
        for number in 0..count {
            if number >= AHEAD {
                self.clients.wait_for_batch()?;
            }
            self.server.tell("batch 1")?;
        }
        for _ in 0..AHEAD.min(count) {
            self.clients.wait_for_batch()?;
        }
        self.times(deliveries)
    }

    /// Returns the 50th and 99th percentile, if everything was delivered.
    fn times(&mut self, deliveries: u64) -> io::Result<(f64, f64)> {
        let line = self.clients.ask("times")?;
        let numbers: Vec<u64> = line.split(' ').filter_map(|it| it.parse().ok()).collect();
        let [received, p50, p99, gaps] = numbers[..] else {
            return Err(io::Error::other(format!("not understood: {line}")));
        };
        if received != deliveries || gaps > 0 {
            let found = format!("{received} of {deliveries} deliveries, and {gaps} gaps");
            return Err(io::Error::other(found));
        }
        Ok((p50 as f64 / 1e6, p99 as f64 / 1e6))
    }
}

pub(crate) fn memory(server: &mut Role) -> io::Result<u64> {
    server.ask("memory")?.parse().map_err(crate::process::invalid)
}

fn compare(load: &Load, scale: &Scale) -> io::Result<bool> {
    println!("{}, events of {EVENT} bytes, batches of {}", load.title, load.batch);
    println!(
        "{:<10} {:>14} {:>12} {:>10} {:>10}",
        "", "deliveries/s", "µs CPU each", "p50 ms", "p99 ms"
    );
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..scale.rounds {
        for (kind, figures) in ["ours", "plain"].iter().zip(&mut all) {
            let measured = measure(kind, load, scale.seconds)?;
            print_figures(kind, &measured);
            figures.push(measured);
        }
    }
    let [ours, plain] = all.map(|mut it| {
        it.sort_by(|a, b| a.deliveries.total_cmp(&b.deliveries));
        it[it.len() / 2]
    });
    let ratio = ours.deliveries / plain.deliveries;
    Ok(print_bar("deliveries, ours / plain, median", ratio, load.bar, Bar::AtLeast))
}

fn print_figures(kind: &str, figures: &Figures) {
    let Figures { deliveries, server_cpu, p50, p99 } = figures;
    println!("{kind:<10} {deliveries:>14.0} {server_cpu:>12.2} {p50:>10.2} {p99:>10.2}");
}

/// Loads one server for some seconds.
fn measure(kind: &str, load: &Load, seconds: u64) -> io::Result<Figures> {
    let mut run = Run::start(kind, load.sessions, load.subscribers, 0, load.batch, EVENT)?;
    let batch = format!("batch {}", load.batch);
    let (start, mut done, mut asked) = (Instant::now(), 0, 0);
    let cpu = run.server.cpu_seconds()?;
    while done < asked || start.elapsed().as_secs() < seconds {
        while asked < done + load.ahead && start.elapsed().as_secs() < seconds {
            run.server.tell(&batch)?;
            asked += 1;
        }
        run.clients.wait_for_batch()?;
        done += 1;
    }
    let wall = start.elapsed().as_secs_f64();
    let deliveries = (done * load.batch) as f64 * load.subscribers as f64;
    let cpu = run.server.cpu_seconds()? - cpu;
    let count = 3_000 / u64::try_from(load.interval.as_millis()).unwrap_or(1).max(1);
    let (p50, p99) = run.pace(count, load.interval, count * load.subscribers as u64)?;
    Ok(Figures { deliveries: deliveries / wall, server_cpu: cpu * 1e6 / deliveries, p50, p99 })
}

fn idle(connections: usize) -> io::Result<bool> {
    println!("{connections} idle subscribers of one session");
    let mut bytes = Vec::new();
    // The second one has smaller buffers than its library chooses.
    for kind in ["ours", "plain", "plain-small"] {
        let mut run = Run::start(kind, 1, connections, 0, 1, EVENT)?;
        std::thread::sleep(Duration::from_secs(2));
        let after = memory(&mut run.server)?;
        let each = (after - run.before) as f64 / connections as f64;
        println!("{kind:<12} {each:>10.0} bytes of memory a connection");
        bytes.push(each);
    }
    let least = bytes[1].min(bytes[2]);
    Ok(print_bar("memory a connection, ours / smaller plain", bytes[0] / least, 0.5, Bar::AtMost))
}

/// Which side of a bar is wanted.
pub(crate) enum Bar {
    AtLeast,
    AtMost,
}

/// Prints a figure beside what is wanted, and returns whether it is met.
pub(crate) fn print_bar(title: &str, figure: f64, bar: f64, wanted: Bar) -> bool {
    let (is_met, words) = match wanted {
        Bar::AtLeast => (figure >= bar, "at least"),
        Bar::AtMost => (figure <= bar, "at most"),
    };
    let verdict = if is_met { "" } else { "  MISSED" };
    println!("    {title:<52} {figure:>8.2}   wanted: {words} {bar}{verdict}\n");
    is_met
}
