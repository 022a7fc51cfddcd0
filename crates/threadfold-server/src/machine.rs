//! The sessions of a machine: keeps the list, the import and the status of a server up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use threadfold_core::SessionId;
use threadfold_engine::{
    Budget, Collector, CollectorObserver, CollectorOptions, Discovery, EngineError, FoundSession,
    FoundSessions, ImportCount, ImportIndex, ListedSession, LostContent, RemovedSessions,
    RowLocation, RowReader, SessionQuery, SessionRow, UnreadContent, Writers,
};
use threadfold_fold::with_causes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::catalog::Catalog;
use crate::options::ServerOptions;
use crate::status::{ImportProgress, StatusReport, UnreadReport};
use crate::store_rows::{Activity, follow_store};

/// How many threads read rows at most.
const MOST_THREADS: usize = 8;

/// What the sessions of a machine are found with.
pub struct MachineOptions {
    /// Finds the sessions of the machine. It may block.
    pub discover: Arc<dyn Fn() -> Discovery + Send + Sync>,
    /// The user's home folder, which names projects.
    pub home: PathBuf,
    /// The file with what the store was read from.
    pub index: Option<PathBuf>,
    /// The sessions that are not imported again.
    pub removed: Arc<RemovedSessions>,
    /// The memory budget of sessions that must be folded.
    pub budget: Budget,
    /// The store, for the status.
    pub store: String,
}

/// The sessions of a machine, for a server.
#[derive(Clone)]
pub struct MachineSessions {
    writers: Writers,
    collector: Collector,
    catalog: Arc<Catalog>,
    status: Arc<Mutex<MachineStatus>>,
    found: Arc<Mutex<Option<mpsc::UnboundedReceiver<FoundSessions>>>>,
    rows: Arc<RowOptions>,
}

struct RowOptions {
    home: PathBuf,
    index: Option<PathBuf>,
    removed: Arc<RemovedSessions>,
    budget: Budget,
}

#[derive(Default)]
struct MachineStatus {
    report: StatusReport,
    /// What the last search could not read.
    unread: Vec<UnreadReport>,
    /// What an import could not read, by path.
    failures: BTreeMap<String, UnreadReport>,
}

impl MachineSessions {
    /// Returns the sessions of a machine. Nothing happens before [`run`](Self::run).
    pub fn new(writers: Writers, options: MachineOptions) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let status = Arc::new(Mutex::new(MachineStatus::default()));
        lock(&status).report.store = options.store;
        let observer = Observer { found: sender, status: status.clone() };
        let MachineOptions { discover, home, index, removed, budget, .. } = options;
        let collecting =
            CollectorOptions { discover, index: index.clone(), removed: removed.clone() };
        Self {
            collector: Collector::new(writers.clone(), collecting, observer),
            writers,
            catalog: Catalog::new(),
            status,
            found: Arc::new(Mutex::new(Some(receiver))),
            rows: Arc::new(RowOptions { home, index, removed, budget }),
        }
    }

    /// Gives a server the list, the status, and the sessions that are not imported yet.
    pub fn serve(&self, options: &mut ServerOptions) {
        options.catalog = Some(self.catalog.clone());
        let status = self.status.clone();
        options.status = Some(Arc::new(move || lock(&status).report()));
        let collector = self.collector.clone();
        options.fetch = Some(Arc::new(move |id| {
            let collector = collector.clone();
            Box::pin(async move { collector.fetch(&id).await })
        }));
        let removed = self.rows.removed.clone();
        options.removing = Some(Arc::new(move |id| removed.add(id)));
        let removed = self.rows.removed.clone();
        options.is_removed = Some(Arc::new(move |id| removed.contains(id)));
    }

    /// Returns the list of sessions.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Finds, imports and follows the sessions of the machine until the future is dropped.
    pub async fn run(&self) -> Result<(), EngineError> {
        let receiver = lock(&self.found).take();
        let follow = follow_store(self.catalog.clone(), self.writers.clone(), || true, || {});
        tokio::select! {
            collected = self.collector.run() => collected,
            () = self.list_found(receiver) => Ok(()),
            () = follow => Ok(()),
        }
    }

    /// Lists what was found, one search after another.
    async fn list_found(&self, receiver: Option<mpsc::UnboundedReceiver<FoundSessions>>) {
        let Some(mut receiver) = receiver else { return std::future::pending().await };
        while let Some(mut found) = receiver.recv().await {
            // Only the last search counts, with the changes of all.
            while let Ok(later) = receiver.try_recv() {
                let earlier = std::mem::replace(&mut found, later);
                found.changed.extend(earlier.changed);
            }
            lock(&self.status).note_found(&found.discovery);
            if let Err(error) = self.list(&found).await {
                tracing::warn!("the sessions cannot be listed: {}", with_causes(&error));
            }
            self.catalog.set_complete();
        }
    }

    async fn list(&self, found: &FoundSessions) -> Result<(), EngineError> {
        let host = self.writers.host();
        let listed = host.list(&SessionQuery::default(), &found.discovery).await?.sessions;
        let ids: BTreeSet<String> = listed.iter().map(|it| it.id.to_string()).collect();
        for id in self.catalog.ids().into_iter().filter(|id| !ids.contains(id)) {
            let id = SessionId::from(id.as_str());
            // What is only in the store is kept by whoever follows the store.
            if self.catalog.row(&id).is_some_and(|it| it.session.place == RowLocation::Disk) {
                self.catalog.remove(&id);
            }
        }
        let is_removed =
            |it: &ListedSession| it.stored.is_none() && self.rows.removed.contains(&it.id);
        let is_changed = |it: &ListedSession| {
            let found_id = it.found.as_ref().map(|it| it.id.to_string());
            found_id.is_some_and(|id| found.changed.contains(&id))
                || self.catalog.row(&it.id).is_none()
        };
        let changed: Vec<ListedSession> =
            listed.into_iter().filter(|it| !is_removed(it) && is_changed(it)).collect();
        let reader = RowReader {
            store: Some(host.store().clone()),
            index: self.rows.index.clone().map(ImportIndex::open),
            budget: self.rows.budget.clone(),
            home: self.rows.home.clone(),
        };
        let rows = read_rows(reader, changed).await;
        let mut listed = Vec::new();
        for (session, row) in rows {
            match row {
                Ok(row) => {
                    let is_live = self.writers.is_open(&session.id);
                    let known = self.catalog.row(&session.id);
                    let activity = Activity::of(&self.writers, &session.id, known.as_ref()).await;
                    listed.push(activity.row(row, is_live));
                }
                Err(error) => {
                    if let Some(found) = &session.found {
                        lock(&self.status).note_failure(found, &error);
                    }
                }
            }
        }
        self.catalog.update(listed);
        Ok(())
    }
}

