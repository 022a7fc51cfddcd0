//! The one thread that writes: it takes all that wait, does them in one transaction, and answers.
//!
//! Whatever waits while one group is made durable becomes the next group, so a hundred writers
//! cost about as many syncs as one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use threadfold_core::SessionId;
use tokio::sync::oneshot;

use crate::bursts::{self, PendingRow};
use crate::cache::SessionCache;
use crate::compact::CompactionQueue;
use crate::connect::{self, Location};
use crate::failure::{Failure, write_error};
use crate::wake::WakeRegistry;
use threadfold_store::StoreError;

/// A group is at most this many jobs, so that the first does not wait for ever.
const GROUP: usize = 1024;

/// So many jobs in one group are many.
const MANY_TOGETHER: usize = 16;
/// How long it is waited for as many as came together before.
const WAITED_FOR: Duration = Duration::from_micros(500);

/// So many tails are made into groups before waiting jobs have their turn.
const SEALED_AT_ONCE: usize = 4;

/// After how many pages the write-ahead file is brought into the database, and written from its
/// beginning again: soon, for writing over a file is quicker than making it longer.
const PAGES: u64 = 1000;
/// The same while bursts come in, which fill it quickly.
const PAGES_OF_BURSTS: u64 = 4096;

/// What a job works with, inside a group's transaction.
pub(crate) struct Ledger<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) cache: &'a mut SessionCache,
    pub(crate) compactions: &'a mut CompactionQueue,
    /// The rows of this group that are not written yet.
    pub(crate) rows: Vec<PendingRow>,
    /// Which sessions became longer.
    pub(crate) grown: &'a mut Vec<SessionId>,
}

impl Ledger<'_> {
    /// Writes the rows that wait, for somebody will look for them.
    pub(crate) fn write_rows(&mut self) -> Result<(), Failure> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        bursts::write(self.connection, rows, &mut self.cache.bursts)
    }

    /// Has all that was appended in the tails.
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
    /// Does it. What stops here stops the group.
    fn run(&mut self, ledger: &mut Ledger<'_>, location: &Location) -> Result<(), rusqlite::Error>;
    /// Says that it is durable.
    fn succeed(self: Box<Self>);
    /// Says that nothing of it happened.
    fn fail(self: Box<Self>, error: StoreError);
}

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
            // Whoever asked may have gone.
            self.answer.send(done).ok();
        }
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let error = match self.done {
            // It was refused for a reason of its own, which still holds.
            Some(Err(refused)) => refused,
            _ => error,
        };
        self.answer.send(Err(error)).ok();
    }
}

/// The writer, as others see it.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Option<Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    place: String,
}

impl Writer {
    /// Starts the thread, with a connection that was opened already.
    pub(crate) fn start(
        location: Location,
        connection: Connection,
        wakes: Arc<WakeRegistry>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let place = location.name.clone();
        let mut state = State {
            location,
            connection: Some(connection),
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

    /// Has `work` done, and returns when it is durable.
    pub(crate) async fn ask<T, F>(&self, work: F) -> Result<T, StoreError>
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
            source: "the thread that writes has ended".into(),
        })
    }
}

impl Drop for Writer {
    /// Lets the thread finish what was asked, and waits for it.
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
    /// Nothing after a failure: the next group opens it anew.
    connection: Option<Connection>,
    cache: SessionCache,
    compactions: CompactionQueue,
    /// What the connection was told last.
    pages: u64,
    wakes: Arc<WakeRegistry>,
}

impl State {
    fn serve(&mut self, jobs: &Receiver<Box<dyn Job>>) {
        let mut waiting = Vec::new();
        let mut together = 0;
        while let Some(mut group) = gather(&mut waiting, jobs, together) {
            let mut grown = Vec::new();
            let done = self.attempt(&mut group, &mut grown);
            // Before anybody is answered, for those ask again.
            waiting.extend(jobs.try_iter().take(GROUP));
            together = group.len() + waiting.len();
            self.answer(group, done, &grown);
            self.seal();
        }
    }

