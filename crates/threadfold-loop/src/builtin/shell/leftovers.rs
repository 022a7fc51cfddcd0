//! Ends processes that outlived their call, found by their environment.

use threadfold_core::CallKey;

use crate::tool::ToolError;

/// The environment variable that every process of a call inherits, with the call's key.
pub const CALL_VARIABLE: &str = "THREADFOLD_CALL";

/// Kills the processes of this user that the call with this key started and that are still running.
/// Returns their number.
///
/// No process of a call may be running when its outcome is decided. Processes are found by the key
/// in their initial environment, even if they left the call's process group; a process that was
/// started with an empty environment is not found. Only Linux exposes the environment of processes:
/// elsewhere none is found.
pub async fn end_leftovers(key: &CallKey) -> Result<usize, ToolError> {
    let key = key.clone();
    let ended = tokio::task::spawn_blocking(move || end_all(&key)).await;
    ended.unwrap_or_else(|error| Err(cannot_tell(&error)))
}

fn cannot_tell(error: &dyn std::error::Error) -> ToolError {
    ToolError::unknown(format!("processes of this call may be left: {error}"))
}

#[cfg(not(target_os = "linux"))]
fn end_all(_: &CallKey) -> Result<usize, ToolError> {
    Ok(0)
}

#[cfg(target_os = "linux")]
fn end_all(key: &CallKey) -> Result<usize, ToolError> {
    use std::collections::BTreeSet;
    use std::thread::sleep;
    use std::time::Duration;

    let mark = format!("{CALL_VARIABLE}={}", key.as_str());
    let mut ended = BTreeSet::<i32>::new();
    let mut last = Vec::new();
    // A killed process takes a moment to disappear, and may have started another one before.
    for round in 0..200_u64 {
        last = linux::kill(mark.as_bytes()).map_err(|error| cannot_tell(&error))?;
        if last.is_empty() {
            return Ok(ended.len());
        }
        ended.extend(&last);
        sleep(Duration::from_millis(round.min(20)));
    }
    let names: Vec<_> = last.iter().map(ToString::to_string).collect();
    let names = names.join(", ");
    Err(ToolError::unknown(format!("processes of this call cannot be killed: {names}")))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io;

    use rustix::io::Errno;
    use rustix::process::{
        Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
    };

    /// Kills each process that has `mark` in its environment. Returns all of them, including those
    /// that could not be killed.
    pub(super) fn kill(mark: &[u8]) -> io::Result<Vec<i32>> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|it| it.parse::<i32>().ok()) else {
                continue;
            };
            let Some(pid) = Pid::from_raw(number).filter(|it| *it != getpid()) else { continue };
            // The handle is opened before the environment is read: if the process id is reused in
            // between, the signal goes to the process that has already ended.
            let handle = pidfd_open(pid, PidfdFlags::empty());
            if !has(&entry.path().join("environ"), mark) {
                continue;
            }
            let sent = match handle {
                Ok(handle) => pidfd_send_signal(handle, Signal::KILL),
                Err(Errno::NOSYS) => kill_process(pid, Signal::KILL),
                Err(error) => Err(error),
            };
            if sent != Err(Errno::SRCH) {
                found.push(number);
            }
        }
        Ok(found)
    }

    /// Returns true if one of the variables is `mark`. The environment of other users' processes
    /// cannot be read, and that of an ended process is empty.
    fn has(environment: &std::path::Path, mark: &[u8]) -> bool {
        let variables = fs::read(environment).unwrap_or_default();
        variables.split(|it| *it == 0).any(|it| it == mark)
    }
}
