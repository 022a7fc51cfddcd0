//! The one thread that writes: it runs all waiting jobs in one transaction, and answers them.
//!
//! Jobs that arrive while a group is synced form the next group, so a hundred writers cost about as
//! many syncs as one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use threadfold_core::SessionId;
use threadfold_fold::Timestamp;
use threadfold_store::{Clock, StoreError};
use tokio::sync::oneshot;

use crate::bursts::{self, PendingRow};
use crate::cache::SessionCache;
use crate::compact::CompactionQueue;
use crate::connect::{self, Location};
use crate::failure::{Failure, write_error};
use crate::shared_memory;
use crate::wake::WakeRegistry;

/// The most jobs of a group; it bounds how long the first of them waits.
const GROUP: usize = 1024;

/// From this many jobs on, the writer waits for more before it starts the next group.
const BUSY: usize = 16;
/// How long it waits for them.
const GATHER_TIME: Duration = Duration::from_micros(500);

/// How many tails are compacted before waiting jobs get their turn.
const COMPACTED_AT_ONCE: usize = 4;

/// The WAL is checkpointed after this many pages, and then written from its start again. Soon,
/// because overwriting a file is faster than growing it.
const PAGES: u64 = 1000;
/// The same while there are bursts, which fill the WAL quickly.
const PAGES_OF_BURSTS: u64 = 4096;

/// What a job works with, inside the transaction of its group.
pub(crate) struct Ledger<'a> {
    pub(crate) connection: &'a Connection,
    /// The store's time for all jobs of the group.
    pub(crate) now: Timestamp,
    pub(crate) cache: &'a mut SessionCache,
    pub(crate) compactions: &'a mut CompactionQueue,
    /// Rows of this group that are not written yet.
    pub(crate) rows: Vec<PendingRow>,
    /// Sessions that were created, appended to or removed.
    pub(crate) changed: &'a mut Vec<SessionId>,
}

impl Ledger<'_> {
    /// Writes the pending rows, for a job that is about to query them.
    pub(crate) fn write_rows(&mut self) -> Result<(), Failure> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        bursts::write(self.connection, rows, &mut self.cache.bursts)
    }

    /// Moves everything that was appended to the tails.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        self.write_rows()?;
        settle(self.connection, self.cache)
    }
}

fn settle(connection: &Connection, cache: &mut SessionCache) -> Result<(), Failure> {
    if cache.bursts > 0 {
        cache.settled(&bursts::distribute(connection)?);
    }
    Ok(())
}

/// Work that waits for the writer.
trait Job: Send {
    /// Does it. An error fails the whole group.
    fn run(&mut self, ledger: &mut Ledger<'_>, location: &Location) -> Result<(), rusqlite::Error>;
    /// Answers that it is durable, or that it was refused.
    fn succeed(self: Box<Self>);
    /// Answers that its group was rolled back.
    fn fail(self: Box<Self>, error: StoreError);
}

/// A job with the channel for its answer.
struct Request<T, F> {
    work: Option<F>,
    done: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Request<T, F>
where
    T: Send,
    F: FnOnce(&mut Ledger<'_>) -> Result<T, Failure> + Send,
{
    fn run(&mut self, ledger: &mut Ledger<'_>, location: &Location) -> Result<(), rusqlite::Error> {
        let Some(work) = self.work.take() else { return Ok(()) };
        self.done = Some(match work(ledger) {
            Ok(value) => Ok(value),
            Err(Failure::Sqlite(error)) => return Err(error),
            Err(refused) => Err(refused.while_writing(&location.name)),
        });
        Ok(())
    }

    fn succeed(self: Box<Self>) {
        if let Some(done) = self.done {
            // The caller may have been dropped.
            self.answer.send(done).ok();
        }
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let error = match self.done {
            // Refused for a reason of its own, which still holds.
            Some(Err(refused)) => refused,
            _ => error,
        };
        self.answer.send(Err(error)).ok();
    }
}

/// The handle of the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Option<Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    place: String,
}

impl Writer {
    /// Starts the thread, with a connection that is open already.
    pub(crate) fn start(
        location: Location,
        connection: Connection,
        clock: Clock,
        wakes: Arc<WakeRegistry>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let place = location.name.clone();
        let mut state = State {
            has_small_blocks: shared_memory::has_small_blocks(&location),
            location,
            connection: Some(connection),
            clock,
            cache: SessionCache::default(),
            compactions: CompactionQueue::default(),
            pages: PAGES,
            wakes,
        };
        let thread = Builder::new()
            .name("threadfold-store".to_owned())
            .spawn(move || state.serve(&receiver))?;
        Ok(Self { jobs: Some(sender), thread: Some(thread), place })
    }

    /// Runs `work` on the writer thread, and returns when its result is durable.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(Request { work: Some(work), done: None, answer });
        let is_sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if is_sent && let Ok(done) = answered.await {
            return done;
        }
        Err(StoreError::Unwritable {
            place: self.place.clone(),
            source: "the writer thread has ended".into(),
        })
    }
}

impl Drop for Writer {
    /// Lets the thread finish its jobs, and waits for it.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            thread.join().ok();
        }
    }
}

/// What the thread owns.
struct State {
    location: Location,
    /// SQLite may write into holes of its shared memory, see `shared_memory`.
    has_small_blocks: bool,
    /// `None` after a failure: the next group opens a new one.
    connection: Option<Connection>,
    clock: Clock,
    cache: SessionCache,
    compactions: CompactionQueue,
    /// The `wal_autocheckpoint` that the connection has.
    pages: u64,
    wakes: Arc<WakeRegistry>,
}

