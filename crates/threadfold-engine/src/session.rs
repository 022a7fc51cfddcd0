//! A session that is written: the spine, and all that goes through it.

mod append;
mod emit;
mod lease;
mod read_back;

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use threadfold_core::{Json, SessionId};
use threadfold_fold::{
    Cursor, Fold, GENERATION, LogId, Record, RecordKind, Slices, Snapshot, SourceSpec, Step,
    Timestamp, with_causes,
};
use threadfold_store::{Epoch, Holder, Store, StoreError, Summary};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::bus::SessionHandle;
use crate::error::EngineError;
use crate::load::load_within;
use crate::snapshot_writer::{PendingSnapshot, header};
use crate::spill::{Budget, SpillFile};
use append::Appended;
use lease::Tenure;

/// How a session is opened for writing.
pub struct Options {
    /// Who writes, for others who want to.
    pub holder: Holder,
    /// The slices beside the conversation.
    pub slices: Slices,
    /// How many records may come before the next snapshot.
    pub snapshot_every: u64,
    /// How much is held in memory, and where the rest is put away; nothing if all of it is held.
    pub budget: Option<Budget>,
    /// How long others wait for a writer that was not heard of. Who is stopped for longer finds
    /// that another has taken over.
    pub lease: Duration,
}

impl Options {
    /// Returns the options that suit most.
    pub fn new(holder: Holder) -> Self {
        Self {
            holder,
            slices: Slices::default(),
            snapshot_every: 16_384,
            budget: None,
            lease: Duration::from_secs(30),
        }
    }
}

type Observer = Box<dyn FnMut(&Step) -> Result<(), Box<dyn Error + Send + Sync>> + Send>;

/// A session that is written. There is one writer at a time; any number may look on.
///
/// One that is dropped lets go of the session, too, if that happens within a runtime: it can be
/// opened again at once. What [`close`](Self::close) would write for lists is not written then.
/// While one lives, another cannot be opened, also not by the same process.
pub struct Session {
    store: Arc<dyn Store>,
    id: SessionId,
    log: LogId,
    tenure: Tenure,
    fold: Fold,
    /// The file to which the fold spills.
    spill: Option<Arc<SpillFile>>,
    handle: SessionHandle,
    options: Options,
    observers: Vec<Observer>,
    troubles: Vec<String>,
    last_snapshot: u64,
    snapshot: Option<JoinHandle<Result<(), EngineError>>>,
    /// A write was not acknowledged: the log may go further than the fold.
    is_unsettled: bool,
}

