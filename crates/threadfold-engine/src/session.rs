//! A session opened for writing: the spine, and everything that goes through it.

mod append;
mod lease;
mod observations;
mod read_back;
mod slice_commands;

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use threadfold_core::{Json, SessionId};
use threadfold_fold::{
    Cursor, Fold, GENERATION, LogId, Record, RecordKind, SessionSummary, Slices, Snapshot,
    SourceSpec, Step, StoredRecord, Timestamp, with_causes,
};
use threadfold_store::{Epoch, Holder, Store, StoreError, Summary};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::error::EngineError;
use crate::files::InputFile;
use crate::import_index::KnownFiles;
use crate::listeners::SessionHandle;
use crate::load::{LoadReport, load_records, load_within};
use crate::parts_on_disk::PartsOnDisk;
use crate::snapshot_writer::{PendingSnapshot, header, snapshot_distance};
use crate::spill_file::Budget;
use append::AppendedRecords;
use lease::HeldLease;

/// From this many bytes on, a session without a snapshot gets one when it is closed: until then,
/// folding its records takes less time than anybody notices, and a snapshot as much room as they.
const LONG_SESSION: u64 = 8 << 20;
/// After so many bytes, a session gets another one when it is closed.
const MUCH_AFTER_SNAPSHOT: u64 = 1 << 20;
/// Fewer records than that are a few large blocks, of which most are looked at.
const FEWEST_RECORDS: u64 = 256;
/// How many bytes are appended at once. A file is read in portions of several appends, because one
/// is folded while the next is written.
const BATCH_BYTES: usize = 1 << 20;
/// Fewer are appended together with the batch before.
const SHORT_BATCH: usize = BATCH_BYTES / 4;
/// How much memory the records of one append may take, and how much each takes beside its bytes.
const BATCH_WEIGHT: usize = 4 << 20;
const RECORD_WEIGHT: usize = 2 << 10;
/// How many steps exist at once where nobody wants them.
const STEPS_AT_ONCE: usize = 128;

/// Receives records of a log in order.
pub type RecordInspector = Box<dyn FnMut(&StoredRecord) + Send + Sync>;

/// How a session is opened for writing.
pub struct Options {
    /// The lease holder shown to other writers.
    pub holder: Holder,
    /// The slices in addition to the conversation.
    pub slices: Slices,
    /// How many records to append between two snapshots; more in a log that is long, or has many
    /// subagents.
    pub snapshot_every: u64,
    /// The memory budget, and where to spill the rest; `None` keeps everything in memory.
    pub budget: Option<Budget>,
    /// Receives every record of the log while the session is opened, which then starts from no
    /// snapshot: what it derives from the records, the session has derived from the same ones.
    pub inspector: Option<RecordInspector>,
    /// The session as it was loaded just before, with the same slices and budget: it is loaded again
    /// only if it has grown since.
    pub loaded: Option<LoadReport>,
    /// How long a lease lasts without renewal. A writer that is suspended for longer may find that
    /// another one has taken over.
    pub lease: Duration,
}

impl Options {
    /// Returns the default options.
    pub fn new(holder: Holder) -> Self {
        Self {
            holder,
            slices: Slices::default(),
            snapshot_every: 16_384,
            budget: None,
            inspector: None,
            loaded: None,
            lease: Duration::from_secs(30),
        }
    }
}

type Observer = Box<dyn FnMut(&Step) -> Result<(), Box<dyn Error + Send + Sync>> + Send>;

/// A session opened for writing. It has one writer at a time, and any number of readers.
///
/// Dropping it within a runtime releases the lease, too, so the session can be reopened at once,
/// but skips the summary that [`close`](Self::close) writes for lists.
/// While it is open, it cannot be opened again, not even by the same process.
pub struct Session {
    store: Arc<dyn Store>,
    id: SessionId,
    log: LogId,
    tenure: HeldLease,
    fold: Fold,
    /// What of the fold is not in memory.
    parts: PartsOnDisk,
    handle: SessionHandle,
    options: Options,
    observers: Vec<Observer>,
    warnings: Vec<String>,
    last_snapshot: u64,
    /// How many bytes of records the log has after it.
    bytes_since_snapshot: u64,
    snapshot: Option<JoinHandle<Result<(), EngineError>>>,
    /// A write was not acknowledged: the log may be ahead of the fold.
    is_unsettled: bool,
    /// The append that runs while earlier records are folded.
    running_append: Option<JoinHandle<Result<(), EngineError>>>,
    /// Files that the log contains.
    known_files: KnownFiles,
}