impl State {
    fn serve(&mut self, jobs: &Receiver<Box<dyn Job>>) {
        let mut waiting = Vec::new();
        let mut together = 0;
        while let Some(mut group) = gather(&mut waiting, jobs, together) {
            let mut changed = Vec::new();
            let done = self.attempt(&mut group, &mut changed);
            // Counted before the answers, because whoever is answered sends its next job.
            waiting.extend(jobs.try_iter().take(GROUP));
            together = group.len() + waiting.len();
            self.answer(group, done, &changed);
            self.compact();
        }
    }

    fn answer(
        &mut self,
        group: Vec<Box<dyn Job>>,
        done: Result<(), Failure>,
        changed: &[SessionId],
    ) {
        match done {
            Ok(()) => {
                self.wakes.sessions_changed(changed);
                for job in group {
                    job.succeed();
                }
            }
            Err(failure) => {
                // After a failed sync the operating system may have dropped dirty pages: neither
                // the connection's page cache nor our own cache can be trusted.
                self.connection = None;
                self.cache.forget_all();
                self.fail(group, failure);
            }
        }
    }

    /// Runs a group of jobs in one transaction, and returns when it is durable.
    fn attempt(
        &mut self,
        group: &mut [Box<dyn Job>],
        changed: &mut Vec<SessionId>,
    ) -> Result<(), Failure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.pages = PAGES;
                connect::writer(&self.location)?
            }
        };
        let connection = self.connection.insert(connection);
        if self.has_small_blocks {
            shared_memory::check_room(&self.location)?;
        }
        let pages = if self.cache.bursts > 0 { PAGES_OF_BURSTS } else { PAGES };
        if self.pages != pages {
            connection.pragma_update(None, "wal_autocheckpoint", pages)?;
            self.pages = pages;
        }
        begin(connection)?;
        self.cache.refresh(connection)?;
        let mut ledger = Ledger {
            connection,
            // Read after the lock was acquired: waiting for it may have taken seconds, in which a
            // lease can expire.
            now: self.clock.now(),
            cache: &mut self.cache,
            compactions: &mut self.compactions,
            rows: Vec::new(),
            changed,
        };
        for job in group {
            job.run(&mut ledger, &self.location)?;
        }
        ledger.write_rows()?;
        commit(connection)?;
        Ok(())
    }

    fn fail(&self, group: Vec<Box<dyn Job>>, failure: Failure) {
        let place = &self.location.name;
        let error = match failure {
            Failure::Sqlite(error) => Arc::new(error),
            other => {
                // Every job gets the cause again inside an error of its own.
                let cause = first_cause(&other.while_writing(place));
                Arc::new(rusqlite::Error::ToSqlConversionFailure(cause.into()))
            }
        };
        for job in group {
            job.fail(write_error(place, &error));
        }
    }

    /// Compacts long tails, a few at a time.
    ///
    /// No caller waits for it, and it adds nothing new, so it is not synced: a power cut before the
    /// next append undoes it.
    fn compact(&mut self) {
        // While there are bursts, tails are compacted when the bursts are moved to them.
        let is_due = |cache: &SessionCache, compactions: &CompactionQueue| {
            cache.bursts >= bursts::MOST || (cache.bursts == 0 && compactions.is_due())
        };
        while is_due(&self.cache, &self.compactions) {
            let Some(connection) = &self.connection else { return };
            let now = self.clock.now();
            match compact_some(connection, now, &mut self.cache, &mut self.compactions) {
                Ok(()) => {}
                // Appends continue, and readers report the corruption. Retried after the next
                // group, not now: it may never succeed, and jobs wait.
                Err(failure) => {
                    self.cache.forget_all();
                    let can_continue = !matches!(failure, Failure::Sqlite(_))
                        && connection.execute_batch("ROLLBACK; PRAGMA synchronous = FULL").is_ok();
                    if !can_continue {
                        self.connection = None;
                    }
                    return;
                }
            }
        }
    }
}

/// Takes all waiting jobs. If the last groups were large, it waits briefly for as many jobs: the
/// callers that were just answered are about to send their next ones, and one sync serves all.
fn gather(
    waiting: &mut Vec<Box<dyn Job>>,
    jobs: &Receiver<Box<dyn Job>>,
    together: usize,
) -> Option<Vec<Box<dyn Job>>> {
    let mut group = std::mem::take(waiting);
    if group.is_empty() {
        group.push(jobs.recv().ok()?);
    }
    group.extend(jobs.try_iter().take(GROUP - group.len().min(GROUP)));
    if together < BUSY {
        return Some(group);
    }
    let end = Instant::now() + GATHER_TIME;
    while group.len() < together.min(GROUP)
        && let Ok(job) = jobs.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        group.push(job);
    }
    Some(group)
}

fn compact_some(
    connection: &Connection,
    now: Timestamp,
    cache: &mut SessionCache,
    compactions: &mut CompactionQueue,
) -> Result<(), Failure> {
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    begin(connection)?;
    cache.refresh(connection)?;
    settle(connection, cache)?;
    for session in compactions.take(COMPACTED_AT_ONCE) {
        compactions.compact(connection, now, cache, &session)?;
    }
    commit(connection)?;
    Ok(connection.execute_batch("PRAGMA synchronous = FULL")?)
}

/// Starts a transaction with the write lock: upgrading a read transaction could fail halfway.
fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    Ok(())
}

fn commit(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

/// Returns the text of the error that caused all others.
fn first_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