impl Session {
    /// Opens a session for writing, and begins its log if there is none.
    pub async fn open(
        store: Arc<dyn Store>,
        id: &SessionId,
        options: Options,
    ) -> Result<Self, EngineError> {
        let log = LogId::from(Uuid::new_v4().simple().to_string());
        store.create(id, log).await?;
        let mut tenure = Tenure::begin(store.clone(), id, &options.holder, options.lease).await?;
        let slices = options.slices.fork();
        let loaded = load_within(&*store, id, u64::MAX, slices, options.budget.clone()).await;
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                tenure.end().await?;
                return Err(error);
            }
        };
        let mut troubles = Vec::new();
        troubles.extend(loaded.passed_over.map(|why| format!("a snapshot was passed over: {why}")));
        Ok(Self {
            handle: SessionHandle::new(loaded.head.log.clone(), &loaded.fold),
            store,
            id: id.clone(),
            log: loaded.head.log,
            tenure,
            last_snapshot: loaded.snapshot.unwrap_or_default(),
            fold: loaded.fold,
            spill: loaded.spill,
            options,
            observers: Vec::new(),
            troubles,
            snapshot: None,
            is_unsettled: false,
        })
    }

    /// The spine: what came in is kept, then understood, then shown.
    ///
    /// Nobody sees what a crash could take back: when this returns, all of it is durable, and
    /// before that none of it is in any state.
    ///
    /// If it fails, or is dropped before it returns, nobody knows whether what was handed over is
    /// in the log. The next call finds out: what is in the log is understood and shown then, and
    /// what is not is forgotten. If that call hands over the same again, of a source and from the
    /// same place on, it is kept once.
    pub async fn accept(&mut self, incoming: Vec<Record>) -> Result<Vec<Arc<Step>>, EngineError> {
        if incoming.is_empty() {
            return Ok(Vec::new());
        }
        self.check_spill()?;
        let appended = self.append_all(incoming).await;
        if let Err(EngineError::Store(StoreError::Fenced { .. })) = &appended {
            // What the other one writes is not published here.
            self.handle.end("another process writes the session");
        }
        let Appended { mut steps, records } = appended?;

        // Nothing is waited for until all of it is shown, so whoever drops this drops no part.
        let (shown, mut due) = (steps.len(), Vec::new());
        for (record, seq) in records.into_iter().zip(self.fold.seq() + 1..) {
            steps.push(Arc::new(self.fold.push(&record.at(seq))));
            due.extend(self.take_if_due());
        }
        self.is_unsettled = false;
        self.show(&steps[shown..])?;

        for snapshot in due {
            self.write_snapshot(snapshot).await;
        }
        Ok(steps)
    }

    fn show(&mut self, steps: &[Arc<Step>]) -> Result<(), EngineError> {
        self.check_spill()?;
        self.handle.publish(&self.fold, steps.to_vec());
        self.tell_observers(steps);
        Ok(())
    }

    fn tell_observers(&mut self, steps: &[Arc<Step>]) {
        for (index, observer) in self.observers.iter_mut().enumerate() {
            for step in steps {
                let told = catch_unwind(AssertUnwindSafe(|| observer(step)));
                let trouble = match told {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "it panicked".to_owned(),
                };
                let seq = step.seq;
                self.troubles.push(format!("observer {index} failed at record {seq}: {trouble}"));
            }
        }
    }

    /// Adds somebody who is told of every step, after it is durable. One who fails does not stop
    /// the others; see [`take_troubles`](Self::take_troubles).
    pub fn observe(
        &mut self,
        observer: impl FnMut(&Step) -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
    ) {
        self.observers.push(Box::new(observer));
    }

    /// Returns what went wrong beside the way and was not told yet: observers that failed,
    /// snapshots that could not be written or read.
    pub fn take_troubles(&mut self) -> Vec<String> {
        std::mem::take(&mut self.troubles)
    }

    /// Returns the number of a source's latest part; it is told to the log if it is new.
    pub async fn source(&mut self, spec: &SourceSpec) -> Result<u32, EngineError> {
        self.settle().await?;
        match self.fold.source(spec) {
            Some(known) => Ok(known.number),
            None => self.declare(spec.clone()).await,
        }
    }

    /// Begins a new part of a source: it was written anew from its beginning.
    pub async fn new_part(&mut self, spec: &SourceSpec) -> Result<u32, EngineError> {
        self.settle().await?;
        let part = self.fold.source(spec).map_or(1, |known| known.spec.part + 1);
        self.declare(SourceSpec { part, ..spec.clone() }).await
    }

    async fn declare(&mut self, spec: SourceSpec) -> Result<u32, EngineError> {
        let source = self.fold.next_source();
        self.accept(vec![Record::new(RecordKind::Source, source, 0, spec.to_json())]).await?;
        Ok(source)
    }

    /// Returns what is derived of the log.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// Returns what is derived of the log, and leaves the session: a lease that is not given back
    /// here is given back as this is dropped.
    pub(crate) fn into_fold(self) -> Fold {
        self.fold.fork()
    }

    /// Refuses to continue if spilled blocks could not be written or read.
    fn check_spill(&self) -> Result<(), EngineError> {
        self.spill.as_ref().map_or(Ok(()), |spill| spill.check())
    }

    /// Returns where its records are.
    pub(crate) fn shared_store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Returns the session's name.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Has the lease run out, instead of being given back, if this is dropped: for a writer who
    /// began something under it that may go on for a moment.
    pub fn let_lease_run_out(&mut self) {
        self.tenure.run_out();
    }

    /// Returns the lease that this writer has, once it is known to hold.
    ///
    /// A fence stops what is written, not what is done: ask this before doing what must not be
    /// done twice. What an earlier write left in the log is heard then.
    pub async fn hold(&mut self) -> Result<Epoch, EngineError> {
        self.settle().await?;
        Ok(self.tenure.hold().await?)
    }

    /// Returns the place of the latest record.
    pub fn cursor(&self) -> Cursor {
        Cursor { log: self.log.clone(), generation: GENERATION, seq: self.fold.seq() }
    }

    /// Returns what others look at the session with.
    pub fn handle(&self) -> SessionHandle {
        self.handle.clone()
    }

    /// Returns all slices as they are now.
    pub fn snapshot(&self, tags: BTreeMap<String, String>) -> Snapshot {
        self.fold.snapshot(header(&self.log, tags))
    }

    /// Takes a snapshot when so many records came since the last one.
    fn take_if_due(&mut self) -> Option<PendingSnapshot> {
        if self.fold.seq() - self.last_snapshot < self.options.snapshot_every {
            return None;
        }
        self.last_snapshot = self.fold.seq();
        Some(PendingSnapshot::of(&self.fold, &self.log, self.spill.clone()))
    }

    /// Begins to write a snapshot, once the one before is written.
    async fn write_snapshot(&mut self, pending: PendingSnapshot) {
        self.finish_snapshot().await;
        let (store, runtime) = (self.store.clone(), Handle::current());
        self.snapshot =
            Some(tokio::task::spawn_blocking(move || runtime.block_on(pending.write(&*store))));
    }

    async fn finish_snapshot(&mut self) {
        let Some(writing) = self.snapshot.take() else { return };
        match writing.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let why = with_causes(&error);
                self.troubles.push(format!("a snapshot was not written: {why}"));
            }
            Err(error) => self.troubles.push(format!("a snapshot was not written: {error}")),
        }
    }

    /// Leaves the session: what lists show of it is written, and others may write.
    ///
    /// Returns what went wrong beside the way.
    pub async fn close(mut self) -> Result<Vec<String>, EngineError> {
        self.leave().await
    }

    /// Leaves the session as [`close`](Self::close) does, where it cannot be given away.
    pub async fn leave(&mut self) -> Result<Vec<String>, EngineError> {
        self.finish_snapshot().await;
        let noted = self.note_summary().await;
        self.tenure.end().await?;
        self.handle.end("the writer closed the session");
        noted?;
        Ok(self.take_troubles())
    }

    async fn note_summary(&mut self) -> Result<(), EngineError> {
        let json = Json::of(&self.fold.summary()).as_str().to_owned();
        self.check_spill()?;
        let summary = Summary { generation: GENERATION, seq: self.fold.seq(), json };
        Ok(self.store.put_summary(&self.id, &self.log, summary).await?)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.handle.end("the writer closed the session");
    }
}

/// Returns the time, for people to look at.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