impl Session {
    /// Opens a session for writing, and creates its log if there is none.
    pub async fn open(
        store: Arc<dyn Store>,
        id: &SessionId,
        mut options: Options,
    ) -> Result<Self, EngineError> {
        let log = LogId::from(Uuid::new_v4().simple().to_string());
        store.create(id, log).await?;
        let mut tenure =
            HeldLease::begin(store.clone(), id, &options.holder, options.lease).await?;
        let slices = options.slices.fork();
        let loaded = match options.loaded.take() {
            Some(loaded) if loaded.is_end_of(&*store, id).await => Some(loaded),
            _ => None,
        };
        let loaded = match (options.inspector.take(), loaded) {
            (None, Some(loaded)) => Ok(loaded),
            (None, None) => load_within(&store, id, u64::MAX, slices, options.budget.clone()).await,
            (Some(inspector), _) => {
                load_records(&*store, id, slices, options.budget.clone(), inspector).await
            }
        };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                tenure.end().await?;
                return Err(error);
            }
        };
        let mut warnings = Vec::new();
        warnings.extend(loaded.passed_over.map(|why| format!("a snapshot was skipped: {why}")));
        let handle = SessionHandle::new(loaded.head.log.clone(), &loaded.fold);
        tenure.publish(handle.clone());
        Ok(Self {
            handle,
            store,
            id: id.clone(),
            log: loaded.head.log,
            tenure,
            last_snapshot: loaded.snapshot.unwrap_or_default(),
            bytes_since_snapshot: loaded.bytes,
            fold: loaded.fold,
            parts: loaded.parts,
            options,
            observers: Vec::new(),
            warnings,
            snapshot: None,
            is_unsettled: false,
            running_append: None,
            known_files: KnownFiles::default(),
        })
    }

    /// The spine: incoming records are stored, then folded, then published.
    ///
    /// Nothing is published that a crash could undo: when this returns, every record is durable,
    /// and before that, none is in any state.
    ///
    /// If it fails, or is dropped before it returns, it is unknown whether the records are in the
    /// log. The next call settles that: records in the log are folded and published then, and the
    /// others are dropped. If that call passes the same records of a source again, at the same
    /// position, they are deduplicated.
    ///
    /// Records of the loop are refused: whatever is read from elsewhere is history. So are
    /// observations, which [`record_observations`](Self::record_observations) writes.
    pub async fn accept(&mut self, incoming: Vec<Record>) -> Result<Vec<Arc<Step>>, EngineError> {
        refuse_own(&incoming)?;
        self.accept_any(incoming).await
    }

    /// Appends what the loop that runs this session did, and nothing else.
    ///
    /// This is for a loop's own ledger. What it may do later is read from these records, so no
    /// content of a file, a pipe or a server belongs here.
    pub async fn append_ledger(
        &mut self,
        records: Vec<Record>,
    ) -> Result<Vec<Arc<Step>>, EngineError> {
        if let Some(record) = records.iter().find(|it| !it.kind.is_of_loop()) {
            return Err(EngineError::NotTheLoop { kind: record.kind.name() });
        }
        self.accept_any(records).await
    }

    async fn accept_any(&mut self, incoming: Vec<Record>) -> Result<Vec<Arc<Step>>, EngineError> {
        let mut all = Vec::new();
        self.accept_each(incoming, usize::MAX, |steps| all.extend_from_slice(steps)).await?;
        Ok(all)
    }

    /// Appends records at once, then folds and publishes them, at most `portion` at a time.
    async fn accept_each(
        &mut self,
        incoming: Vec<Record>,
        portion: usize,
        mut each: impl FnMut(&[Arc<Step>]),
    ) -> Result<(), EngineError> {
        if incoming.is_empty() {
            return Ok(());
        }
        self.check_spill()?;
        let appended = self.append_all(incoming).await;
        let AppendedRecords { steps, records } = self.end_if_fenced(appended)?;
        each(&steps);
        drop(steps);
        let due = self.fold_appended(records, portion, each)?;
        self.is_unsettled = false;
        self.write_snapshots(due).await;
        Ok(())
    }

    /// Ends the handle if another writer has taken over: its records are not published here.
    fn end_if_fenced<T>(&self, appended: Result<T, EngineError>) -> Result<T, EngineError> {
        if let Err(EngineError::Store(StoreError::Fenced { .. })) = &appended {
            self.handle.end("another process is writing the session");
        }
        appended
    }

    /// Folds and publishes records that are durable, and returns the snapshots that are due.
    ///
    /// There is no `await` before everything is published, so a dropped future loses nothing. If an
    /// observer fails, the rest is settled by the next write.
    fn fold_appended(
        &mut self,
        records: Vec<Record>,
        portion: usize,
        mut each: impl FnMut(&[Arc<Step>]),
    ) -> Result<Vec<PendingSnapshot>, EngineError> {
        let (mut records, mut due) = (records.into_iter().peekable(), Vec::new());
        self.is_unsettled = true;
        while records.peek().is_some() {
            let mut steps = Vec::new();
            for record in records.by_ref().take(portion) {
                let seq = self.fold.seq() + 1;
                self.bytes_since_snapshot += record.bytes.len() as u64;
                steps.push(Arc::new(self.fold.push(&record.at(seq))));
                due.extend(self.take_if_due());
            }
            self.show(&steps)?;
            each(&steps);
        }
        Ok(due)
    }

    async fn write_snapshots(&mut self, due: Vec<PendingSnapshot>) {
        for snapshot in due {
            self.write_snapshot(snapshot).await;
        }
    }

    /// Accepts records in batches of limited size, and drops their steps.
    ///
    /// While one batch is folded, the next one is appended, on other threads.
    ///
    /// A step of a record of three bytes takes over a thousand, so a batch is limited by the number
    /// of its records as well as by their size, and only a few of its steps exist at once.
    pub(crate) async fn accept_in_batches(
        &mut self,
        incoming: Vec<Record>,
    ) -> Result<(), EngineError> {
        refuse_own(&incoming)?;
        let mut batches = batches(incoming).into_iter();
        let Some(first) = batches.next() else { return Ok(()) };
        self.check_spill()?;
        let mut appended = self.append_all(first).await;
        loop {
            let AppendedRecords { records, .. } = self.end_if_fenced(appended)?;
            let last = self.fold.seq() + records.len() as u64;
            let next = batches.next().map(|batch| self.start_append(last, batch));
            let due = self.fold_appended(records, STEPS_AT_ONCE, |_| {})?;
            self.is_unsettled = next.is_some();
            self.write_snapshots(due).await;
            let Some(records) = next else { return Ok(()) };
            let finished = self.finish_append().await;
            appended = finished.map(|()| AppendedRecords { steps: Vec::new(), records });
        }
    }

    fn show(&mut self, steps: &[Arc<Step>]) -> Result<(), EngineError> {
        self.check_spill()?;
        self.handle.publish(&self.fold, steps.to_vec());
        self.notify_observers(steps);
        Ok(())
    }

    fn notify_observers(&mut self, steps: &[Arc<Step>]) {
        for (index, observer) in self.observers.iter_mut().enumerate() {
            for step in steps {
                let told = catch_unwind(AssertUnwindSafe(|| observer(step)));
                let trouble = match told {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "it panicked".to_owned(),
                };
                let seq = step.seq;
                self.warnings.push(format!("observer {index} failed at record {seq}: {trouble}"));
            }
        }
    }

    /// Adds an observer that is called with every step, after it is durable. A failing observer
    /// does not stop the others; see [`take_warnings`](Self::take_warnings).
    pub fn observe(
        &mut self,
        observer: impl FnMut(&Step) -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
    ) {
        self.observers.push(Box::new(observer));
    }

    /// Returns the non-fatal errors since the last call: failed observers, and snapshots that could
    /// not be written or read.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the number of a source's latest part; a new source is declared in the log.
    pub async fn source(&mut self, spec: &SourceSpec) -> Result<u32, EngineError> {
        self.settle().await?;
        match self.fold.source(spec) {
            Some(known) => Ok(known.number),
            None => self.declare(self.declaration(spec.clone())?).await,
        }
    }

    /// Begins a new part of a source: its file was rewritten from the beginning.
    pub async fn new_part(&mut self, spec: &SourceSpec) -> Result<u32, EngineError> {
        self.settle().await?;
        self.declare(self.declaration_of_part(spec)?).await
    }

    async fn declare(&mut self, declaration: Record) -> Result<u32, EngineError> {
        let source = declaration.source;
        self.accept(vec![declaration]).await?;
        Ok(source)
    }

    /// Returns the record that declares a new source. It is to be accepted before the source's
    /// records, and before another source is declared.
    pub(crate) fn declaration(&self, spec: SourceSpec) -> Result<Record, EngineError> {
        if self.fold.is_run() {
            return Err(EngineError::IsRun { session: self.id.clone() });
        }
        Ok(Record::new(RecordKind::Source, self.fold.next_source(), 0, spec.to_json()))
    }

    /// Returns the record that declares a new part of a source.
    pub(crate) fn declaration_of_part(&self, spec: &SourceSpec) -> Result<Record, EngineError> {
        let part = self.fold.source(spec).map_or(1, |known| known.spec.part + 1);
        self.declaration(SourceSpec { part, ..spec.clone() })
    }

    /// Returns the fold of the log.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// Returns the fold of the log, and drops the session; the lease is released on drop, if it
    /// was not released before.
    pub(crate) fn into_fold(mut self) -> Fold {
        let empty = Fold::new(self.id.clone(), Slices::default());
        std::mem::replace(&mut self.fold, empty)
    }

    /// Sets the files that the log contains, so that they are not read again.
    pub(crate) fn know_files(&mut self, known: KnownFiles) {
        self.known_files = known;
    }

    /// Returns the files that the log contains, as far as they are known.
    pub(crate) fn known_files(&self) -> &KnownFiles {
        &self.known_files
    }

    /// Notes that the log contains a file up to a place, with these bytes before it.
    pub(crate) fn note_read(&mut self, file: &InputFile, end: u64, tail: &[u8]) {
        self.known_files.note(&self.fold, file, end, tail);
    }

    /// Notes that the log contains a file that is one record.
    pub(crate) fn note_document(&mut self, file: &InputFile, bytes: &[u8]) {
        self.known_files.note_document(file, bytes);
    }

    /// Returns the files that the log contains, as far as they are known, and forgets them.
    pub(crate) fn take_known_files(&mut self) -> KnownFiles {
        std::mem::take(&mut self.known_files)
    }

    /// Fails if spilled blocks could not be written or read.
    fn check_spill(&self) -> Result<(), EngineError> {
        self.parts.check()
    }

    /// Returns the store of its records.
    pub(crate) fn shared_store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Returns the session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the id of the session's log.
    pub fn log(&self) -> &LogId {
        &self.log
    }

    /// Lets the lease expire instead of releasing it on drop: for a writer that started work under
    /// the lease that may still be running.
    pub fn let_lease_expire(&mut self) {
        self.tenure.let_expire();
    }

    /// Returns the epoch of the writer's lease, after confirming that it is still held.
    ///
    /// A fence stops writes, not side effects: call this before an effect that must not happen
    /// twice. It also folds what an earlier unacknowledged write left in the log.
    pub async fn hold(&mut self) -> Result<Epoch, EngineError> {
        self.settle().await?;
        Ok(self.tenure.hold().await?)
    }

    /// Returns the cursor of the latest record.
    pub fn cursor(&self) -> Cursor {
        Cursor { log: self.log.clone(), generation: GENERATION, seq: self.fold.seq() }
    }

    /// Returns the handle for the session's readers.
    pub fn handle(&self) -> SessionHandle {
        self.handle.clone()
    }

    /// Returns a snapshot of all slices.
    pub fn snapshot(&self, tags: BTreeMap<String, String>) -> Snapshot {
        self.fold.snapshot(header(&self.log, tags))
    }

    /// Takes a snapshot if enough records were appended since the last one.
    fn take_if_due(&mut self) -> Option<PendingSnapshot> {
        let distance = snapshot_distance(&self.fold, self.options.snapshot_every);
        let is_due = self.fold.seq() - self.last_snapshot >= distance;
        is_due.then(|| self.take_snapshot())
    }

    /// Takes a last snapshot, if those who look at the session would fold much after the one before.
    fn take_last(&mut self) -> Option<PendingSnapshot> {
        let least = if self.last_snapshot > 0 { MUCH_AFTER_SNAPSHOT } else { LONG_SESSION };
        let records = self.fold.seq() - self.last_snapshot;
        let is_due = self.options.snapshot_every < u64::MAX
            && self.bytes_since_snapshot >= least
            && records >= FEWEST_RECORDS;
        is_due.then(|| self.take_snapshot())
    }

    fn take_snapshot(&mut self) -> PendingSnapshot {
        self.last_snapshot = self.fold.seq();
        self.bytes_since_snapshot = 0;
        PendingSnapshot::of(&self.fold, &self.log, self.parts.clone())
    }

    /// Starts writing a snapshot, after the previous one is written.
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
                self.warnings.push(format!("a snapshot was not written: {why}"));
            }
            Err(error) => self.warnings.push(format!("a snapshot was not written: {error}")),
        }
    }

    /// Closes the session: writes its summary for lists, and releases the lease.
    ///
    /// Returns the non-fatal errors.
    pub async fn close(mut self) -> Result<Vec<String>, EngineError> {
        self.finish_snapshot().await;
        let seq = self.fold.seq();
        let last = self.take_last();
        let empty = Fold::new(self.id.clone(), Slices::default());
        let fold = std::mem::replace(&mut self.fold, empty);
        let summary = match last {
            Some(last) if last.is_outlined() => {
                let mut settling = Vec::new();
                let summary = fold.into_summary_with(|events| settling.extend_from_slice(events));
                self.write_snapshot(last.settled_by(settling)).await;
                self.finish_snapshot().await;
                summary
            }
            Some(last) => {
                // While the snapshot is there, whatever is settled would be in memory twice.
                self.write_snapshot(last).await;
                self.finish_snapshot().await;
                fold.into_summary()
            }
            None => fold.into_summary(),
        };
        self.end(seq, &summary).await
    }

    /// Closes the session as [`close`](Self::close) does, without consuming it.
    pub async fn leave(&mut self) -> Result<Vec<String>, EngineError> {
        self.finish_snapshot().await;
        let (seq, summary) = (self.fold.seq(), self.fold.summary());
        self.end(seq, &summary).await
    }

    async fn end(
        &mut self,
        seq: u64,
        summary: &SessionSummary,
    ) -> Result<Vec<String>, EngineError> {
        let noted = self.note_summary(seq, summary).await;
        self.abandon_append().await;
        self.tenure.end().await?;
        self.handle.end("the writer closed the session");
        noted?;
        Ok(self.take_warnings())
    }

    async fn note_summary(
        &mut self,
        seq: u64,
        summary: &SessionSummary,
    ) -> Result<(), EngineError> {
        let json = Json::of(summary).as_str().to_owned();
        self.check_spill()?;
        let summary = Summary { generation: GENERATION, seq, json };
        Ok(self.store.put_summary(&self.id, &self.log, summary).await?)
    }
}

