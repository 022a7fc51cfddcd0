//! Waking those who wait for a session to grow, whoever makes it grow.
//!
//! What this process appends wakes the session's own waiters at once. What other processes write
//! is noticed by one thread that asks SQLite now and then, and only while somebody waits.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use threadfold_core::SessionId;
use tokio::sync::watch;

use crate::connect::{self, Access, Location};
use crate::failure::Failure;

/// How often other processes' writes are looked for.
const PERIOD: Duration = Duration::from_millis(50);

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct WakeRegistry {
    waiting: Mutex<WaiterTable>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaiterTable {
    sessions: HashMap<SessionId, watch::Sender<()>>,
    /// Somebody came since the watcher last looked.
    is_new: bool,
    is_closing: bool,
}

impl WakeRegistry {
    fn waiting(&self) -> MutexGuard<'_, WaiterTable> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// WakeRegistry those who wait for these sessions.
    pub(crate) fn grown(&self, sessions: &[SessionId]) {
        let waiting = self.waiting();
        if waiting.sessions.is_empty() {
            return;
        }
        for wake in sessions.iter().filter_map(|session| waiting.sessions.get(session)) {
            wake.send_replace(());
        }
    }

    fn all(&self) {
        for wake in self.waiting().sessions.values() {
            wake.send_replace(());
        }
    }

    fn wait_for(self: &Arc<Self>, session: &SessionId) -> Waiter {
        let mut waiting = self.waiting();
        let wake = waiting.sessions.entry(session.clone()).or_default();
        let woken = wake.subscribe();
        waiting.is_new = true;
        self.changed.notify_all();
        Waiter { wakes: Arc::clone(self), session: session.clone(), woken: Some(woken) }
    }
}

/// Somebody who waits.
pub(crate) struct Waiter {
    wakes: Arc<WakeRegistry>,
    session: SessionId,
    woken: Option<watch::Receiver<()>>,
}

impl Waiter {
    /// Returns when the session may have grown.
    pub(crate) async fn woken(&mut self) {
        if let Some(woken) = &mut self.woken {
            // The sender lives as long as anybody waits.
            woken.changed().await.ok();
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.woken = None;
        let mut waiting = self.wakes.waiting();
        if waiting.sessions.get(&self.session).is_some_and(|wake| wake.receiver_count() == 0) {
            waiting.sessions.remove(&self.session);
        }
    }
}

/// The thread that notices what other processes write.
#[derive(Debug)]
pub(crate) struct Watcher {
    wakes: Arc<WakeRegistry>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn start(
        location: Location,
        access: Access,
        wakes: Arc<WakeRegistry>,
    ) -> std::io::Result<Self> {
        let watched = Arc::clone(&wakes);
        let thread = Builder::new()
            .name("threadfold-watch".to_owned())
            .spawn(move || watch(&location, access, &watched))?;
        Ok(Self { wakes, thread: Some(thread) })
    }

    /// Begins to wait for a session.
    pub(crate) fn wait_for(&self, session: &SessionId) -> Waiter {
        self.wakes.wait_for(session)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.wakes.waiting().is_closing = true;
        self.wakes.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn watch(location: &Location, access: Access, wakes: &WakeRegistry) {
    let mut connection = None;
    let mut last = None;
    while let Some(is_new) = wait_until_wanted(wakes) {
        let version = data_version(location, access, &mut connection).ok();
        if version.is_none() {
            connection = None;
        }
        // Who came after the last look may have missed a write before this one.
        if is_new || version != last {
            wakes.all();
        }
        last = version;
    }
}

/// Waits a period, or until somebody waits; nothing when the store closes.
fn wait_until_wanted(wakes: &WakeRegistry) -> Option<bool> {
    let mut waiting = wakes.waiting();
    while !waiting.is_closing && !waiting.is_new {
        if waiting.sessions.is_empty() {
            waiting = wakes.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let (woken, timeout) =
            wakes.changed.wait_timeout(waiting, PERIOD).unwrap_or_else(PoisonError::into_inner);
        waiting = woken;
        if timeout.timed_out() && !waiting.sessions.is_empty() {
            break;
        }
    }
    if waiting.is_closing {
        return None;
    }
    Some(std::mem::take(&mut waiting.is_new))
}

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