    /// Answers a group of jobs.
    fn answer(&mut self, group: Vec<Box<dyn Job>>, done: Result<(), Failure>, grown: &[SessionId]) {
        match done {
            Ok(()) => {
                self.wakes.grown(grown);
                for job in group {
                    job.succeed();
                }
            }
            Err(stop) => {
                // After a failed sync nothing is believed: neither what this connection holds
                // in memory nor what we remember.
                self.connection = None;
                self.cache.forget_all();
                self.fail(group, stop);
            }
        }
    }

    /// Does a group of jobs in one transaction, and returns when it is durable.
    fn attempt(
        &mut self,
        group: &mut [Box<dyn Job>],
        grown: &mut Vec<SessionId>,
    ) -> Result<(), Failure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.pages = PAGES;
                connect::writer(&self.location)?
            }
        };
        let connection = self.connection.insert(connection);
        let pages = if self.cache.bursts > 0 { PAGES_OF_BURSTS } else { PAGES };
        if self.pages != pages {
            connection.pragma_update(None, "wal_autocheckpoint", pages)?;
            self.pages = pages;
        }
        begin(connection)?;
        self.cache.refresh(connection)?;
        let mut ledger = Ledger {
            connection,
            cache: &mut self.cache,
            compactions: &mut self.compactions,
            rows: Vec::new(),
            grown,
        };
        for job in group {
            job.run(&mut ledger, &self.location)?;
        }
        ledger.write_rows()?;
        end(connection)?;
        Ok(())
    }

    fn fail(&self, group: Vec<Box<dyn Job>>, stop: Failure) {
        let place = &self.location.name;
        let error = match stop {
            Failure::Sqlite(error) => Arc::new(error),
            other => {
                let text = other.while_writing(place).to_string();
                Arc::new(rusqlite::Error::ToSqlConversionFailure(text.into()))
            }
        };
        for job in group {
            job.fail(write_error(place, &error));
        }
    }

    /// Makes groups of the tails that became long, some at a time.
    ///
    /// Nobody waits for this, and nothing new is in it: it is not synced, and a power cut before
    /// the next append takes it back.
    fn seal(&mut self) {
        // While bursts come in, a tail is made into groups when they are moved to the tails.
        let is_time = |cache: &SessionCache, compactions: &CompactionQueue| {
            cache.bursts >= bursts::MOST || (cache.bursts == 0 && compactions.is_due())
        };
        while is_time(&self.cache, &self.compactions) {
            let Some(connection) = &self.connection else { return };
            match seal_some(connection, &mut self.cache, &mut self.compactions) {
                Ok(()) => {}
                // Appends go on, and whoever reads will be told what is damaged. It is tried again
                // after the next group, not at once: it may never succeed, and jobs wait.
                Err(stop) => {
                    self.cache.forget_all();
                    let goes_on = !matches!(stop, Failure::Sqlite(_))
                        && connection.execute_batch("ROLLBACK; PRAGMA synchronous = FULL").is_ok();
                    if !goes_on {
                        self.connection = None;
                    }
                    return;
                }
            }
        }
    }
}

/// Takes all that wait. Where many came together before, as many are waited for a little: those
/// who were answered just now are about to ask again, and one sync serves all of them.
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
    if together < MANY_TOGETHER {
        return Some(group);
    }
    let end = Instant::now() + WAITED_FOR;
    while group.len() < together.min(GROUP)
        && let Ok(job) = jobs.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        group.push(job);
    }
    Some(group)
}

fn seal_some(
    connection: &Connection,
    cache: &mut SessionCache,
    compactions: &mut CompactionQueue,
) -> Result<(), Failure> {
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    begin(connection)?;
    cache.refresh(connection)?;
    settle(connection, cache)?;
    for session in compactions.take(SEALED_AT_ONCE) {
        compactions.seal(connection, cache, &session)?;
    }
    end(connection)?;
    Ok(connection.execute_batch("PRAGMA synchronous = FULL")?)
}

fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    Ok(())
}

fn end(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}
