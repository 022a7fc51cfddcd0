//! Runs file operations on blocking threads, and stops them on request.

use std::time::Instant;

use tokio::task::{JoinError, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::tool::{ToolContext, ToolError, ToolOutput};

/// When a call must stop.
#[derive(Clone)]
pub(crate) struct Stop {
    cancel: CancellationToken,
    deadline: Option<Instant>,
}

/// Why a call must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    Cancelled,
    TimedOut,
}

impl Stop {
    pub(crate) fn of(context: &ToolContext) -> Self {
        Self { cancel: context.cancel.clone(), deadline: context.deadline }
    }

    /// Sets the deadline to `deadline`, if that is earlier.
    pub(crate) fn by(mut self, deadline: Instant) -> Self {
        self.deadline = Some(self.deadline.map_or(deadline, |it| it.min(deadline)));
        self
    }

    pub(crate) fn check(&self) -> Result<(), StopReason> {
        if self.cancel.is_cancelled() {
            Err(StopReason::Cancelled)
        } else if self.deadline.is_some_and(|it| it <= Instant::now()) {
            Err(StopReason::TimedOut)
        } else {
            Ok(())
        }
    }

    /// Waits until the call must stop.
    pub(crate) async fn reached(&self) -> StopReason {
        let late = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cancel.cancelled() => StopReason::Cancelled,
            () = late => StopReason::TimedOut,
        }
    }
}

impl StopReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "it was cancelled",
            Self::TimedOut => "it timed out",
        }
    }
}

impl From<StopReason> for ToolError {
    fn from(stopped: StopReason) -> Self {
        let why = stopped.as_str();
        Self::failed(format!("stopped before it was done: {why}; request less at a time"))
    }
}

/// Runs a read-only operation. It is not awaited when the call must stop.
pub(super) async fn run_blocking<F>(context: &ToolContext, work: F) -> Result<ToolOutput, ToolError>
where
    F: FnOnce(&Stop) -> Result<ToolOutput, ToolError> + Send + 'static,
{
    let stop = Stop::of(context);
    stop.check()?;
    let inner = stop.clone();
    tokio::select! {
        done = spawn_blocking(move || work(&inner)) => done.map_err(broken)?,
        stopped = stop.reached() => Err(stopped.into()),
    }
}

/// Runs an operation that changes something. Once started it is always awaited: it is short, and
/// its outcome must be known.
pub(super) async fn change<T, F>(context: &ToolContext, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, ToolError> + Send + 'static,
{
    Stop::of(context).check()?;
    spawn_blocking(work).await.map_err(broken)?
}

fn broken(error: JoinError) -> ToolError {
    ToolError::unknown(format!("the tool was interrupted: {error}"))
}
