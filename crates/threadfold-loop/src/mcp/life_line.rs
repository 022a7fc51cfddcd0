//! Ends a server that ignores the end of its input when this process ends.
//!
//! This process holds a pipe that it never writes to. A watcher in the server's process group reads
//! from it: when this process ends, however it ends, the pipe closes, and the watcher kills the
//! group after a short delay. The server's own input carries the protocol, so the watcher opens the
//! pipe through `/proc`, which exists only on Linux.

use std::io::{self, PipeReader, PipeWriter};
use std::process::Command;

use super::McpServerConfig;

/// Runs `$2` and its arguments in a group that is killed after the pipe `$1` closes.
const WRAPPER: &str = "\
if command exec 3<\"$1\"; then
    { trap '' HUP INT TERM; while read -r line <&3; do :; done; sleep 2; kill -KILL 0; } \
        </dev/null >/dev/null 2>&1 &
fi
shift
exec \"$@\" 3<&-";

/// The ends of the pipe. Lives as long as the server.
pub(super) struct LifeLine {
    reader: PipeReader,
    _writer: PipeWriter,
}

impl LifeLine {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, _writer: writer })
    }

    /// Returns the command that starts a server under this watcher.
    pub(super) fn command(&self, config: &McpServerConfig) -> Command {
        if !cfg!(target_os = "linux") {
            let mut command = Command::new(&config.command);
            command.args(&config.args);
            return command;
        }
        use std::os::fd::AsRawFd;
        let pipe = format!("/proc/{}/fd/{}", std::process::id(), self.reader.as_raw_fd());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WRAPPER, "sh", &pipe, &config.command]).args(&config.args);
        command
    }
}