/// Reads rows, several at once.
async fn read_rows(
    reader: RowReader,
    listed: Vec<ListedSession>,
) -> Vec<(ListedSession, Result<SessionRow, EngineError>)> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let shared = Arc::new((reader, listed, AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..threads {
        let shared = shared.clone();
        let runtime = Handle::current();
        tasks.push(tokio::task::spawn_blocking(move || {
            let (reader, listed, next) = &*shared;
            let mut rows = Vec::new();
            while let Some(session) = listed.get(next.fetch_add(1, Ordering::Relaxed)) {
                rows.push((session.clone(), runtime.block_on(reader.read(session))));
            }
            rows
        }));
    }
    let mut rows = Vec::new();
    for task in tasks {
        match task.await {
            Ok(read) => rows.extend(read),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    rows
}

impl MachineStatus {
    fn report(&self) -> StatusReport {
        let unread = self.unread.iter().chain(self.failures.values()).cloned().collect();
        StatusReport { unread, ..self.report.clone() }
    }

    fn note_found(&mut self, found: &Discovery) {
        self.report.sources = found.places.iter().map(|it| it.display().to_string()).collect();
        let unread = found.unread.iter().map(unread_report);
        let unreadable = found.unreadable.iter().map(|(path, why)| UnreadReport {
            agent: None,
            path: path.display().to_string(),
            what: why.clone(),
        });
        let all: Vec<UnreadReport> = unread.chain(unreadable).collect();
        for new in all.iter().filter(|it| !self.unread.contains(it)) {
            tracing::warn!(path = new.path, "found, and not read: {}", new.what);
        }
        self.unread = all;
    }

    fn note_failure(&mut self, found: &FoundSession, error: &EngineError) {
        let what = with_causes(error);
        tracing::warn!("{} was not read: {what}", found.description());
        let path = found.place.display().to_string();
        let agent = found.agent.map(|it| it.name().to_owned());
        let key = format!("{path} {}", found.id);
        self.failures.insert(key, UnreadReport { agent, path, what });
    }
}

fn unread_report(unread: &UnreadContent) -> UnreadReport {
    UnreadReport {
        agent: Some(unread.agent.name().to_owned()),
        path: unread.place.display().to_string(),
        what: format!("{} ({}); {}", unread.what, unread.count, unread.meaning),
    }
}

/// Passes on what the collector does.
struct Observer {
    found: mpsc::UnboundedSender<FoundSessions>,
    status: Arc<Mutex<MachineStatus>>,
}

impl CollectorObserver for Observer {
    fn found(&self, found: FoundSessions) {
        // Nobody lists any more once the server stops.
        self.found.send(found).ok();
    }

    fn imported(&self, session: &SessionId) {
        tracing::debug!(%session, "imported");
    }

    fn progress(&self, count: ImportCount) {
        let ImportCount { total, done, failed } = count;
        let is_complete = done + failed >= total;
        let mut status = lock(&self.status);
        if is_complete && !status.report.import.is_complete {
            tracing::info!(total, failed, "all sessions are imported");
        }
        status.report.import = ImportProgress { total, done, failed, is_complete };
    }

    fn failed(&self, found: &FoundSession, error: &EngineError) {
        lock(&self.status).note_failure(found, error);
    }

    fn lost(&self, found: &FoundSession, lost: &LostContent) {
        let what = format!("it cannot be decompressed to its end: {}", lost.reason);
        let agent = found.agent.map(|it| it.name().to_owned());
        let report = UnreadReport { agent, path: lost.place.clone(), what };
        tracing::warn!(path = report.path, "{}", report.what);
        lock(&self.status).failures.insert(lost.place.clone(), report);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
