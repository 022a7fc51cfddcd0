//! Follows the sessions that grow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Collector, Key, SessionStamp, is_busy};
use crate::error::EngineError;
use crate::file_watcher::{FileChanges, FileWatcher};
use crate::found_session::Follow;
use crate::transcript_observer::ObservedFollower;

/// The time between two searches at least, and how often folders without notifications are polled.
const SEARCH_INTERVAL: Duration = Duration::from_millis(300);
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long a session is followed after its last change.
const IDLE_AFTER: Duration = Duration::from_secs(30);
/// The delay before a failed session is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A session that is followed.
struct ActiveSession {
    follower: ObservedFollower,
    used: Instant,
    /// Its content must not be read before.
    rests_until: Instant,
}

/// What the follower waits for.
#[derive(Default)]
struct Agenda {
    active: BTreeMap<Key, ActiveSession>,
    /// What is to be read, and when.
    due: BTreeMap<Key, Instant>,
    /// When the machine is to be searched.
    search: Option<Instant>,
    places: Vec<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Collector {
    /// Follows what changes, for ever.
    pub(super) async fn follow(&self) {
        let mut watcher = FileWatcher::new(POLL_INTERVAL);
        let mut agenda = Agenda::default();
        // Watched before it is searched, so that nothing is missed in between.
        self.search_again(&mut watcher, &mut agenda).await;
        if watcher.watch(agenda.watched(self)) {
            agenda.search = Some(Instant::now() + SEARCH_INTERVAL);
        }
        loop {
            let deadline = agenda.deadline();
            tokio::select! {
                () = watcher.changed() => {}
                () = self.shared.stale.notified() => agenda.search_soon(),
                () = self.shared.held.notified() => self.take_held(&mut agenda),
                () = sleep_until(deadline) => {}
            }
            self.take_changes(&mut watcher, &mut agenda);
            if agenda.search.is_some_and(|it| it <= Instant::now()) {
                self.search_again(&mut watcher, &mut agenda).await;
            }
            for key in agenda.take_due() {
                self.follow_session(&key, &mut agenda).await;
            }
            agenda.active.retain(|_, it| it.used.elapsed() < IDLE_AFTER);
            if watcher.watch(agenda.watched(self)) {
                agenda.search_soon();
            }
        }
    }

    /// Notes what another process is importing: it may end before it is done.
    fn take_held(&self, agenda: &mut Agenda) {
        for (key, remaining) in std::mem::take(&mut self.state().held) {
            let due = Instant::now() + remaining.max(RETRY_AFTER);
            agenda.due.entry(key).or_insert(due);
        }
    }

    async fn search_again(&self, watcher: &mut FileWatcher, agenda: &mut Agenda) {
        agenda.search = None;
        let found = self.search_machine().await;
        (agenda.places, agenda.folders) = (found.places, found.folders);
        // A folder that is watched only now may have got something since.
        if watcher.watch(agenda.watched(self)) {
            agenda.search = Some(Instant::now() + SEARCH_INTERVAL);
        }
        let now = Instant::now();
        for key in found.changed {
            agenda.due.entry(key).or_insert(now);
        }
    }

    /// Notes what the platform reports: a known file leads to its session, and anything else to a
    /// search.
    fn take_changes(&self, watcher: &mut FileWatcher, agenda: &mut Agenda) {
        let paths = match watcher.take() {
            FileChanges::Paths(paths) => paths,
            FileChanges::Missed | FileChanges::Polled => return agenda.search_soon(),
        };
        let state = self.state();
        let now = Instant::now();
        for path in &paths {
            if !agenda.is_relevant(path) {
                continue;
            }
            let owners = state.owners.get(path).filter(|_| path.is_file());
            match owners.map(Vec::as_slice) {
                Some([only]) => _ = agenda.due.entry(only.clone()).or_insert(now),
                // A database: which of its sessions changed is known by their rows.
                Some(several) => {
                    for key in several {
                        if agenda.active.contains_key(key) {
                            agenda.due.entry(key.clone()).or_insert(now);
                        }
                    }
                    agenda.search_soon();
                }
                None => agenda.search_soon(),
            }
        }
    }

    async fn follow_session(&self, key: &Key, agenda: &mut Agenda) {
        let now = Instant::now();
        if let Some(active) = agenda.active.get(key).filter(|it| it.rests_until > now) {
            agenda.due.insert(key.clone(), active.rests_until);
            return;
        }
        match self.read_news(key, agenda).await {
            Ok(()) => {}
            Err(error) => {
                agenda.active.remove(key);
                if is_busy(&error) {
                    agenda.due.insert(key.clone(), Instant::now() + RETRY_AFTER);
                } else {
                    self.note_failure(key, &error);
                }
            }
        }
    }

    async fn read_news(&self, key: &Key, agenda: &mut Agenda) -> Result<(), EngineError> {
        let Some(found) = self.state().sessions.get(key).map(|it| it.found.clone()) else {
            return Ok(());
        };
        if self.shared.options.removed.contains(&found.id) {
            return Ok(());
        }
        let looks = SessionStamp::of(&found);
        let id = self.settle(&found).await?;
        if self.shared.options.removed.contains(&id) {
            return Ok(());
        }
        found.content.check()?;
        let mut session = self.shared.writers.write(&id).await?;
        let active = agenda.active.entry(key.clone()).or_insert_with(|| ActiveSession {
            follower: ObservedFollower::new(found.content.follower()),
            used: Instant::now(),
            rests_until: Instant::now(),
        });
        // Files may have been added since the follower was last asked.
        active.follower.notice(&FileChanges::Missed);
        let intake = active.follower.poll(&mut session, &mut |_| {}).await?;
        active.rests_until = Instant::now() + active.follower.pause();
        if intake.records > 0 {
            active.used = Instant::now();
        }
        // The last change is recorded although nothing follows it.
        if let Some(deadline) = active.follower.deadline() {
            agenda.due.entry(key.clone()).or_insert(deadline);
        }
        drop(session);
        self.note_done(key, looks);
        Ok(())
    }
}

impl Agenda {
    /// Returns the folders to watch: those of agents, and those of the sessions that are followed.
    fn watched(&self, collector: &Collector) -> BTreeSet<PathBuf> {
        let state = collector.state();
        let active = self.active.keys().filter_map(|it| state.sessions.get(it));
        let own = active.flat_map(|it| it.found.content.folders());
        own.filter(|it| it.is_dir()).chain(self.folders.iter().cloned()).collect()
    }

    /// Returns whether something in a place of an agent changed, or the way to one.
    fn is_relevant(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.starts_with(place) || place.starts_with(path))
            || self.folders.iter().any(|folder| path == folder)
    }

    fn search_soon(&mut self) {
        self.search.get_or_insert_with(|| Instant::now() + SEARCH_INTERVAL);
    }

    fn deadline(&self) -> Option<Instant> {
        let idle = self.active.values().map(|it| it.used + IDLE_AFTER);
        self.due.values().copied().chain(self.search).chain(idle).min()
    }

    /// Returns what is to be read now.
    fn take_due(&mut self) -> Vec<Key> {
        let now = Instant::now();
        let due: Vec<Key> =
            self.due.iter().filter(|it| *it.1 <= now).map(|it| it.0.clone()).collect();
        due.iter().for_each(|key| _ = self.due.remove(key));
        due
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
