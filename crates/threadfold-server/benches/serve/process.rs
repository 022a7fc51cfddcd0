//! The processes of a run: a server and its clients, which read commands from stdin.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::scenario::Scale;

/// What the clients print when all of them have received a batch.
pub(crate) const DONE: &str = "done ";

/// A process of this program in another role.
pub(crate) struct Role {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Role {
    pub(crate) fn start(arguments: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--role").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let missing = || io::Error::other("a process without a pipe");
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().ok_or_else(missing)?);
        Ok(Self { process, stdin, stdout })
    }

    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => writeln!(stdin, "{line}").and_then(|()| stdin.flush()),
            None => Ok(()),
        }
    }

    pub(crate) fn read(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            return Err(io::Error::other("a process of the benchmark ended"));
        }
        Ok(line.trim_end().to_owned())
    }

    /// Returns the answer to a question. What clients have received in between is no answer.
    pub(crate) fn ask(&mut self, line: &str) -> io::Result<String> {
        self.tell(line)?;
        loop {
            let answer = self.read()?;
            if !answer.starts_with(DONE) {
                return Ok(answer);
            }
        }
    }

    /// Waits until all clients have received another batch.
    pub(crate) fn wait_for_batch(&mut self) -> io::Result<()> {
        while !self.read()?.starts_with(DONE) {}
        Ok(())
    }

    /// Returns the CPU seconds that the process has used.
    pub(crate) fn cpu_seconds(&self) -> io::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // After the name, which may contain anything.
        let fields = stat.rsplit_once(')').map_or("", |it| it.1);
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|it| it.parse::<f64>().ok()).sum();
        Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.stdin = None;
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Returns the resident memory of a process.
pub(crate) fn resident_bytes(process: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kilobytes: Option<u64> = line.and_then(|it| it.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.map(|it| it * 1024).ok_or_else(|| io::Error::other("no `VmRSS`"))
}

/// Allows as many open files as the system does, and refuses to measure with fewer than needed.
pub(crate) fn raise_file_limit(scale: &Scale) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let needed = scale.idle.max(scale.subscribers) as u64 + 100;
    match limit.maximum {
        Some(most) if most < needed => Err(io::Error::other(format!(
            "a process may open {most} files, and {needed} are needed: raise `ulimit -Hn`, or \
             give `--idle N`"
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn invalid(error: std::num::ParseIntError) -> io::Error {
    io::Error::other(error)
}
