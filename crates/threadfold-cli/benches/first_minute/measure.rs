//! Runs a command, and returns what it cost.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use wait4::Wait4;

/// What a process cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// Its largest resident memory, in bytes.
    pub(crate) peak: u64,
    /// What it asked the system to read, cached or not.
    pub(crate) read: u64,
    /// What it asked the system to write.
    pub(crate) written: u64,
}

/// How much of the output is read before the reader leaves.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    /// All of it, without looking at it.
    All,
    /// As many lines as a screen has, as `head` does.
    Screen,
}

const SCREEN: usize = 50;

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command, reader: Reader) -> io::Result<Cost> {
    let output = match reader {
        Reader::All => Stdio::null(),
        Reader::Screen => Stdio::piped(),
    };
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped()).spawn()?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines().take(SCREEN) {
            line?;
        }
    }
    let errors = child.stderr.take();
    let errors = std::thread::spawn(move || errors.map_or(Ok(String::new()), io::read_to_string));
    // The process is left as a zombie, because its counters are gone with it.
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let id = id.ok_or_else(|| io::Error::other("a process without an id"))?;
    waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let wall = start.elapsed();
    let counters = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let ended = child.wait4()?;
    let errors = errors.join().map_err(|_| io::Error::other("stderr could not be read"))??;
    if !ended.status.success() {
        return Err(io::Error::other(format!("{command:?} failed: {}", errors.trim())));
    }
    let counter = |name: &str| {
        let line = counters.lines().find_map(|it| it.strip_prefix(name));
        line.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
    };
    Ok(Cost {
        wall,
        cpu: ended.rusage.utime + ended.rusage.stime,
        peak: ended.rusage.maxrss,
        read: counter("rchar:"),
        written: counter("wchar:"),
    })
}

/// Runs a command several times, and returns the run with the median wall time.
pub(crate) fn median(make: impl Fn() -> Command, reader: Reader) -> io::Result<Cost> {
    let mut costs = (0..5).map(|_| run(&mut make(), reader)).collect::<io::Result<Vec<_>>>()?;
    costs.sort_by_key(|it| it.wall);
    Ok(costs[costs.len() / 2])
}

/// How long an idle process is observed.
const OBSERVED: Duration = Duration::from_secs(2);

/// Starts a command that runs until it is killed, and returns how often its threads were woken in a
/// second, once it has nothing to do. A thread that is not woken makes no system call.
pub(crate) fn idle_wakeups(command: &mut Command) -> io::Result<f64> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let observed = observe_wakeups(child.id());
    child.kill()?;
    child.wait()?;
    observed
}

fn observe_wakeups(process: u32) -> io::Result<f64> {
    let mut last = wakeups(process)?;
    let mut woken = 0;
    // What it does at its start takes some time to end.
    for _ in 0..30 {
        std::thread::sleep(OBSERVED);
        let now = wakeups(process)?;
        woken = now.saturating_sub(last);
        if woken == 0 {
            break;
        }
        last = now;
    }
    Ok(woken as f64 / OBSERVED.as_secs_f64())
}

fn wakeups(process: u32) -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}
