//! Kills the own process at an append: before it, or when it is done.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use rustix::process::{Signal, getpid, kill_process};
use threadfold_store::StoreError;
use threadfold_testkit::{StoreCall, StoreHooks};

use crate::child::Fail;

/// Hooks of a store that kill the own process at an append.
pub(crate) struct KillSwitch {
    fail: Fail,
    appends: AtomicU64,
}

impl KillSwitch {
    pub(crate) fn new(fail: Fail) -> Self {
        Self { fail, appends: AtomicU64::new(0) }
    }
}

fn die() -> ! {
    // If the signal cannot be sent, the process must end all the same.
    if kill_process(getpid(), Signal::KILL).is_err() {
        std::process::abort();
    }
    loop {
        std::thread::park();
    }
}

#[async_trait]
impl StoreHooks for KillSwitch {
    /// The number of an append, from 1; 0 for other calls.
    type Ticket = u64;

    async fn before(&self, call: StoreCall) -> Result<u64, StoreError> {
        if call != StoreCall::Append {
            return Ok(0);
        }
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        if self.fail == Fail::Before(number) {
            die();
        }
        Ok(number)
    }

    async fn after(&self, call: StoreCall, number: u64) -> Result<(), StoreError> {
        if call == StoreCall::Append && self.fail == Fail::After(number) {
            die();
        }
        Ok(())
    }
}
