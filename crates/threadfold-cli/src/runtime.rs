//! Runs asynchronous code from the synchronous program.

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::error::CommandError;

/// Blocks on asynchronous work.
pub(crate) struct Waiter(Runtime);

impl Waiter {
    /// Returns one with threads, for background work.
    pub(crate) fn new() -> Result<Self, CommandError> {
        Self::built(Builder::new_multi_thread().worker_threads(2))
    }

    /// Returns one without threads, for a session that is only read.
    pub(crate) fn single() -> Result<Self, CommandError> {
        Self::built(&mut Builder::new_current_thread())
    }

    fn built(builder: &mut Builder) -> Result<Self, CommandError> {
        builder.enable_all().build().map(Self).map_err(|error| {
            let error = anyhow::Error::new(error).context("cannot start a thread");
            CommandError::new(error, "check how many processes may run at once")
        })
    }

    /// Returns the runtime, for code that waits by itself.
    pub(crate) fn handle(&self) -> &tokio::runtime::Handle {
        self.0.handle()
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.block_on(work)
    }

    /// Starts asynchronous work, which goes on while others are waited for.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.spawn(work)
    }

    /// Exits without waiting for blocked threads, such as one that reads standard
    /// input.
    pub(crate) fn shut_down(self) {
        self.0.shutdown_background();
    }
}
