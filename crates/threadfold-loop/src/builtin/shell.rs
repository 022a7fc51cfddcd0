//! `shell`: runs a command.
//!
//! A command and everything that it started end with the call, however that ends, and with this
//! process, however that ends. The latter is ensured by a *life-line*: a pipe of which this process
//! holds the only write end. A watcher in the command's process group reads from it, and kills the
//! group when the pipe closes, which happens when this process ends. Processes that left the group
//! are found by a variable in their environment; see [`end_leftovers`].

mod leftovers;

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::blocking::{Stop, StopReason};
use super::clip::Clip;
use super::folder::Folder;
use super::process_group::ProcessGroup;
use crate::tool::{self, Tool, ToolContext, ToolError, ToolOutput};

pub use leftovers::{CALL_VARIABLE, end_leftovers};

/// How many bytes of the beginning and of the end of the output are kept.
const OUTPUT_LIMIT: usize = 32 * 1024;
/// The default timeout in seconds.
const TIMEOUT: u64 = 600;
/// How long a command may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for output when no process should be left to write any.
const DRAIN: Duration = Duration::from_secs(1);

const DESCRIPTION: &str = "Runs a command with `/bin/sh -c`, starting in the folder; the command is \
    not confined to it. Returns the exit code and the combined stdout and stderr; long output is \
    cut to its first and last 32 KiB. There is no stdin. All processes started by the command are \
    killed when it ends, including background ones.";

/// Runs the command `$1` in a group that is killed when standard input closes.
const WRAPPER: &str = "\
exec 3<&0 </dev/null
{ trap '' HUP INT TERM; while read -r line <&3; do :; done; kill -KILL 0; } >/dev/null 2>&1 &
exec /bin/sh -c \"$1\" sh 3<&-";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command.
    command: String,
    /// Timeout in seconds; default 600.
    timeout_seconds: Option<u64>,
}

pub(super) fn tool(folder: &Folder) -> impl Tool + use<> {
    let folder = folder.clone();
    tool::tool("shell", DESCRIPTION, move |arguments: Arguments, context: ToolContext| {
        let folder = folder.clone();
        async move { run(&folder, &arguments, &context).await }
    })
}

/// How a command ended.
enum ShellExit {
    ByItself,
    Stopped(StopReason),
}

async fn run(
    folder: &Folder,
    arguments: &Arguments,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let now = Instant::now();
    let seconds = arguments.timeout_seconds.unwrap_or(TIMEOUT).clamp(1, 24 * 60 * 60);
    let stop = Stop::of(context).by(now + Duration::from_secs(seconds));
    let left = context.deadline.map(|it| it.saturating_duration_since(now).as_secs_f64().ceil());
    let seconds = left.map_or(seconds, |left| seconds.min(left as u64));
    stop.check()?;
    if context.is_resume {
        end_leftovers(&context.key).await?;
    }

    let (reader, writer) = io::pipe().map_err(|error| not_started(&error))?;
    let mut output = Output::new(reader).map_err(|error| not_started(&error))?;
    let mut group = start(folder, arguments, context, writer)?;
    let _life_line = group.leader().stdin.take();

    // The command is running: on every error from here on, its output must be reported.
    let mut ended = pin!(group.ended());
    let ending = tokio::select! {
        () = output.read_while(&mut ended) => ShellExit::ByItself,
        stopped = stop.reached() => ShellExit::Stopped(stopped),
    };
    if let ShellExit::Stopped(_) = ending
        && !group.stop(GRACE, output.read_while(&mut ended)).await
    {
        return Err(unknown(&output.into_text(), "the command cannot be killed"));
    }
    // The leader has ended, so this does not block.
    let status = group.end();
    let left = end_leftovers(&context.key).await;
    timeout(DRAIN, output.read_to_end()).await.ok();

    let mut text = output.into_text();
    let status = status.map_err(|error| {
        unknown(&text, &format!("the exit status of the command is unavailable: {error}"))
    })?;
    text.push_str(&describe_ending(&ending, status, seconds));
    if let Err(error) = left {
        text.push_str(&format!("\n[{error}]"));
    }
    let is_error = !status.success() || matches!(ending, ShellExit::Stopped(_));
    Ok(ToolOutput { is_error, ..ToolOutput::text(text) })
}

fn not_started(error: &io::Error) -> ToolError {
    ToolError::failed(format!("the command could not be started: {error}"))
}

/// Returns the error of a command that ran, with its output.
fn unknown(printed: &str, why: &str) -> ToolError {
    ToolError::unknown(format!("{printed}[{why}; its effects are unknown]"))
}

fn start(
    folder: &Folder,
    arguments: &Arguments,
    context: &ToolContext,
    writer: PipeWriter,
) -> Result<ProcessGroup, ToolError> {
    let second = writer.try_clone().map_err(|error| not_started(&error))?;
    // The command is dropped at the end, and with it this process's write ends of the output pipe.
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", WRAPPER, "sh", &arguments.command])
        .current_dir(folder.path())
        .env(CALL_VARIABLE, context.key.as_str())
        .stdin(Stdio::piped())
        .stdout(second)
        .stderr(writer);
    for name in crate::provider::KEY_VARIABLES {
        command.env_remove(name);
    }
    ProcessGroup::spawn(&mut command).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            ToolError::failed("a command cannot contain a NUL character")
        }
        _ if error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error()) => ToolError::failed(
            "the command is too long for the system; `write` it to a file and run that",
        ),
        _ => not_started(&error),
    })
}

fn describe_ending(ending: &ShellExit, status: ExitStatus, seconds: u64) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    };
    match ending {
        ShellExit::ByItself => format!("[{how}]"),
        ShellExit::Stopped(StopReason::Cancelled) => format!("[stopped: cancelled; {how}]"),
        ShellExit::Stopped(StopReason::TimedOut) => format!(
            "[stopped: timed out after at most {seconds} seconds; {how}; its effects so far remain]"
        ),
    }
}

/// The output of a command.
struct Output {
    pipe: Receiver,
    is_open: bool,
    buffer: Box<[u8]>,
    kept: Clip,
}

impl Output {
    fn new(reader: PipeReader) -> io::Result<Self> {
        let pipe = Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let buffer = vec![0; 64 * 1024].into_boxed_slice();
        Ok(Self { pipe, is_open: true, buffer, kept: Clip::new(OUTPUT_LIMIT) })
    }

    /// Reads until `ended` completes.
    async fn read_while(&mut self, mut ended: impl Future<Output = ()> + Unpin) {
        loop {
            tokio::select! {
                () = &mut ended => return,
                () = self.read(), if self.is_open => {}
            }
        }
    }

    async fn read_to_end(&mut self) {
        while self.is_open {
            self.read().await;
        }
    }

    /// Returns the kept output, terminated by a line end.
    fn into_text(self) -> String {
        let mut text = self.kept.into_text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    async fn read(&mut self) {
        match self.pipe.read(&mut self.buffer).await {
            Ok(0) | Err(_) => self.is_open = false,
            Ok(length) => self.kept.push(&self.buffer[..length]),
        }
    }
}