/// Splits records into batches of limited weight.
///
/// A batch that is large enough ends after a record of a certain length. A fork repeats the lines of
/// a session with another id of the same length: so both are split at the same lines, whatever
/// precedes them, and a store that deduplicates content keeps them once. A short rest is added to the
/// batch before it, because short appends are stored less compactly.
fn batches(records: Vec<Record>) -> Vec<Vec<Record>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for record in records {
        let length = record.bytes.len();
        bytes += length;
        batch.push(record);
        let is_end = bytes >= BATCH_BYTES / 2 && length % 32 == 0;
        let is_full = bytes + batch.len() * RECORD_WEIGHT >= BATCH_WEIGHT || bytes >= BATCH_BYTES;
        if is_end || is_full {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
    }
    match batches.last_mut() {
        Some(last) if bytes < SHORT_BATCH && batch.len() <= last.len() / 4 => {
            last.append(&mut batch);
        }
        _ => {}
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

/// Refuses records that no source has: those of a loop's ledger, and observations.
fn refuse_own(records: &[Record]) -> Result<(), EngineError> {
    for record in records {
        let kind = record.kind.name();
        if record.kind.is_of_loop() {
            return Err(EngineError::NotTheLoop { kind });
        }
        if record.kind == RecordKind::Observation {
            return Err(EngineError::NotAnObservation { kind: kind.to_owned() });
        }
    }
    Ok(())
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(running) = &self.running_append {
            running.abort();
        }
        self.handle.end("the writer closed the session");
    }
}

/// Returns the current time, for display only.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
