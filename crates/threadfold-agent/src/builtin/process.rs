//! A process and all that it starts, ended together.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;

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
