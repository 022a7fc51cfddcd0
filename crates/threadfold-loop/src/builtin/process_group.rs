//! A process and everything that it starts, ended together.

use std::io;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::time::timeout;

/// A process group and its leader. Dropping it kills every process in the group.
///
/// The leader is reaped only after the group was killed: until then its process id cannot be
/// reused.
pub(crate) struct ProcessGroup {
    child: Option<Child>,
    pid: Pid,
}

impl ProcessGroup {
    /// Starts `command` as the leader of a new group.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Self { child: Some(child), pid })
    }

    pub(crate) fn leader(&mut self) -> &mut Child {
        self.child.as_mut().expect("the leader is taken only when the group ends")
    }

    /// Sends a signal to the group. It is not an error if no process is left.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(self.pid, signal).ok();
    }

    /// Stops the group: SIGTERM, then SIGKILL if `ended` is not ready after `grace`. Returns whether
    /// it became ready, at the latest `grace` after SIGKILL.
    pub(crate) async fn stop(&self, grace: Duration, ended: impl Future<Output = ()>) -> bool {
        let mut ended = pin!(ended);
        for signal in [Signal::TERM, Signal::KILL] {
            self.signal(signal);
            if timeout(grace, &mut ended).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Waits until the leader has ended, without reaping it.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let pid = self.pid;
        let waiting = tokio::task::spawn_blocking(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), options).is_err_and(|it| it == Errno::INTR) {}
        });
        async move { waiting.await.unwrap_or_default() }
    }

    /// Describes how the leader ended, if it has.
    pub(crate) fn how_ended(&self) -> Option<String> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.pid), options).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (None, Some(signal)) => format!("it was killed by signal {signal}"),
            (None, None) => "it ended".to_owned(),
        })
    }

    /// Gives the leader some time to end, then kills the group, in the background.
    pub(crate) fn retire(self, grace: Duration) {
        thread::spawn(move || {
            let begin = Instant::now();
            while self.how_ended().is_none() && begin.elapsed() < grace {
                thread::sleep(Duration::from_millis(20));
            }
            self.end()
        });
    }

    /// Kills the group, waits for the leader, and returns its status.
    pub(crate) fn end(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.child.take().map_or_else(|| Err(Errno::CHILD.into()), |mut it| it.wait())
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.signal(Signal::KILL);
            thread::spawn(move || child.wait());
        }
    }
}
