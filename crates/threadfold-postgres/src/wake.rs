//! Wakes tasks that wait for changes, whichever machine makes them.
//!
//! A write wakes the tasks of its own process immediately. Other processes are notified by one task
//! with its own connection, which sends and receives PostgreSQL's notifications. The transaction
//! that writes never notifies: PostgreSQL commits such transactions one after another. A
//! notification can be lost with its connection, so the same task also polls for writes.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_store::{ChangeCounter, ChangeWaiter};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_postgres::{AsyncMessage, Client};
use xxhash_rust::xxh3::xxh3_64;

use crate::connect::{Connector, ListeningConnection};
use crate::failure::Failure;

/// How often the task asks whether anything was written.
const PERIOD: Duration = Duration::from_secs(1);
/// How long it waits before it connects again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How many sessions one notification names: its text has less than 8,000 bytes.
const MOST_NAMES: usize = 400;

/// The tasks that wait, and the changes that others are to be told.
#[derive(Debug, Default)]
pub(crate) struct WakeRegistry {
    /// By the hashes of the sessions' ids: a wake-up too many does no harm.
    waiters: Mutex<HashMap<u64, watch::Sender<()>>>,
    /// Counts changes of any session.
    changes: ChangeCounter,
    untold: Mutex<BTreeSet<u64>>,
    /// Notifies the task that there is something to tell.
    news: Notify,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is a single call, so a panic elsewhere cannot leave one half done.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hash(session: &SessionId) -> u64 {
    xxh3_64(session.as_str().as_bytes())
}

impl WakeRegistry {
    /// Wakes the waiters of a session that this process created, appended to or removed, and tells
    /// other processes.
    pub(crate) fn changed(&self, session: &SessionId) {
        let hash = hash(session);
        self.wake(hash);
        lock(&self.untold).insert(hash);
        self.news.notify_one();
    }

    fn wake(&self, session: u64) {
        self.changes.advance();
        if let Some(wake) = lock(&self.waiters).get(&session) {
            wake.send_replace(());
        }
    }

    fn wake_all(&self) {
        self.changes.advance();
        for wake in lock(&self.waiters).values() {
            wake.send_replace(());
        }
    }

    /// Starts to wait for one session; no change after this call is missed.
    pub(crate) fn wait_for(self: &Arc<Self>, session: &SessionId) -> SessionWaiter {
        let session = hash(session);
        let wake = lock(&self.waiters).entry(session).or_default().subscribe();
        SessionWaiter { registry: Arc::clone(self), session, wake: Some(wake) }
    }

    /// Starts to wait for any session.
    pub(crate) fn wait_for_any(&self) -> ChangeWaiter {
        self.changes.waiter()
    }
}

/// A task that waits for one session to change.
pub(crate) struct SessionWaiter {
    registry: Arc<WakeRegistry>,
    session: u64,
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
        let mut waiters = lock(&self.registry.waiters);
        if waiters.get(&self.session).is_some_and(|wake| wake.receiver_count() == 0) {
            waiters.remove(&self.session);
        }
    }
}

/// The task that tells other processes of changes, and hears of theirs.
pub(crate) struct Herald {
    task: JoinHandle<()>,
}

impl Herald {
    pub(crate) fn start(connector: Connector, registry: Arc<WakeRegistry>) -> Self {
        Self { task: tokio::spawn(async move { herald(&connector, &registry).await }) }
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn herald(connector: &Connector, registry: &WakeRegistry) {
    let mut pause = FIRST_PAUSE;
    loop {
        match connector.listen().await {
            Ok(connection) => {
                pause = FIRST_PAUSE;
                if let Err(failure) = tell_and_listen(connection, registry).await {
                    tracing::debug!(?failure, "the connection for notifications has ended");
                }
            }
            Err(failure) => {
                tracing::debug!(?failure, "there is no connection for notifications");
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        sleep(pause).await;
    }
}

/// Sends and receives notifications until the connection ends.
async fn tell_and_listen(
    connection: ListeningConnection,
    registry: &WakeRegistry,
) -> Result<(), Failure> {
    let ListeningConnection { client, mut connection } = connection;
    let (heard, mut messages) = mpsc::unbounded_channel();
    // The connection works only while somebody reads it, also while a notification is sent.
    let reading = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(note) = message
                && heard.send((note.process_id(), note.payload().to_owned())).is_err()
            {
                return;
            }
        }
    });
    let _reading = AbortOnDrop(reading);
    client.batch_execute("LISTEN threadfold").await?;
    let own: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    // Whatever was written before is not told again.
    registry.wake_all();
    let mut written = last_write(&client).await?;
    let mut period = interval(PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                // Its own, which woke everybody here before it was sent.
                Some((sender, _)) if sender == own => {}
                Some((_, names)) => hear(registry, &names),
                None => return Ok(()),
            },
            () = registry.news.notified() => tell(&client, registry).await?,
            _ = period.tick() => {
                let now = last_write(&client).await?;
                if now != written {
                    written = now;
                    registry.wake_all();
                }
            }
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns which transactions have begun and ended: it differs after every write.
async fn last_write(client: &Client) -> Result<String, Failure> {
    Ok(client.query_one("SELECT pg_current_snapshot()::text", &[]).await?.try_get(0)?)
}

/// Tells other processes which sessions have changed.
async fn tell(client: &Client, registry: &WakeRegistry) -> Result<(), Failure> {
    let untold = std::mem::take(&mut *lock(&registry.untold));
    let names = if untold.len() > MOST_NAMES {
        "*".to_owned()
    } else {
        untold.iter().fold(String::new(), |mut names, name| {
            // Writing to a string cannot fail.
            write!(names, "{name:x} ").ok();
            names
        })
    };
    client.execute("SELECT pg_notify('threadfold', $1)", &[&names]).await?;
    Ok(())
}

/// Wakes the waiters of the sessions that a notification names.
fn hear(registry: &WakeRegistry, names: &str) {
    if names == "*" {
        return registry.wake_all();
    }
    for name in names.split_ascii_whitespace() {
        match u64::from_str_radix(name, 16) {
            Ok(session) => registry.wake(session),
            // Of another version, which knows more.
            Err(_) => registry.wake_all(),
        }
    }
}
