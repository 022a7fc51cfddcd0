//! Follows a folder in which sessions of any agent appear and grow.
//!
//! A notification about a known file leads to its session, and nothing else is looked at. Any other
//! notification lists the folder again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use threadfold_core::SessionId;
use threadfold_fold::with_causes;

use crate::discover::{Discovery, FolderTree, list};
use crate::error::EngineError;
use crate::file_watcher::{FileChanges, FileWatcher};
use crate::files::Intake;
use crate::found_session::{Follow, FoundSession, LostContent, Stamp};
use crate::host::Host;
use crate::naming::SessionNames;
use crate::open_path::InputOptions;
use crate::session::{Options, Session};
use crate::transcript_observer::ObservedFollower;

/// A session without new records for this long is closed, so that other processes can write it.
const IDLE_AFTER: Duration = Duration::from_secs(30);
/// The delay before a failed session is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The time between two lists of the folder: where files are created one after another, and where
/// the file system has no notifications.
const LIST_INTERVAL: Duration = Duration::from_millis(300);

/// Follows all sessions in a folder, at any depth, and stores their new records.
pub struct FolderFollower {
    host: Host,
    folder: PathBuf,
    options: Box<dyn Fn() -> Options + Send>,
    /// Size and time of every file below the folder at the last poll.
    files: BTreeMap<PathBuf, FileStamp>,
    sessions: Vec<TrackedSession>,
    /// Paths below the folder that cannot be read, and why.
    unreadable: BTreeMap<PathBuf, String>,
    /// The last error reported for each path, and when.
    failures: BTreeMap<PathBuf, Failure>,
    watcher: FileWatcher,
    /// The session of each file, by its index.
    owners: BTreeMap<PathBuf, usize>,
    /// When the folder was last listed.
    listed: Option<Instant>,
    /// Something changed that the last list does not have.
    is_stale: bool,
}

type FileStamp = (u64, Option<SystemTime>);

/// A session of the folder.
struct TrackedSession {
    found: FoundSession,
    /// The stamp of its content when it was last read; `None` if it was not read yet.
    stamp: Option<Stamp>,
    open: Option<OpenSession>,
}

struct OpenSession {
    session: Session,
    follower: ObservedFollower,
    active: Instant,
}

struct Failure {
    reported: String,
    at: Instant,
}

/// The new records of one session, or an error of a session or a folder.
#[derive(Debug)]
pub struct FolderUpdate {
    /// The session; `None` if this is about a folder.
    pub session: Option<SessionId>,
    /// Its main file, or the folder.
    pub path: PathBuf,
    /// What was added, or an error. Failed reads are retried, and reported again only if the error
    /// changes.
    pub result: Result<Intake, EngineError>,
    /// What of the session's files is lost.
    pub losses: Vec<LostContent>,
}

impl FolderFollower {
    /// Returns a follower of `folder` that stores what it finds in the host's store.
    pub fn new(
        host: Host,
        folder: impl Into<PathBuf>,
        options: impl Fn() -> Options + Send + 'static,
    ) -> Self {
        let (files, sessions, unreadable, failures) = Default::default();
        Self {
            host,
            folder: folder.into(),
            options: Box::new(options),
            files,
            sessions,
            unreadable,
            failures,
            watcher: FileWatcher::new(LIST_INTERVAL),
            owners: BTreeMap::new(),
            listed: None,
            is_stale: true,
        }
    }

    /// Skips everything present now: only sessions that grow or appear later are read.
    pub fn skip_existing(&mut self) -> Result<(), EngineError> {
        let unreadable = |source| EngineError::File { path: self.folder.clone(), source };
        list(&self.folder).map_err(unreadable)?;
        self.files = self.watch_and_list();
        self.discover();
        self.is_stale = false;
        for tracked in &mut self.sessions {
            tracked.stamp = Some(tracked.found.content.stamp());
        }
        Ok(())
    }

