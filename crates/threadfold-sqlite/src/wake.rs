//! Wakes tasks that wait for changes, whichever process makes them.
//!
//! The writer thread of this process wakes them directly. Writes of other processes are noticed by
//! one thread that polls SQLite, and only while a task waits.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use threadfold_core::SessionId;
use threadfold_store::{ChangeCounter, ChangeWaiter};
use tokio::sync::watch;

use crate::connect::{self, Access, Location};
use crate::failure::Failure;

/// How often the watcher polls.
const PERIOD: Duration = Duration::from_millis(50);

/// The tasks that wait.
#[derive(Debug, Default)]
pub(crate) struct WakeRegistry {
    waiters: Mutex<WaiterTable>,
    /// Notifies the watcher thread of a new waiter, or that the store closes.
    updated: Condvar,
    /// Counts changes of any session.
    changes: ChangeCounter,
}

#[derive(Debug, Default)]
struct WaiterTable {
    sessions: HashMap<SessionId, watch::Sender<()>>,
    /// A waiter came since the watcher last polled.
    has_new: bool,
    is_closing: bool,
}

impl WakeRegistry {
    fn waiters(&self) -> MutexGuard<'_, WaiterTable> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the waiters of these sessions, which this process created, appended to or removed.
    pub(crate) fn sessions_changed(&self, sessions: &[SessionId]) {
        if sessions.is_empty() {
            return;
        }
        self.changes.advance();
        let waiters = self.waiters();
        for wake in sessions.iter().filter_map(|session| waiters.sessions.get(session)) {
            wake.send_replace(());
        }
    }

    /// Wakes the waiters of all single sessions.
    fn wake_sessions(&self) {
        for wake in self.waiters().sessions.values() {
            wake.send_replace(());
        }
    }

    /// Notifies the watcher thread of a new waiter.
    fn announce(&self, mut waiters: MutexGuard<'_, WaiterTable>) {
        waiters.has_new = true;
        self.updated.notify_all();
    }

    fn wait_for(self: &Arc<Self>, session: &SessionId) -> SessionWaiter {
        let mut waiters = self.waiters();
        let wake = waiters.sessions.entry(session.clone()).or_default().subscribe();
        self.announce(waiters);
        SessionWaiter { registry: Arc::clone(self), session: session.clone(), wake: Some(wake) }
    }

    fn wait_for_any(&self) -> ChangeWaiter {
        let waiter = self.changes.waiter();
        self.announce(self.waiters());
        waiter
    }

    fn has_waiters(&self, waiters: &WaiterTable) -> bool {
        !waiters.sessions.is_empty() || self.changes.waiters() > 0
    }
}

/// A task that waits for one session to change.
pub(crate) struct SessionWaiter {
    registry: Arc<WakeRegistry>,
    session: SessionId,
    wake: Option<watch::Receiver<()>>,
}

impl SessionWaiter {
    /// Returns when the session may have changed.
    pub(crate) async fn woken(&mut self) {
        if let Some(wake) = &mut self.wake {
            // The sender stays in the registry as long as a waiter exists.
            wake.changed().await.ok();
        }
    }
}

impl Drop for SessionWaiter {
    fn drop(&mut self) {
        self.wake = None;
        let mut waiters = self.registry.waiters();
        if waiters.sessions.get(&self.session).is_some_and(|wake| wake.receiver_count() == 0) {
            waiters.sessions.remove(&self.session);
        }
    }
}

/// The thread that notices writes of other processes.
#[derive(Debug)]
pub(crate) struct Watcher {
    registry: Arc<WakeRegistry>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn start(
        location: Location,
        access: Access,
        registry: Arc<WakeRegistry>,
    ) -> std::io::Result<Self> {
        let watched = Arc::clone(&registry);
        let thread = Builder::new()
            .name("threadfold-watch".to_owned())
            .spawn(move || watch(&location, access, &watched))?;
        Ok(Self { registry, thread: Some(thread) })
    }

    /// Starts to wait for one session; no change after this call is missed.
    pub(crate) fn wait_for(&self, session: &SessionId) -> SessionWaiter {
        self.registry.wait_for(session)
    }

    /// Starts to wait for any session.
    pub(crate) fn wait_for_any(&self) -> ChangeWaiter {
        self.registry.wait_for_any()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.registry.waiters().is_closing = true;
        self.registry.updated.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            thread.join().ok();
        }
    }
}

/// Polls while a task waits.
fn watch(location: &Location, access: Access, registry: &WakeRegistry) {
    let mut connection = None;
    // Retained without waiters, so that a task returning with an old position observes every write
    // since. `None` before the first poll counts as a change: positions returned before it may be
    // older than a write of another process.
    let mut last = None;
    while let Some(has_new) = next_poll(registry) {
        let version = data_version(location, access, &mut connection).ok();
        if version.is_none() {
            connection = None;
        }
        if version != last {
            // The version also changes with writes that touch no log, such as a lease renewal, and
            // with those of this process: a spurious wake-up, which the interface allows.
            registry.changes.advance();
        }
        // A new session waiter may have missed a write just before this poll.
        if has_new || version != last {
            registry.wake_sessions();
        }
        last = version;
    }
}

/// Waits until the next poll is due, and returns whether a waiter came meanwhile; `None` when the
/// store closes.
fn next_poll(registry: &WakeRegistry) -> Option<bool> {
    let mut waiters = registry.waiters();
    while !waiters.is_closing && !waiters.has_new {
        if !registry.has_waiters(&waiters) {
            waiters = registry.updated.wait(waiters).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let (woken, timeout) =
            registry.updated.wait_timeout(waiters, PERIOD).unwrap_or_else(PoisonError::into_inner);
        waiters = woken;
        if timeout.timed_out() && registry.has_waiters(&waiters) {
            break;
        }
    }
    if waiters.is_closing {
        return None;
    }
    Some(std::mem::take(&mut waiters.has_new))
}

/// Returns a number that differs from the last one if another connection has written since.
fn data_version(
    location: &Location,
    access: Access,
    connection: &mut Option<Connection>,
) -> Result<i64, Failure> {
    let connection = match connection {
        Some(connection) => connection,
        none => none.insert(connect::reader(location, access)?),
    };
    let version =
        connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    Ok(version)
}
