//! A process and all that it starts, ended together.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A process group with its leader. Dropping it kills every process in it.
///
/// The leader is reaped only after the group was killed: until then its number cannot belong to
/// anybody else.
pub(crate) struct Group {
    child: Option<Child>,
    pid: Pid,
}

impl Group {
    /// Starts `command` as the leader of a new group.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Self { child: Some(child), pid })
    }

    pub(crate) fn leader(&mut self) -> &mut Child {
        self.child.as_mut().expect("the leader is taken only when the group ends")
    }

    /// Sends a signal to all. That nobody is left to take it is no error.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(self.pid, signal).ok();
    }

    /// Waits until the leader has ended, on a thread of its own. It is not reaped yet.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let pid = self.pid;
        let waiting = tokio::task::spawn_blocking(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), options).is_err_and(|it| it == Errno::INTR) {}
        });
        async move { waiting.await.unwrap_or_default() }
    }

    /// Returns how the leader ended, in words, if it has.
    pub(crate) fn how_ended(&self) -> Option<String> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.pid), options).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (None, Some(signal)) => format!("it was killed by signal {signal}"),
            (None, None) => "it ended".to_owned(),
        })
    }

    /// Gives the leader some time to end by itself, then kills all; does not wait for it.
    pub(crate) fn retire(self, grace: Duration) {
        thread::spawn(move || {
            let begin = Instant::now();
            while self.how_ended().is_none() && begin.elapsed() < grace {
                thread::sleep(Duration::from_millis(20));
            }
            self.end()
        });
    }

    /// Kills all that are left, and returns how the leader ended. Waits for it.
    pub(crate) fn end(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.child.take().map_or_else(|| Err(Errno::CHILD.into()), |mut it| it.wait())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.signal(Signal::KILL);
            thread::spawn(move || child.wait());
        }
    }
}