    /// Waits until `poll` has something to do. Dropping the future loses nothing.
    pub async fn changed(&self) {
        let deadline = self.deadline().map(tokio::time::Instant::from_std);
        let is_due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.watcher.changed() => {}
            () = is_due => {}
        }
    }

    /// Returns when to poll although nothing changes: to close a session, to retry one, to record
    /// what was observed of one, or to list the folder.
    fn deadline(&self) -> Option<Instant> {
        let idle =
            self.sessions.iter().filter_map(|it| Some(it.open.as_ref()?.active + IDLE_AFTER));
        let retries = self.failures.values().map(|it| it.at + RETRY_AFTER);
        let observed = self.sessions.iter().filter_map(|it| it.open.as_ref()?.follower.deadline());
        let list = self.is_stale.then(|| self.next_list().unwrap_or_else(Instant::now));
        idle.chain(retries).chain(observed).chain(list).min()
    }

    /// Returns when the folder may be listed again; nothing if it was never listed.
    fn next_list(&self) -> Option<Instant> {
        self.listed.map(|it| it + LIST_INTERVAL)
    }

    /// Reads everything new in every session. An error in one does not stop the others.
    pub async fn poll(&mut self) -> Vec<FolderUpdate> {
        let mut updates = Vec::new();
        let mut changed = BTreeSet::new();
        // What the followers of the sessions have to know: that no file was added, or that any may
        // have been.
        let mut changes = FileChanges::Paths(BTreeSet::new());
        match self.watcher.take() {
            FileChanges::Paths(paths) => {
                for path in paths {
                    match self.owners.get(&path) {
                        Some(index) if path.is_file() => _ = changed.insert(*index),
                        _ => self.is_stale = true,
                    }
                }
            }
            FileChanges::Missed | FileChanges::Polled => self.is_stale = true,
        }
        let is_failed = |it: &TrackedSession| self.failures.contains_key(&it.found.place);
        changed.extend((0..self.sessions.len()).filter(|index| is_failed(&self.sessions[*index])));
        let has_failed_folder = self.failures.contains_key(&self.folder)
            || self.unreadable.keys().any(|it| self.failures.contains_key(it));
        if (self.is_stale || has_failed_folder)
            && self.next_list().is_none_or(|it| it <= Instant::now())
        {
            if let Err(error) = self.list_again(&mut updates) {
                let folder = self.folder.clone();
                self.report(None, &folder, error, &mut updates);
                return updates;
            }
            changed = (0..self.sessions.len()).collect();
            changes = FileChanges::Missed;
        }
        for index in changed {
            self.poll_session(index, &changes, &mut updates).await;
        }
        self.record_observed(&mut updates).await;
        self.close_idle(&mut updates).await;
        updates
    }

    /// Records changes of transcripts that were withheld because they followed others at once.
    async fn record_observed(&mut self, updates: &mut Vec<FolderUpdate>) {
        let now = Instant::now();
        for index in 0..self.sessions.len() {
            let Some(open) = &mut self.sessions[index].open else { continue };
            if open.follower.deadline().is_none_or(|it| it > now) {
                continue;
            }
            if let Err(error) = open.follower.record_pending(&mut open.session).await {
                let (id, place) =
                    (open.session.id().clone(), self.sessions[index].found.place.clone());
                self.report(Some(&id), &place, error, updates);
                self.close_one(index, updates).await;
            }
        }
    }

    /// Lists the folder, and discovers its sessions if any file is new, gone or changed.
    fn list_again(&mut self, updates: &mut Vec<FolderUpdate>) -> Result<(), EngineError> {
        self.listed = Some(Instant::now());
        let unreadable = |source| EngineError::File { path: self.folder.clone(), source };
        list(&self.folder).map_err(unreadable)?;
        self.failures.remove(&self.folder);
        let files = self.watch_and_list();
        self.is_stale = false;
        if files != self.files || !self.unreadable.is_empty() {
            self.files = files;
            self.discover();
        }
        for (path, why) in self.unreadable.clone() {
            let source = io::Error::other(why);
            let error = EngineError::File { path: path.clone(), source };
            self.report(None, &path, error, updates);
        }
        Ok(())
    }

    /// Watches all folders, and returns size and time of every file in them.
    fn watch_and_list(&mut self) -> BTreeMap<PathBuf, FileStamp> {
        self.listed = Some(Instant::now());
        loop {
            let tree = FolderTree::read(&self.folder);
            // What was listed before its folder was watched may have changed since.
            if !self.watcher.watch(tree.folders_matching(|_| true)) {
                return tree.files().filter_map(stamp_of_file).collect();
            }
        }
    }

    /// Discovers the folder's sessions again; followed sessions stay open.
    ///
    /// An open session whose file is gone stays open until it is idle: dropping it here would leave
    /// it without a summary, and hide why its file cannot be read.
    fn discover(&mut self) {
        let mut known: BTreeMap<PathBuf, Vec<TrackedSession>> = BTreeMap::new();
        for tracked in self.sessions.drain(..) {
            known.entry(tracked.found.place.clone()).or_default().push(tracked);
        }
        let found = Discovery::of_folder(&self.folder, &InputOptions::default());
        self.unreadable = found.unreadable.into_iter().collect();
        let mut at_place: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for found in &found.sessions {
            *at_place.entry(found.place.clone()).or_default() += 1;
        }
        for found in found.sessions {
            let is_alone = at_place.get(&found.place) == Some(&1);
            let same = known.get_mut(&found.place).and_then(|all| {
                let by_id = all.iter().position(|it| it.found.id == found.id);
                // The first lines of a file may lack the session id that a later line has.
                let index = by_id.or((is_alone && all.len() == 1).then_some(0))?;
                Some(all.swap_remove(index))
            });
            self.sessions.push(match same {
                Some(tracked) => TrackedSession { found, ..tracked },
                None => TrackedSession { found, stamp: None, open: None },
            });
        }
        self.sessions.extend(known.into_values().flatten().filter(|it| it.open.is_some()));
        // What is not looked at any more is not retried.
        let places: BTreeSet<&PathBuf> = self.sessions.iter().map(|it| &it.found.place).collect();
        let unreadable = &self.unreadable;
        self.failures.retain(|path, _| places.contains(path) || unreadable.contains_key(path));
        self.owners.clear();
        for (index, tracked) in self.sessions.iter().enumerate() {
            let files = tracked.found.content.files().unwrap_or_default();
            self.owners.extend(files.into_iter().map(|it| (it.path, index)));
        }
    }

    async fn poll_session(
        &mut self,
        index: usize,
        changes: &FileChanges,
        updates: &mut Vec<FolderUpdate>,
    ) {
        let place = self.sessions[index].found.place.clone();
        let stamp = self.sessions[index].found.content.stamp();
        let is_waiting = self.failures.get(&place).is_some_and(|it| it.at.elapsed() < RETRY_AFTER);
        if is_waiting {
            return;
        }
        if self.sessions[index].stamp == Some(stamp) {
            self.failures.remove(&place);
            return;
        }
        match self.read(index, changes).await {
            Ok((id, intake)) => {
                self.sessions[index].stamp = Some(stamp);
                self.failures.remove(&place);
                if intake.records > 0 {
                    let losses = self.sessions[index].found.content.losses();
                    let (session, path) = (Some(id), place);
                    updates.push(FolderUpdate { session, path, result: Ok(intake), losses });
                }
            }
            Err(error) => {
                let id = self.sessions[index].found.id.clone();
                self.report(Some(&id), &place, error, updates);
                self.close_one(index, updates).await;
            }
        }
    }

    async fn read(
        &mut self,
        index: usize,
        changes: &FileChanges,
    ) -> Result<(SessionId, Intake), EngineError> {
        let tracked = &mut self.sessions[index];
        if tracked.open.is_none() {
            // Unreadable content is reported before the session is created in the store.
            tracked.found.content.check()?;
            let id = SessionNames::new(self.host.store()).settle(&tracked.found).await?;
            let session = self.host.open(&id, (self.options)()).await?;
            let follower = ObservedFollower::new(tracked.found.content.follower());
            tracked.open = Some(OpenSession { session, follower, active: Instant::now() });
        }
        let Some(open) = &mut tracked.open else {
            return Ok((tracked.found.id.clone(), Intake::default()));
        };
        open.active = Instant::now();
        open.follower.notice(changes);
        let intake = open.follower.poll(&mut open.session, &mut |_| {}).await?;
        Ok((open.session.id().clone(), intake))
    }

    /// Reports an error, unless it was reported already.
    fn report(
        &mut self,
        session: Option<&SessionId>,
        path: &Path,
        error: EngineError,
        updates: &mut Vec<FolderUpdate>,
    ) {
        let failure = Failure { reported: with_causes(&error), at: Instant::now() };
        let is_known = self.failures.get(path).is_some_and(|it| it.reported == failure.reported);
        self.failures.insert(path.to_owned(), failure);
        if !is_known {
            let (session, path) = (session.cloned(), path.to_owned());
            updates.push(FolderUpdate { session, path, result: Err(error), losses: Vec::new() });
        }
    }

    /// Returns a session that is currently open.
    pub fn session(&self, id: &SessionId) -> Option<&Session> {
        let mut open = self.sessions.iter().filter_map(|it| it.open.as_ref());
        open.find(|it| it.session.id() == id).map(|it| &it.session)
    }

    /// Closes all sessions, storing unterminated last lines as far as they were written, and
    /// returns the first error.
    pub async fn close(mut self) -> Result<(), EngineError> {
        let mut closed = Ok(());
        for open in self.sessions.iter_mut().filter_map(|it| it.open.take()) {
            let OpenSession { mut session, mut follower, .. } = open;
            let kept = follower.flush_unterminated(&mut session).await.map(drop);
            closed = closed.and(kept).and(session.close().await.map(drop));
        }
        closed
    }

    async fn close_idle(&mut self, updates: &mut Vec<FolderUpdate>) {
        for index in 0..self.sessions.len() {
            let open = self.sessions[index].open.as_ref();
            if open.is_some_and(|it| it.active.elapsed() >= IDLE_AFTER) {
                self.close_one(index, updates).await;
            }
        }
    }

    async fn close_one(&mut self, index: usize, updates: &mut Vec<FolderUpdate>) {
        let Some(open) = self.sessions[index].open.take() else { return };
        let OpenSession { mut session, mut follower, .. } = open;
        let (id, path) = (session.id().clone(), self.sessions[index].found.place.clone());
        let recorded = follower.record_pending(&mut session).await;
        if let Err(error) = recorded.and(session.close().await.map(drop)) {
            let (session, losses) = (Some(id), Vec::new());
            updates.push(FolderUpdate { session, path, result: Err(error), losses });
        }
    }
}

/// Returns a file's path, size and time; `None` if it is gone.
fn stamp_of_file(path: &Path) -> Option<(PathBuf, FileStamp)> {
    let metadata = path.metadata().ok()?;
    Some((path.to_owned(), (metadata.len(), metadata.modified().ok())))
}
