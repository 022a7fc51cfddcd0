//! A run of a real agent: its lines as they arrive, signals, and its end.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid},
};

use crate::{AgentHome, TestkitError};

/// A started run, as an iterator over the lines of its standard output.
///
/// A line comes without its line feed. At the time limit the run is killed, and the iterator
/// yields [`TestkitError::TimedOut`] once. Dropping a run kills it.
pub struct AgentProcess<'a> {
    setup: ProcessSetup<'a>,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<io::Result<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    started: Instant,
    timed_out: bool,
    reaped: bool,
    seen: Vec<Vec<u8>>,
}

/// What a run emitted within some time.
#[derive(Debug)]
pub enum NextLine {
    /// A line of standard output, without its line feed.
    Line(Vec<u8>),
    /// Nothing yet.
    Quiet,
    /// Standard output is closed.
    End,
    /// The time limit of the run is over, and it was killed.
    TimedOut,
}

/// A completed run.
#[derive(Debug)]
pub struct ProcessOutput {
    /// Its exit status.
    pub status: ExitStatus,
    /// All lines of standard output, including those read before.
    pub lines: Vec<Vec<u8>>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// All transcripts of the agent in the home, sorted.
    pub transcripts: Vec<PathBuf>,
    /// Its duration.
    pub took: Duration,
}

/// What a run needs besides its command.
pub(crate) struct ProcessSetup<'a> {
    /// The home, which must outlive the run.
    pub(crate) home: &'a AgentHome,
    /// The folder of the transcripts.
    pub(crate) transcripts: PathBuf,
    /// The time limit.
    pub(crate) limit: Duration,
    /// Whether standard input is open.
    pub(crate) stdin: Stdio,
}

pub(crate) fn start<'a>(
    mut command: Command,
    mut setup: ProcessSetup<'a>,
) -> Result<AgentProcess<'a>, TestkitError> {
    let doing = format!("start `{}`", command.get_program().to_string_lossy());
    // Its own process group, so that its child processes end with it.
    let mut child = command
        .process_group(0)
        .stdin(std::mem::replace(&mut setup.stdin, Stdio::null()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(TestkitError::io(doing))?;

    let stdout = child.stdout.take().expect("standard output is piped");
    let mut stderr = child.stderr.take().expect("standard error is piped");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n') {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let stderr = thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output read so far is still worth showing.
        stderr.read_to_end(&mut bytes).ok();
        bytes
    });

    Ok(AgentProcess {
        setup,
        stdin: child.stdin.take(),
        child,
        lines,
        stderr: Some(stderr),
        started: Instant::now(),
        timed_out: false,
        reaped: false,
        seen: Vec::new(),
    })
}

impl AgentProcess<'_> {
    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to standard input.
    pub fn send_line(&mut self, line: &str) -> Result<(), TestkitError> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe.into());
        stdin
            .and_then(|it| writeln!(it, "{line}").and_then(|()| it.flush()))
            .map_err(TestkitError::io("write to the agent"))
    }

    /// Closes standard input, after which an agent exits when it is idle.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Interrupts it (SIGINT), like Ctrl-C.
    pub fn interrupt(&self) -> Result<(), TestkitError> {
        self.signal(Signal::INT)
    }

    /// Terminates it (SIGTERM).
    pub fn terminate(&self) -> Result<(), TestkitError> {
        self.signal(Signal::TERM)
    }

    /// Kills it (SIGKILL), but not its child processes.
    pub fn kill(&self) -> Result<(), TestkitError> {
        self.signal(Signal::KILL)
    }

    /// Waits at most this long for a line; at the time limit of the run it is killed.
    pub fn next_within(&mut self, limit: Duration) -> NextLine {
        let limit = limit.min(self.rest());
        match self.lines.recv_timeout(limit) {
            Ok(Ok(line)) => {
                self.seen.push(line.clone());
                NextLine::Line(line)
            }
            Err(RecvTimeoutError::Timeout) if !self.rest().is_zero() => NextLine::Quiet,
            Err(RecvTimeoutError::Timeout) => {
                self.timed_out = true;
                end_group(Pid::from_child(&self.child));
                NextLine::TimedOut
            }
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => NextLine::End,
        }
    }

    /// Closes standard input, reads to the end and waits for it.
    pub fn finish(mut self) -> Result<ProcessOutput, TestkitError> {
        self.close_stdin();
        for line in self.by_ref() {
            line?;
        }
        let (status, took) = self.reap().map_err(TestkitError::io("wait for the agent"))?;
        let stderr = self.stderr.take().and_then(|it| it.join().ok());
        Ok(ProcessOutput {
            status,
            lines: std::mem::take(&mut self.seen),
            stderr: stderr.unwrap_or_default(),
            transcripts: self.setup.home.files_below(&self.setup.transcripts)?,
            took,
        })
    }

    fn signal(&self, signal: Signal) -> Result<(), TestkitError> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(io::Error::from)
            .map_err(TestkitError::io("send a signal to the agent"))
    }

    /// Waits for the end, within the limit, and kills the rest of the process group.
    ///
    /// The group is killed before the process is reaped, while its id is still valid.
    fn reap(&mut self) -> io::Result<(ExitStatus, Duration)> {
        let pid = Pid::from_child(&self.child);
        let rest = self.rest();
        let (ended, watch) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                if watch.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
                    end_group(pid);
                }
            });
            let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let waited = retry_on_intr(|| waitid(WaitId::Pid(pid), end));
            drop(ended);
            waited
        })?;
        let took = self.started.elapsed();
        end_group(pid);
        self.reaped = true;
        Ok((self.child.wait()?, took))
    }

    fn rest(&self) -> Duration {
        self.setup.limit.saturating_sub(self.started.elapsed())
    }
}

impl Iterator for AgentProcess<'_> {
    type Item = Result<Vec<u8>, TestkitError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.timed_out {
            return None;
        }
        match self.lines.recv_timeout(self.rest()) {
            Ok(Ok(line)) => {
                self.seen.push(line.clone());
                Some(Ok(line))
            }
            Ok(Err(source)) => Some(Err(TestkitError::io("read from the agent")(source))),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.timed_out = true;
                end_group(Pid::from_child(&self.child));
                Some(Err(TestkitError::TimedOut {
                    what: "the end of a run of an agent".to_owned(),
                    limit: self.setup.limit,
                }))
            }
        }
    }
}

impl Drop for AgentProcess<'_> {
    fn drop(&mut self) {
        if !self.reaped {
            end_group(Pid::from_child(&self.child));
            self.child.wait().ok();
        }
    }
}

fn end_group(leader: Pid) {
    // An empty process group is the goal.
    kill_process_group(leader, Signal::KILL).ok();
}
