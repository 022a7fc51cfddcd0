//! The start of `threadfold serve` over thousands of sessions, and what it costs when nothing
//! happens afterwards.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use serde_json::Value;

use crate::Bench;
use crate::peers;
use crate::table::print_ratio;

/// The bars: a second to the first list, and one hundredth of a core.
const LONGEST_LIST: f64 = 1.0;
const MOST_IDLE_CPU: f64 = 1.0;
/// How much of the memory's growth is noise of the allocator, in bytes.
const NOISE: f64 = 1e6;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// How long the server may still do what follows an import: it closes sessions after half a minute.
const SETTLING: Duration = Duration::from_secs(60);

/// Starts the server without a store and with one, and observes it while it is idle.
pub(crate) fn measure(
    bench: &Bench,
    claude: &Path,
    sessions: usize,
    idle: Duration,
) -> io::Result<()> {
    let files = peers::files(claude)?;
    let bytes: u64 = files.iter().map(|it| it.1).sum();
    println!("`serve` over {sessions} sessions, {} files, {} MB", files.len(), bytes / 1_000_000);
    println!(
        "{:<28} {:>14} {:>14} {:>14} {:>12}",
        "", "list, s", "peak then, MB", "imported, s", "peak, MB"
    );
    forget_cached(&files)?;
    let cold = start(bench, claude, sessions, "cold")?;
    drop(cold);
    let again = start(bench, claude, sessions, "warm, all imported")?;
    drop(again);
    forget_cached(&files)?;
    let again = start(bench, claude, sessions, "warm, files not cached")?;
    std::thread::sleep(SETTLING);
    let (cpu, memory) = (again.cpu_seconds()?, again.memory("VmRSS:")?);
    std::thread::sleep(idle);
    let cpu = (again.cpu_seconds()? - cpu) / idle.as_secs_f64() * 100.0;
    let grown = again.memory("VmRSS:")? as f64 - memory as f64;
    println!("idle for {} s, at {:.0} MB", idle.as_secs(), memory as f64 / 1e6);
    print_ratio("CPU, % of a core; wanted: below 1", cpu);
    print_ratio("memory that it grew by, MB; wanted: 0", grown / 1e6);
    match cpu < MOST_IDLE_CPU && grown < NOISE {
        true => Ok(()),
        false => Err(io::Error::other("an idle server must cost nothing")),
    }
}

/// Starts the server, and measures until it has listed and imported everything.
fn start(bench: &Bench, claude: &Path, sessions: usize, title: &str) -> io::Result<Served> {
    let token = bench.folder.join("token");
    let mut command = bench.threadfold(claude, "serve");
    command.args(["serve", "--bind", "127.0.0.1:0", "--token-file"]).arg(&token);
    let begin = Instant::now();
    let served = Served::start(&mut command, &token)?;
    let list = served.get("/v1/sessions?limit=1")?;
    let listed = begin.elapsed().as_secs_f64();
    let peak = served.memory("VmHWM:")? as f64 / 1e6;
    if list["total"] != sessions {
        return Err(io::Error::other(format!(
            "{} of {sessions} sessions are listed",
            list["total"]
        )));
    }
    while served.get("/v1/status")?["import"]["isComplete"] != true {
        std::thread::sleep(BETWEEN_LOOKS);
    }
    let imported = begin.elapsed().as_secs_f64();
    let last = served.memory("VmHWM:")? as f64 / 1e6;
    println!("{title:<28} {listed:>14.3} {peak:>14.0} {imported:>14.1} {last:>12.0}");
    if listed > LONGEST_LIST {
        println!("    the first list took more than {LONGEST_LIST} s");
    }
    Ok(served)
}

/// Removes files from the cache of the system, as after a restart of the machine.
fn forget_cached(files: &[(std::path::PathBuf, u64)]) -> io::Result<()> {
    for (path, _) in files {
        let file = File::open(path)?;
        // Only what is on the disk can be forgotten.
        file.sync_data()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// A running server.
struct Served {
    process: Child,
    address: String,
    token: String,
}

impl Served {
    fn start(command: &mut Command, token: &Path) -> io::Result<Self> {
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdout = process.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on http://").map(str::to_owned);
        let address = address.ok_or_else(|| io::Error::other(format!("it printed {line:?}")))?;
        let token = fs::read_to_string(token)?.trim().to_owned();
        Ok(Self { process, address, token })
    }

    fn get(&self, path: &str) -> io::Result<Value> {
        let mut stream = TcpStream::connect(&self.address)?;
        let Self { address, token, .. } = self;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |it| it.1);
        Ok(serde_json::from_str(body)?)
    }

    fn memory(&self, name: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|it| it.strip_prefix(name));
        let kilobytes = line.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kilobytes.map(|it| it * 1024).ok_or_else(|| io::Error::other(format!("no `{name}`")))
    }

    fn cpu_seconds(&self) -> io::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // After the name, which may contain anything.
        let fields = stat.rsplit_once(')').map_or("", |it| it.1);
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|it| it.parse::<f64>().ok()).sum();
        Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.process);
        // It writes what it knows, as when a user stops it.
        rustix::process::kill_process(id, rustix::process::Signal::TERM).ok();
        self.process.wait().ok();
    }
}
